#!/usr/bin/python
"""The operating system of a host, and hardware facts for the roles."""

from __future__ import annotations

DOCUMENTATION = r"""
module: system
short_description: Facts about the operating system and hardware
description:
  - Refuses an unsupported system, before any change.
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Read the operating system
  gpufleet.rack.system:
"""

RETURN = r"""
ansible_facts:
  description: C(gpufleet_system), one of the supported systems; C(gpufleet_container), whether the host
    is a container; C(gpufleet_cgroup), its cgroup version; C(gpufleet_kubelet_cgroup_v1), whether a file
    in C(/etc/kubernetes/kubelet.conf.d) sets C(failCgroupV1) to false;
    C(gpufleet_numa_nodes), the number of NUMA nodes; C(gpufleet_gpu_numa), that of each
    NVIDIA GPU in the order of the PCI bus; C(gpufleet_mig), the MIG instances with their
    device files; C(gpufleet_slurm_site), the text of C(/etc/slurm/site.conf), null without one. Also, as in
    M(ansible.builtin.setup), C(kernel), C(architecture), C(memtotal_mb), C(processor_count),
    C(processor_cores), C(processor_threads_per_core), C(processor_nproc), and of C(default_ipv4) the
    C(address) and C(interface), if the host has a default route.
  type: dict
  returned: success
"""

import re
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.hardware import hardware
from ansible_collections.gpufleet.rack.plugins.module_utils.mig import read_state
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish

SYSTEMS = {
    ("debian", "12"): "debian_12",
    ("ubuntu", "22.04"): "ubuntu_22_04",
    ("ubuntu", "24.04"): "ubuntu_24_04",
}
# DGX OS is Ubuntu with NVIDIA's packages; a separate file has its version.
DGX = {"ubuntu_22_04": "dgx_os_6", "ubuntu_24_04": "dgx_os_7"}
SERVED = "Ubuntu 22.04 and 24.04, DGX OS 6 and 7, and Debian 12"


def parse_release(text: str) -> dict[str, str]:
    """Fields of /etc/os-release."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: value.strip().strip("\"'") for key, value in pairs}


def identify(release: str, dgx: bool) -> str | None:
    """The supported system for the text of /etc/os-release; None if it is not supported."""
    fields = parse_release(release)
    system = SYSTEMS.get((fields.get("ID", ""), fields.get("VERSION_ID", "")))
    if system and dgx:
        return DGX.get(system)
    return system


def numa_nodes(root: Path) -> int:
    """The number of NUMA nodes."""
    return len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or 1


def gpu_numa(root: Path) -> list[int]:
    """The NUMA node of each NVIDIA GPU, in the order of the driver; -1 if unknown."""
    found = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
            if vendor == "0x10de" and kind.startswith(("0x0300", "0x0302")):
                found.append(int((device / "numa_node").read_text()))
        except (OSError, ValueError):
            continue
    return found


def text_of(path: Path) -> str | None:
    """The text of a file, or None if there is none."""
    try:
        return path.read_text()
    except OSError:
        return None


def facts(root: Path = Path("/")) -> dict[str, Any]:
    """Facts of the host; raises for an unsupported system."""
    try:
        release = (root / "etc/os-release").read_text()
    except OSError:
        release = ""
    dgx = (root / "etc/dgx-release").exists()
    system = identify(release, dgx)
    if system is None:
        name = parse_release(release).get("PRETTY_NAME", "an unknown system")
        raise RefusalError(
            f"The host runs {name}{' with DGX OS' if dgx else ''}; the roles serve {SERVED}. "
            "Install one of these, or take the host out of the fleet file."
        )
    container = subprocess.run(
        ["systemd-detect-virt", "--container", "--quiet"], check=False, capture_output=True
    )
    return {
        **hardware(root),
        "gpufleet_system": system,
        "gpufleet_container": container.returncode == 0,
        "gpufleet_numa_nodes": numa_nodes(root),
        "gpufleet_gpu_numa": gpu_numa(root),
        "gpufleet_mig": read_state(root / "run/gpufleet/mig.json"),
        "gpufleet_slurm_site": text_of(root / "etc/slurm/site.conf"),
        "gpufleet_cgroup": 2 if (root / "sys/fs/cgroup/cgroup.controllers").exists() else 1,
        "gpufleet_kubelet_cgroup_v1": any(
            re.search(r"(?m)^failCgroupV1: *false\s*$", path.read_text())
            for path in (root / "etc/kubernetes/kubelet.conf.d").glob("*.conf")
        ),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    finish(module, lambda: {"changed": False, "ansible_facts": facts()})


if __name__ == "__main__":
    main()
