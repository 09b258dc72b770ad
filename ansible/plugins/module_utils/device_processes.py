"""Processes that use GPUs or RDMA adapters."""

from __future__ import annotations

import pwd
import re
from collections.abc import Collection
from pathlib import Path

GPU = "/dev/nvidia"
RDMA = "/dev/infiniband/uverbs"
# Services that use the driver without jobs.
SERVICES = ("nvidia-dcgm-exporter", "nvidia-dcgm", "nvidia-fabricmanager", "nvidia-persistenced")
# DGX OS' monitor, which stops its other services with the first (NVIDIA/mig-parted,
# deployments/container/nvidia-mig-manager-example.yaml, lists them among the users of GPUs).
NVSM = ("nvsm", "nvsm-core", "nvsm-mqtt", "nvsm-api-gateway", "nvsm-notifier")
# Their processes, with names truncated by the kernel.
_DAEMONS = frozenset({"dcgm-exporter", "nv-hostengine", "nv-fabricmanager"[:15], "nvidia-persistenced"[:15]})
# Programs that only show the state of GPUs.
MONITORS = frozenset({"nvidia-smi", "dcgmi", "nvtop"})
# The cgroup of a pod is named after its UID: `pod1234-5678` under the driver cgroupfs, and
# `kubepods-burstable-pod1234_5678.slice` under systemd, with `_` for `-` (Kubernetes,
# pkg/kubelet/cm/pod_container_manager_linux.go and cgroup_manager_linux.go).
_POD = re.compile(r"/(?:[a-z]+-)*pod([0-9A-Za-z_-]+?)(?:\.slice)?(?=/|$)", re.MULTILINE)


def device_processes(
    *devices: str,
    root: Path = Path("/"),
    ignored: frozenset[str] = frozenset(),
    pods: Collection[str] = (),
) -> list[str]:
    """Processes with an open device file whose path starts with one of `devices`, as `python3 (4711) of ada`.

    Left out are the driver's own daemons, NVSM, processes whose names are `ignored`, and those of `pods`,
    which are UIDs.
    """
    found = []
    for folder in root.glob("proc/[0-9]*"):
        name = text(folder / "comm")
        if name in _DAEMONS | ignored or not _opens(folder, devices):
            continue
        cgroup = text(folder / "cgroup")
        # A stand-in or wrapper is recognized by its unit.
        if any(f"{service}.service" in cgroup for service in SERVICES + NVSM) or _pods(cgroup) & set(pods):
            continue
        found.append(f"{name} ({folder.name}){_owner(folder)}")
    return sorted(found)


def text(path: Path) -> str:
    """The text of a small file, empty if it does not exist."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _pods(cgroup: str) -> set[str]:
    """UIDs of the pods in whose cgroups a process is."""
    return {match.replace("_", "-") for match in _POD.findall(cgroup)}


def _opens(folder: Path, devices: tuple[str, ...]) -> bool:
    try:
        return any(str(fd.readlink()).startswith(devices) for fd in folder.glob("fd/*"))
    except OSError:  # the process ended meanwhile
        return False


def _owner(folder: Path) -> str:
    try:
        user = folder.stat().st_uid
    except OSError:  # the process ended meanwhile
        return ""
    try:
        return f" of {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f" of user {user}"
