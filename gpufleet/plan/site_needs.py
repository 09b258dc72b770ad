"""What cloud sites need to exist besides nodes and storage: endpoints, log groups and keys."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.kinds import DRAIN_SUFFIX, LOG_RETENTION_DAYS, STOP_SUFFIX
from gpufleet.plan.models import BucketPlan, KeyPlan, LogGroupPlan, LustrePlan
from gpufleet.plan.names import (
    CONTROL_PLANE,
    FLOW_LOGS_SUFFIX,
    MUNGE_SUFFIX,
    NETWORK,
    SERVERS_SUFFIX,
    SYSTEM,
    VPN_LOGS_SUFFIX,
)
from gpufleet.spec.models import CloudSite

PRIVATE_SERVICES = (
    "autoscaling",
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticloadbalancing",
    "fsx",
    "logs",
    "ssm",
    "ssmmessages",
    "sts",
)
"""What nodes call, and reach through interface endpoints where a site has no NAT."""


def interface_endpoints(site: CloudSite) -> tuple[str, ...]:
    """The services that have an interface endpoint in the site's network."""
    if site.network.nat != "none":
        return ()
    return (*PRIVATE_SERVICES, *(("sqs",) if site.interruptions else ()))


def flow_logs(name: str) -> LogGroupPlan:
    """The log group of the network's flow logs; `name` is that of the site's resources."""
    return LogGroupPlan(f"/gpufleet/{name}/flow-logs", LOG_RETENTION_DAYS)


def vpn_logs(name: str, site: CloudSite) -> LogGroupPlan | None:
    """The log group of the VPN's tunnels; None if they write no logs."""
    if not _logs_vpn(site):
        return None
    return LogGroupPlan(f"/aws/vendedlogs/gpufleet/{name}/vpn", LOG_RETENTION_DAYS)


def cluster_logs(name: str, site: CloudSite) -> LogGroupPlan | None:
    """The log group that EKS writes control-plane logs to; None on a Slurm site."""
    return LogGroupPlan(f"/aws/eks/{name}/cluster", LOG_RETENTION_DAYS) if _has_cluster(site) else None


def stop_logs(budget: str) -> LogGroupPlan:
    """The log group of the function that stops the growth of node groups; `budget` is the budget's name."""
    return LogGroupPlan(f"/aws/lambda/{budget}{STOP_SUFFIX}", LOG_RETENTION_DAYS)


def drain_logs(budget: str) -> LogGroupPlan:
    """The log group of the function that drains spot nodes; `budget` is the budget's name."""
    return LogGroupPlan(f"/aws/lambda/{budget}{DRAIN_SUFFIX}", LOG_RETENTION_DAYS)


def site_keys(
    name: str,
    site: CloudSite,
    lustre: Sequence[LustrePlan],
    buckets: Sequence[BucketPlan],
    file_systems: Sequence[str] = (),
) -> tuple[KeyPlan, ...]:
    """A key for each purpose: flow logs, logs of the VPN, the cluster, the `file_systems` of Slurm's servers,
    and each storage that brings none of its own."""
    storage = [item.name for item in buckets if item.kms_key is None]
    storage += [item.name for item in lustre if item.needs_key]
    return (
        KeyPlan(f"{name}{FLOW_LOGS_SUFFIX}", NETWORK),
        *([KeyPlan(f"{name}{VPN_LOGS_SUFFIX}", NETWORK)] if _logs_vpn(site) else []),
        *([KeyPlan(name, CONTROL_PLANE)] if _has_cluster(site) else []),
        *([KeyPlan(f"{name}{MUNGE_SUFFIX}", NETWORK)] if site.slurm is not None else []),
        *(KeyPlan(f"{name}{SERVERS_SUFFIX}-{each}", SYSTEM) for each in file_systems),
        *(KeyPlan(f"{name}-{owner}", owner) for owner in storage),
    )


def _logs_vpn(site: CloudSite) -> bool:
    return site.network.vpn is not None and site.network.vpn.logs


def _has_cluster(site: CloudSite) -> bool:
    return site.scheduler == "kubernetes"
