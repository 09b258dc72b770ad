"""The software channel: known, compatible with all GPUs of the fleet, and supported."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed
from gpufleet.spec.models import Kubernetes

_CHANNEL: SpecPath = ("software", "channel")

BEFORE_TURING = frozenset({"V100", "P100", "P40", "P4", "M60", "M40", "K80", "K520"})
"""Data centre GPUs without a GSP: Volta, Pascal, Maxwell and Kepler."""

LAST_BRANCH_BEFORE_TURING = 580


@check("channel-known")
def channel_known(fleet: Fleet) -> Iterator[FieldFinding]:
    """The versions of drivers, CUDA, NCCL and other software come from the channel's lock."""
    channel = fleet.spec.software.channel
    if channel not in fleet.catalog.locks:
        yield FieldFinding(
            _CHANNEL,
            f"software channel {channel!r} is not in the catalog",
            did_you_mean(
                fleet.catalog.suggest_channel(channel), f"use one of {listed(sorted(fleet.catalog.locks))}"
            ),
        )


@check("driver-runs-gpu")
def driver_runs_gpu(fleet: Fleet) -> Iterator[FieldFinding]:
    """A driver branch does not support GPUs released after it (supported devices of the EKS GPU images,
    awslabs/amazon-eks-ami)."""
    lock = fleet.catalog.locks.get(fleet.spec.software.channel)
    if lock is None:
        return
    used = [
        (f"{each.site.site}/{each.group.name}", {item.gpu for item in fleet.types(each.group)})
        for each in fleet.groups()
    ]
    used += [
        (site.site, {system.gpu})
        for _, site in fleet.onprem()
        if (system := fleet.catalog.systems.get(site.system)) is not None
    ]
    for gpu, needed in lock.gpus_min_driver.items():
        names = [name for name, gpus in used if gpu in gpus]
        if names and needed > lock.driver_branch:
            able = [name for name, other in fleet.catalog.locks.items() if other.driver_branch >= needed]
            yield FieldFinding(
                _CHANNEL,
                f"driver {lock.driver} of channel {lock.channel} does not support {gpu}"
                f" ({listed(names, 4)}), which needs branch {needed} or later",
                f"use channel {listed(sorted(able))}" if able else "wait for a channel with that branch",
            )


@check("open-kernel-modules")
def open_kernel_modules(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVIDIA's open kernel modules need Turing or newer, and branch 580 is the last with modules for older
    GPUs (NVIDIA Driver Installation Guide, "Kernel Modules"). Slurm nodes in the cloud start from AWS's Deep
    Learning Base OSS image, which has only the open ones. EKS images have both and choose by the GPU."""
    lock = fleet.catalog.locks.get(fleet.spec.software.channel)
    newer = lock is not None and lock.driver_branch > LAST_BRANCH_BEFORE_TURING
    for each in fleet.groups():
        for item in fleet.types(each.group):
            if item.gpu in BEFORE_TURING and (newer or each.site.scheduler == "slurm"):
                yield FieldFinding(
                    (*each.path, "instance_types", each.group.instance_types.index(item.name)),
                    f"{item.name} has {item.gpu} GPUs, but the nodes of {each.name} run NVIDIA's open kernel"
                    " modules, which need Turing or newer",
                    "use a newer type, such as g4dn.xlarge (T4)"
                    + ("" if newer else ", or a site with 'scheduler: kubernetes'"),
                )
    for path, site in fleet.onprem():
        system = fleet.catalog.systems.get(site.system)
        if system is not None and system.gpu in BEFORE_TURING and newer:
            yield FieldFinding(
                (*path, "system"),
                f"{system.title} has {system.gpu} GPUs, but channel {fleet.spec.software.channel} has only"
                " open kernel modules, which need Turing or newer",
                f"use a channel of driver branch {LAST_BRANCH_BEFORE_TURING} or older",
            )


@check("channel-driver-in-cloud")
def channel_driver_in_cloud(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS nodes run the driver of their image; gpufleet does not replace it. If the channel has another
    driver branch, racks and cloud nodes run different drivers."""
    lock = fleet.catalog.locks.get(fleet.spec.software.channel)
    if lock is None:
        return
    sites = [
        each.site.site
        for each in fleet.groups()
        if each.site.scheduler == "kubernetes" and any(item.gpu for item in fleet.types(each.group))
    ]
    if sites and _branch(lock.eks_ami_driver) != lock.driver_branch:
        same = [n for n, o in fleet.catalog.locks.items() if o.driver_branch == _branch(o.eks_ami_driver)]
        yield FieldFinding(
            _CHANNEL,
            f"channel {lock.channel} locks driver {lock.driver}, but the EKS images of"
            f" {listed(list(dict.fromkeys(sites)), 4)} have {lock.eks_ami_driver}",
            f"use channel {listed(sorted(same))}"
            if same
            else "wait for a channel with the driver branch of the images",
        )


def _branch(driver: str) -> int:
    return int(driver.partition(".")[0])


@check("driver-support")
def driver_support(fleet: Fleet) -> Iterator[FieldFinding]:
    """A driver branch after its end of support gets no security fixes (NVIDIA Data Center Drivers, support
    table). It still works, so this is a warning."""
    lock = fleet.catalog.locks.get(fleet.spec.software.channel)
    if lock is not None and fleet.now.strftime("%Y-%m") > lock.driver_eol:
        alive = [
            name
            for name, other in fleet.catalog.locks.items()
            if other.driver_eol >= fleet.now.strftime("%Y-%m")
        ]
        yield FieldFinding(
            _CHANNEL,
            f"driver branch {lock.driver_branch} of channel {lock.channel} is supported only until"
            f" {lock.driver_eol}",
            f"use channel {listed(sorted(alive))}"
            if alive
            else "install a newer gpufleet with newer channels",
            "warning",
        )


@check("kubernetes-version")
def kubernetes_version(fleet: Fleet) -> Iterator[FieldFinding]:
    """A channel's images and plugins support certain versions of Kubernetes."""
    lock = fleet.catalog.locks.get(fleet.spec.software.channel)
    for path, site in fleet.cloud():
        if lock is None or site.scheduler != "kubernetes":
            continue
        version = (site.kubernetes or Kubernetes()).version
        if version not in lock.kubernetes:
            yield FieldFinding(
                (*path, "kubernetes", "version"),
                f"channel {lock.channel} does not support Kubernetes {version}",
                f"write one of {listed(lock.kubernetes)}",
                value=version,
            )


CHECKS = (
    channel_known,
    driver_runs_gpu,
    open_kernel_modules,
    channel_driver_in_cloud,
    driver_support,
    kubernetes_version,
)
