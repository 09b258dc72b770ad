"""NVSentinel of a Kubernetes site: the GPU Operator's DCGM, GPUs to watch, and time for pods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.spec.models import CloudSite, FaultRepair, Kubernetes

_MINUTE = timedelta(minutes=1)


@check("fault-repair-stack")
def fault_repair_stack(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVSentinel reads GPUs from the DCGM service of the GPU Operator, and finds GPU nodes by the operator's
    labels (NVIDIA/NVSentinel README, "Prerequisites")."""
    for path, site, settings, _ in _installed(fleet):
        if settings.gpu_stack != "gpu-operator":
            yield FieldFinding(
                (*path, "kubernetes", "gpu_stack"),
                f"NVSentinel of site {site.site!r} needs DCGM, and {settings.gpu_stack} has none",
                "write 'gpu_stack: gpu-operator', or remove `fault_repair`",
                value=settings.gpu_stack,
            )


@check("fault-repair-of-nothing", "node_groups")
def fault_repair_of_nothing(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVSentinel watches NVIDIA GPUs only: its monitors never start on other nodes."""
    for path, site, _, _ in _installed(fleet):
        if not any(item.gpu is not None for group in site.node_groups for item in fleet.types(group)):
            yield FieldFinding(
                (*path, "kubernetes", "fault_repair"),
                f"no node group of site {site.site!r} has NVIDIA GPUs",
                "remove `fault_repair`, or add a group with GPUs",
                "warning",
                value=site.site,
            )


@check("drain-after")
def drain_after(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVSentinel counts whole minutes (`node-drainer.deleteAfterTimeoutMinutes`), and takes 0 for 60."""
    for path, site, _, wanted in _installed(fleet):
        if wanted.drain_after.delta % _MINUTE:
            yield FieldFinding(
                (*path, "kubernetes", "fault_repair", "drain_after"),
                f"pods of site {site.site!r} may go on for {wanted.drain_after}",
                "write whole minutes, '1 min' or more; '1 h' is the default",
            )


def _installed(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, Kubernetes, FaultRepair]]:
    for path, site in fleet.cloud():
        settings = site.kubernetes
        if site.scheduler != "kubernetes" or settings is None or settings.fault_repair is None:
            continue
        if settings.fault_repair.kind != "none":
            yield path, site, settings, settings.fault_repair


CHECKS = (fault_repair_stack, fault_repair_of_nothing, drain_after)
