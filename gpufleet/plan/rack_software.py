"""Where the software of a rack site comes from, and its version where that is known before a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpufleet.catalog.models import SoftwareLock, System
from gpufleet.plan.rack_models import (
    MonitoringPlan,
    RackKubernetesPlan,
    RackPlan,
    RackSoftwarePlan,
    SoftwareSource,
)

DISTRIBUTION_SLURM = {"Debian 12": "22.05.8", "Ubuntu 24.04 and DGX OS 7": "23.11.4"}
"""Slurm by system (packages.debian.org/bookworm/slurmd, packages.ubuntu.com/noble/slurmd, 2026-11)."""

NO_CONTAINERS = (
    "no distribution and no repository of NVIDIA has them: set `package_mirror` of the site to a repository"
    " with enroot, enroot+caps and nvslurm-plugin-pyxis"
)


def plan_software(
    rack: RackPlan, mounts: Collection[str], system: System, lock: SoftwareLock
) -> tuple[RackSoftwarePlan, ...]:
    """The software that the roles install on a site; `mounts` are the kinds of its file systems.

    On a site with a mirror, hosts have no other repository than those of the distribution and the mirror.
    """
    found = [*_gpu_nodes(rack, system, lock)]
    if rack.slurm is not None:
        found += _slurm(rack, lock)
    if rack.kubernetes is not None:
        found += _kubernetes(rack.kubernetes, lock)
    if "lustre" in mounts:
        source: SoftwareSource = "mirror" if rack.package_mirror else "host"
        found.append(RackSoftwarePlan("Lustre client", None, source, "the release that fits the kernel"))
    if rack.monitoring_settings is not None:
        found += _monitoring(rack.monitoring_settings)
    return tuple(_mirrored(item) for item in found) if rack.package_mirror else tuple(found)


def plan_slurm_software(rack: RackPlan, lock: SoftwareLock) -> tuple[RackSoftwarePlan, ...]:
    """The software of Slurm's servers, which have no GPUs."""
    return tuple(each for each in _slurm(rack, lock) if each.name == "Slurm")


def _mirrored(item: RackSoftwarePlan) -> RackSoftwarePlan:
    """The same from the mirror, if it would come from a vendor's repository."""
    if item.source in ("nvidia", "vendor", "site"):
        return RackSoftwarePlan(item.name, item.version, "mirror", item.note)
    return item


def _gpu_nodes(rack: RackPlan, system: System, lock: SoftwareLock) -> Iterator[RackSoftwarePlan]:
    yield RackSoftwarePlan("NVIDIA driver", lock.driver, "nvidia", "modules are built on the nodes (DKMS)")
    if system.nvswitches != 0:
        yield RackSoftwarePlan("Fabric Manager", lock.fabric_manager, "nvidia")
    yield RackSoftwarePlan("NCCL", lock.nccl, "nvidia", f"for CUDA {lock.cuda.partition('.')[0]}")
    yield RackSoftwarePlan(
        "nccl-tests", lock.nccl_tests, "built", "on the nodes, only with the role variable nccl_tests_archive"
    )
    if rack.package_mirror:
        yield RackSoftwarePlan("GDRCopy", lock.gdrcopy, "mirror")
    else:
        yield RackSoftwarePlan(
            "GDRCopy", None, "none", "NVIDIA has it as files only: `package_mirror` must have it"
        )
    yield RackSoftwarePlan("DCGM", lock.dcgm, "nvidia")
    yield RackSoftwarePlan("DCGM exporter", lock.dcgm_exporter, "nvidia")
    yield RackSoftwarePlan("NVIDIA Container Toolkit", lock.container_toolkit, "nvidia")
    doca: SoftwareSource = "site" if rack.doca_repository else "nvidia"
    yield RackSoftwarePlan("DOCA-OFED", lock.doca_ofed, doca, rack.doca_repository or "")


def _slurm(rack: RackPlan, lock: SoftwareLock) -> Iterator[RackSoftwarePlan]:
    there = ", ".join(f"{version} on {system}" for system, version in DISTRIBUTION_SLURM.items())
    note = f"{there}, not the software channel's {lock.slurm}; Ubuntu 22.04 and DGX OS 6 need slurm-smd-* in"
    yield RackSoftwarePlan("Slurm", None, "distribution", f"{note} `package_mirror`")
    if rack.package_mirror:
        note = "`package_mirror` must have them, built for the Slurm that runs"
        yield RackSoftwarePlan("Pyxis and Enroot", None, "mirror", note)
    else:
        yield RackSoftwarePlan("Pyxis and Enroot", None, "none", NO_CONTAINERS)


def _kubernetes(kubernetes: RackKubernetesPlan, lock: SoftwareLock) -> Iterator[RackSoftwarePlan]:
    release = lock.kubernetes_releases.get(kubernetes.version)
    yield RackSoftwarePlan("Kubernetes", release, "vendor", "pkgs.k8s.io")
    yield RackSoftwarePlan("containerd", lock.containerd, "vendor", "download.docker.com")
    yield RackSoftwarePlan("Helm", lock.helm, "vendor", "packages.buildkite.com/helm-linux")
    yield RackSoftwarePlan(kubernetes.cni, lock.cni.get(kubernetes.cni), "vendor", "Helm chart")
    if kubernetes.gpu_operator:
        yield RackSoftwarePlan("GPU Operator", lock.gpu_operator, "nvidia", "Helm chart")
    if kubernetes.network_operator:
        yield RackSoftwarePlan("Network Operator", lock.network_operator, "nvidia", "Helm chart")
    if kubernetes.kueue:
        yield RackSoftwarePlan("Kueue", lock.kueue, "vendor", "Helm chart")


def _monitoring(monitoring: MonitoringPlan) -> Iterator[RackSoftwarePlan]:
    yield RackSoftwarePlan("Prometheus, Alertmanager, node exporter", None, "distribution")
    if monitoring.grafana:
        yield RackSoftwarePlan("Grafana", None, "vendor", "apt.grafana.com")
