"""The user data of a node group: gpufleet's own parts, then those of the fleet file."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog import InstanceType
from gpufleet.plan.image_models import LocalNvmePlan
from gpufleet.plan.node_programs import lustre_over_efa, mount_scratch
from gpufleet.spec.models import CloudSite, NodeGroup

SCRATCH = "/scratch"
"""Where Slurm nodes see their NVMe drives unless the fleet file says so."""

STRIPE_IN_EKS = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""
"""nodeadm stripes all instance store volumes and moves containerd, the kubelet's folder and pod logs there
(awslabs/amazon-eks-ami: nodeadm API, LocalStorageOptions; templates/al2023/runtime/bin/setup-local-disks)."""


def plan_local_nvme(site: CloudSite, group: NodeGroup, types: Sequence[InstanceType]) -> LocalNvmePlan | None:
    """Return the striped drives of a group's nodes; None if they have none or are left unused."""
    wanted = group.local_nvme
    if wanted.use == "none" or not types or not all(item.nvme for item in types):
        return None
    drives = sum(count for count, _ in types[0].nvme)
    size = sum(count * each for count, each in types[0].nvme)
    slurm = site.scheduler == "slurm"
    return LocalNvmePlan(drives, size, (wanted.mount or SCRATCH) if slurm else None)


def plan_user_data(
    group: NodeGroup, local_nvme: LocalNvmePlan | None, lustre_interfaces: int
) -> tuple[str, ...]:
    """Return the parts of the user data, gpufleet's own first: of two NodeConfigs the last one wins.

    `lustre_interfaces` are the EFA interfaces over which a node reaches the site's file systems.
    """
    own: list[str] = []
    if local_nvme is not None:
        own.append(STRIPE_IN_EKS if local_nvme.mount is None else mount_scratch(local_nvme.mount))
    if lustre_interfaces:
        own.append(lustre_over_efa(lustre_interfaces))
    return (*own, *group.user_data)
