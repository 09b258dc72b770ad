"""Network access: to the Kubernetes API, to image registries, and to Slurm nodes in the cloud."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rules import FieldFinding, Fleet, check
from gpufleet.spec.models import Kubernetes

ADMIN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+")


@check("private-endpoint")
def private_endpoint(fleet: Fleet) -> Iterator[FieldFinding]:
    """A rule for all networks lets every host of every connected network reach the Kubernetes API. EC2
    rejects duplicate rules."""
    for path, site in fleet.cloud():
        cidrs = site.kubernetes.private_cidrs if site.kubernetes is not None else ()
        for index, text in enumerate(cidrs):
            where = (*path, "kubernetes", "private_cidrs", index)
            network = parse_network(text)
            if network is not None and network.prefixlen == 0:
                yield FieldFinding(
                    where,
                    f"{text} opens the private Kubernetes API to every connected network",
                    "list the networks that need access, such as those of a VPN or the racks",
                )
            elif text in cidrs[:index]:
                yield FieldFinding(where, f"{text} is listed twice", "list it once")


@check("cluster-unreachable")
def cluster_unreachable(fleet: Fleet) -> Iterator[FieldFinding]:
    """The endpoint is private and its security group admits only its members (EKS User Guide, "Cluster API
    server endpoint"). Without an allowed network, neither `kubectl` nor `gpufleet up`, which installs teams
    and device plugins, can reach it."""
    for path, site in fleet.cloud():
        settings = site.kubernetes or Kubernetes()
        if site.scheduler == "kubernetes" and not settings.private_cidrs and not settings.public_cidrs:
            yield FieldFinding(
                (*path, "kubernetes", "private_cidrs"),
                f"nothing outside of site {site.site!r} reaches its Kubernetes API",
                "list connected networks under 'private_cidrs' (a VPN, the racks), or public ones under"
                " 'public_cidrs'",
                "warning",
                value="none",
            )


@check("cluster-admin")
def cluster_admin(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS grants access by the ARN of an IAM role or user, rejects ARNs of sessions (sts, assumed-role), and
    allows one access entry per principal (EKS User Guide, "Access entries")."""
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
                yield FieldFinding(where, f"{arn} is listed twice", "list it once")


@check("registry-unreachable")
def registry_unreachable(fleet: Fleet) -> Iterator[FieldFinding]:
    """The images of NVIDIA's device plugin and GPU Operator are on nvcr.io. Interface endpoints reach only
    AWS services, so that without NAT the images cannot be pulled and no pod gets a GPU."""
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
    """Slurm's controller and nodes connect to each other in both directions (slurm.conf, SlurmctldPort and
    SlurmdPort), and Ansible uses SSH. The nodes' security group admits only its members, and gpufleet creates
    no VPN or peering. Until you connect the networks, the nodes cannot be reached."""
    for path, site in fleet.cloud():
        if site.scheduler == "slurm" and site.node_groups:
            yield FieldFinding(
                (*path, "scheduler"),
                f"the Slurm nodes of site {site.site!r} are created without a connection: no VPN, SSH key"
                " or security group rule lets a controller or Ansible reach them",
                "connect its network to the racks' (VPN or Direct Connect) and allow SSH and slurmd (tcp 22,"
                " 6818) in the nodes' security group; this version of gpufleet does neither",
                "warning",
            )


CHECKS = (
    private_endpoint,
    cluster_unreachable,
    cluster_admin,
    registry_unreachable,
    slurm_cloud_unconnected,
)
