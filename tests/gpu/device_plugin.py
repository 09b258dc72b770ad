"""What NVIDIA's device plugin and feature discovery do on a real GPU, whole and shared by four pods.

    python -m tests.gpu.device_plugin PROGRAMS OUT.json

PROGRAMS is a folder with nvidia-device-plugin and gpu-feature-discovery, built from NVIDIA's
k8s-device-plugin. Needs root, grpcio and protobuf. MPS is left out: its daemon sets the GPU's compute mode.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import grpc

from tests.gpu.kubelet import plugin

# As `gpufleet.plan.gpu_sharing` writes them, which a host with a GPU lacks the packages for; a test of the
# capture compares the two.
CONFIGS: dict[str, Any] = {
    "none": {"version": "v1"},
    "time_slicing": {
        "version": "v1",
        "sharing": {
            "timeSlicing": {
                "renameByDefault": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
                "failRequestsGreaterThanOne": True,
            }
        },
    },
}


def labels(program: Path, config: Path, folder: Path) -> dict[str, str]:
    """The node labels that feature discovery writes, without the time at which it wrote them."""
    file = folder / "labels"
    command = [
        program,
        "--oneshot",
        "--use-node-feature-api=false",
        f"--config-file={config}",
        f"--output-file={file}",
    ]
    subprocess.run(command, check=True, timeout=60)
    found = dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
    found.pop("nvidia.com/gfd.timestamp", None)
    return dict(sorted(found.items()))


def main() -> None:
    """Write what each configuration gives."""
    programs, out = Path(sys.argv[1]), Path(sys.argv[2])
    found = {}
    for name, config in CONFIGS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            text = json.dumps(config)
            with plugin(programs / "nvidia-device-plugin", folder, text) as (kubelet, resource, socket):
                devices = kubelet.devices(socket)
                one = kubelet.allocate(socket, [devices[0]["ID"]])
                found[name] = {"config": config, "resource": resource, "devices": devices, "one": one}
                if len(devices) > 1:
                    try:
                        kubelet.allocate(socket, [device["ID"] for device in devices[:2]])
                    except grpc.RpcError as error:
                        found[name]["two"] = error.details()
            found[name]["labels"] = labels(programs / "gpu-feature-discovery", folder / "config.yaml", folder)
    version = subprocess.run(
        [programs / "nvidia-device-plugin", "--version"], capture_output=True, text=True, check=True
    )
    found["version"] = version.stdout.strip()
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
