"""NVIDIA's device plugin with the configurations of shared GPUs, on the kit's NVML: what it registers is what
the plan says that pods request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpufleet.plan.gpu_sharing import SharingKind, config_text, resource_name
from tests.captures import H100, load_capture
from tests.gpu.kubelet import Kubelet, plugin
from tests.kube.cluster_programs import nvml_header, program

pytestmark = pytest.mark.xdist_group("kube")

DRIVER = "580.159.03"
SOURCE = Path("tests/rack/kit/cluster/nvml.c")
GPUS = 8


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder with the NVML of a host with eight GPUs, whose driver is loaded."""
    folder = tmp_path_factory.mktemp("nvml")
    site = {"system": "dgx-h100", "hosts": [{"name": "dgx01", "role": "gpu"}], "fabric": "infiniband"}
    command = [sys.executable, "tests/rack/kit/describe.py", str(folder / "hosts")]
    subprocess.run(command, input=json.dumps(site), text=True, check=True, timeout=300)
    version = folder / "kernel/module/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(f"{DRIVER}\n")
    flags = [f'-DDRIVER="{DRIVER}"', "-DCUDA=13000", f'-DHARDWARE="{folder}/hosts/dgx01/gpus"']
    flags += [f'-DKERNEL="{folder}/kernel"', f"-I{nvml_header()}", "-Wl,-soname,libnvidia-ml.so.1"]
    built = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", built, SOURCE], check=True, timeout=300)
    return str(folder)


@pytest.fixture(params=["none", "time_slicing"])
def registered(
    request: pytest.FixtureRequest, tmp_path: Path, library: str
) -> Iterator[tuple[SharingKind, Kubelet, str, str]]:
    """The plugin with a configuration: how pods share, the kubelet, the resource and the plugin's socket."""
    text = config_text(request.param, 4, None)
    environment = {"LD_LIBRARY_PATH": library}
    with plugin(program("nvidia-device-plugin"), tmp_path, text, environment) as (kubelet, resource, socket):
        yield request.param, kubelet, resource, socket


def test_plugin_registers_what_pods_of_the_plan_request(
    registered: tuple[SharingKind, Kubelet, str, str],
) -> None:
    kind, kubelet, resource, socket = registered
    shared = kind != "none"
    assert resource == resource_name(mig_profile=None, shared=shared)
    devices = kubelet.devices(socket)
    assert len(devices) == GPUS * (4 if shared else 1)
    assert {device["health"] for device in devices} == {"Healthy"}
    one = kubelet.allocate(socket, [devices[0]["ID"]])
    assert one["envs"]["NVIDIA_VISIBLE_DEVICES"] == devices[0]["ID"].split("::")[0]
    if shared:
        with pytest.raises(grpc.RpcError, match="maximum request size for shared resources is 1; found 2"):
            kubelet.allocate(socket, [device["ID"] for device in devices[:2]])
    else:
        assert kubelet.allocate(socket, [device["ID"] for device in devices[:2]])["envs"]


@pytest.mark.parametrize("kind", ["none", "time_slicing"])
def test_real_h100_is_registered_in_the_same_way(kind: SharingKind) -> None:
    """What the plugin did on a virtual machine with one H100 (tests/gpu/device_plugin.py)."""
    real: dict[str, Any] = load_capture(f"{H100}/device-plugin.json")[kind]
    assert real["config"] == json.loads(config_text(kind, 4, None))
    assert real["resource"] == resource_name(mig_profile=None, shared=kind != "none")
    assert len(real["devices"]) == (4 if kind != "none" else 1)
    assert real["one"]["envs"]["NVIDIA_VISIBLE_DEVICES"] == real["devices"][0]["ID"].split("::")[0]
    assert ("two" in real) == (kind != "none")
