"""Who reaches what: the Kubernetes API, registries of images, and Slurm nodes in the cloud."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rules import FieldFinding, Fleet, check
from gpufleet.spec.models import Kubernetes

ADMIN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+")


@check("private-endpoint")
def private_endpoint(fleet: Fleet) -> Iterator[FieldFinding]:
    """A rule for everybody is no rule: every network that is ever connected to the site's, and whatever
    in it is taken over, could try the Kubernetes API. EC2 refuses one rule twice."""
    for path, site in fleet.cloud():
        cidrs = site.kubernetes.private_cidrs if site.kubernetes is not None else ()
        for index, text in enumerate(cidrs):
            where = (*path, "kubernetes", "private_cidrs", index)
            network = parse_network(text)
            if network is not None and network.prefixlen == 0:
                yield FieldFinding(
                    where,
                    f"{text} opens the private Kubernetes API to every connected network",
                    "name the networks that need it, such as a VPN's or the racks'",
                )
            elif text in cidrs[:index]:
                yield FieldFinding(where, f"{text} is named twice", "name it once")


@check("cluster-unreachable")
def cluster_unreachable(fleet: Fleet) -> Iterator[FieldFinding]:
    """The endpoint is private and its security group admits members alone (EKS User Guide, "Cluster
    API server endpoint"), so without a network that is let in, neither `kubectl` nor the run that
    installs teams and device plugins reaches it."""
    for path, site in fleet.cloud():
        settings = site.kubernetes or Kubernetes()
        if site.scheduler == "kubernetes" and not settings.private_cidrs and not settings.public_cidrs:
            yield FieldFinding(
                (*path, "kubernetes", "private_cidrs"),
                f"nothing outside of site {site.site!r} reaches its Kubernetes API",
                "name connected networks under 'private_cidrs' (a VPN, the racks), or public ones under"
                " 'public_cidrs'",
                "warning",
                value="none",
            )


@check("cluster-admin")
def cluster_admin(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS grants access to IAM roles and users by their ARN; a session's ARN (sts, assumed-role) is
    refused, and one principal has one access entry (EKS User Guide, "Access entries")."""
    for path, site in fleet.cloud():
        admins = site.kubernetes.admins if site.kubernetes is not None else ()
        for index, arn in enumerate(admins):
            where = (*path, "kubernetes", "admins", index)
            if not ADMIN.fullmatch(arn):
                yield FieldFinding(
                    where,
                    f"'{arn}' is not the ARN of an IAM role",
                    "write it as 'arn:aws:iam::123456789012:role/platform'",
                )
            elif arn in admins[:index]:
                yield FieldFinding(where, f"{arn} is named twice", "name it once")


@check("registry-unreachable")
def registry_unreachable(fleet: Fleet) -> Iterator[FieldFinding]:
    """NVIDIA's device plugin and GPU Operator are pulled from nvcr.io. Interface endpoints lead to AWS
    services alone, so without NAT they are never pulled, and no pod ever gets a GPU."""
    for path, site in fleet.cloud():
        if site.scheduler != "kubernetes" or site.network.nat != "none":
            continue
        gpus = [
            group.name
            for group in site.node_groups
            if any(name in fleet.catalog.instances and fleet.catalog.instances[name].gpu is not None
                   for name in group.instance_types)
        ]  # fmt: skip
        if gpus:
            yield FieldFinding(
                (*path, "network", "nat"),
                f"without NAT, nodes of {', '.join(gpus[:4])}"
                " cannot pull NVIDIA's device plugin from nvcr.io",
                "write 'nat: single' or 'nat: per-zone'",
            )


@check("slurm-cloud-unconnected")
def slurm_cloud_unconnected(fleet: Fleet) -> Iterator[FieldFinding]:
    """Slurm's controller and nodes talk both ways (slurm.conf, SlurmctldPort and SlurmdPort), and
    Ansible comes in over SSH. The nodes' security group admits its members alone, and no VPN or peering
    is made: the nodes exist, and nothing reaches them until somebody connects the networks."""
    for path, site in fleet.cloud():
        if site.scheduler == "slurm" and site.node_groups:
            yield FieldFinding(
                (*path, "scheduler"),
                f"the Slurm nodes of site {site.site!r} are created and not connected: no VPN, no SSH key"
                " and no rule lets a controller or Ansible reach them",
                "connect its network to the racks' (VPN or Direct Connect) and let SSH and slurmd (tcp 22,"
                " 6818) in to the nodes' security group; this version of gpufleet does neither",
                "warning",
            )


CHECKS = (
    private_endpoint,
    cluster_unreachable,
    cluster_admin,
    registry_unreachable,
    slurm_cloud_unconnected,
)
