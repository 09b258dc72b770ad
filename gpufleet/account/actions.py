"""IAM actions that `up` of a fleet needs, the resources that they act on, and service-linked roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpufleet.account import action_table as table
from gpufleet.account.needs import RegionNeeds
from gpufleet.kinds import LAUNCHER_SUFFIX
from gpufleet.plan.capacity_models import CapacityBlockPlan, ExistingBlockPlan, ReservationPlan
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from gpufleet.plan.names import SERVERS_SUFFIX

LINKED_ROLE = "iam:CreateServiceLinkedRole"


class ActionSet(Struct, frozen=True):
    """Actions on the same resources: ARNs with `*` only where AWS names them."""

    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)


def action_sets(needs: RegionNeeds, partition: str, account: str) -> Iterator[ActionSet]:
    """Yield the actions that `up` needs in a region.

    Names in AWS have a random suffix: `-0000000` stands for it.
    """
    general = {*table.KEYS, *table.BUDGET, *((*table.STOP, *table.PARAMETERS) if needs.stop_role else ())}
    if needs.anomalies:
        general |= set(table.ANOMALIES)
    if needs.drain_role:
        general |= set(table.AUTOSCALED)
    for site in needs.sites:
        general |= {*table.NETWORK, *_of_site(site.plan)}
        if (
            needs.stop_role
            and site.plan.kubernetes is not None
            and site.plan.kubernetes.karpenter is not None
        ):
            general |= set(table.DENIALS)
    yield ActionSet(tuple(sorted(general)))
    names = [f"{site.name}-node" for site in needs.sites]
    names += [role for role in (needs.stop_role, needs.drain_role) if role]
    for site in needs.sites:
        names += _slurm_roles(site.name, site.plan)
    roles = tuple(f"arn:{partition}:iam::{account}:role/{name}-0000000" for name in names)
    yield ActionSet(table.ROLES, roles)
    buckets = tuple(
        f"arn:{partition}:s3:::{item.bucket}" for site in needs.sites for item in site.plan.buckets
    )
    if buckets:
        yield ActionSet(table.BUCKET, buckets)


def _slurm_roles(name: str, site: CloudSitePlan) -> list[str]:
    """Return the names of a site's roles for Slurm: what controllers assume, or those of its servers."""
    if site.slurm is None:
        return []
    if site.slurm.servers is None:
        return [f"{name}{LAUNCHER_SUFFIX}"]
    roles = dict.fromkeys(each.role for each in site.slurm.servers.servers)
    return [f"{name}{SERVERS_SUFFIX}-{role}" for role in roles]


def _of_site(site: CloudSitePlan) -> Iterator[str]:
    yield from table.PROFILES
    if site.node_groups or site.kubernetes is not None:
        yield from table.LAUNCH
    if site.interface_endpoints:
        yield from table.PRIVATE_NAMES
    if site.kubernetes is not None:
        yield from (*table.CLUSTER, *(table.SESSIONS if site.kubernetes.access == "ssm" else ()))
        if site.kubernetes.autoscaler is not None:
            yield from table.AUTOSCALED
    elif site.slurm is not None:
        yield from (*table.PARAMETERS, *table.LAUNCHER)
        if site.slurm.servers is not None:
            yield from (*table.SERVERS, *(table.SHARED_FILES if site.slurm.servers.file_systems else ()))
    elif site.node_groups:
        yield from table.SCALING
    kinds = [type(group.capacity) for group in site.node_groups]
    if CapacityBlockPlan in kinds:
        yield from table.BLOCKS
    if ReservationPlan in kinds:
        yield from table.RESERVATIONS
    capacities = [group.capacity for group in site.node_groups]
    if any(isinstance(each, ReservationPlan) and each.share_with for each in capacities):
        yield from table.SHARES
    if any(
        isinstance(each, CapacityBlockPlan | ExistingBlockPlan) and each.extensions for each in capacities
    ):
        yield from table.EXTENSIONS
    if any(group.ordered for group in site.node_groups):
        yield from table.ORDERS
    if site.lustre:
        yield from table.LUSTRE
    if site.interruptions is not None:
        yield from table.NOTICES
    yield from _of_connections(site)


def _of_connections(site: CloudSitePlan) -> Iterator[str]:
    if site.vpn is not None or site.direct_connect is not None:
        yield from table.PRIVATE_GATEWAY
    if site.vpn is not None:
        yield from (*table.VPN, *(table.STATIC_ROUTES if site.vpn.static else ()))
        yield from table.TUNNEL_LOGS if site.vpn.logs else ()
    if site.direct_connect is not None:
        yield from table.DIRECT_CONNECT if site.direct_connect.owner is None else table.PROPOSAL
    if site.dns is not None:
        yield from (*table.DNS, *(table.DNS_RULES if site.dns.forward else ()))


def linked_roles(plan: FleetPlan) -> Mapping[str, str]:
    """Return service -> name of each service-linked role that the fleet uses.

    AWS creates them at the first use, if the caller may (IAM user guide, "Create a service-linked role").
    Names: the user guides of EC2 Auto Scaling, EKS and FSx for Lustre. The role of a link to S3 is made for
    each file system, and has no fixed name. That of spot instances is made by who launches them: EC2 Auto
    Scaling, Karpenter and the controllers of Slurm may. Fleets of Slurm are `instant`, which need none (EC2
    User Guide, "EC2 Fleet prerequisites").
    """
    found: dict[str, str] = {}
    if any(site.kubernetes or (site.node_groups and site.slurm is None) for site in plan.cloud):
        found["autoscaling.amazonaws.com"] = "AWSServiceRoleForAutoScaling"
    if any(site.kubernetes for site in plan.cloud):
        found["eks.amazonaws.com"] = "AWSServiceRoleForAmazonEKS"
        found["eks-nodegroup.amazonaws.com"] = "AWSServiceRoleForAmazonEKSNodegroup"
    if any(site.lustre for site in plan.cloud):
        found["fsx.amazonaws.com"] = "AWSServiceRoleForAmazonFSx"
    return found


def s3_linked(plan: FleetPlan) -> bool:
    """Return whether a file system is linked to a bucket."""
    return any(item.import_bucket is not None for site in plan.cloud for item in site.lustre)


S3_LINK = "s3.data-source.lustre.fsx.amazonaws.com"
"""The service whose linked role reads and writes the bucket of a file system."""
