"""Network access: to the Kubernetes API, to image registries, and to Slurm nodes in the cloud."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check
from gpufleet.kinds import ACCESS_PORT_MAX, ACCESS_PORT_MIN
from gpufleet.plan.access import access_port, kubernetes_access
from gpufleet.plan.karpenter import has_karpenter
from gpufleet.plan.names import site_resource_name
from gpufleet.spec.models import CloudSite, Kubernetes

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
    server endpoint"). With `access: direct` and no allowed network, neither `kubectl` nor `gpufleet up`,
    which installs teams and device plugins, can reach it."""
    for path, site, settings in _clusters(fleet):
        open_to = (*settings.private_cidrs, *settings.public_cidrs)
        if kubernetes_access(settings) == "direct" and not open_to:
            yield FieldFinding(
                (*path, "kubernetes", "private_cidrs"),
                f"nothing outside of site {site.site!r} reaches its Kubernetes API",
                "write 'access: ssm'; or list connected networks under 'private_cidrs' (a VPN, the racks), or"
                " public ones under 'public_cidrs'",
                "warning",
                value="none",
            )


@check("cluster-access")
def cluster_access(fleet: Fleet) -> Iterator[FieldFinding]:
    """With `access: ssm`, a run reaches the Kubernetes API through a node of the cluster and a port of its
    own machine. Each cluster needs a node that always runs, and a port of its own."""
    taken: dict[int, str] = {}
    for path, site, settings in _clusters(fleet):
        where = (*path, "kubernetes")
        if kubernetes_access(settings) != "ssm":
            if settings.access_port is not None:
                yield FieldFinding(
                    (*where, "access_port"),
                    f"site {site.site!r} is reached with 'access: {kubernetes_access(settings)}', which uses"
                    " no port",
                    "remove it, or write 'access: ssm'",
                )
            continue
        if settings.system_nodes.min == 0:
            yield FieldFinding(
                (*where, "system_nodes", "min"),
                f"the Kubernetes API of site {site.site!r} is reached through a system node, and it may have"
                " none",
                "write 1 or more, or another 'access'",
            )
        port = access_port(site_resource_name(fleet.spec.fleet, fleet.spec.environment, site.site), settings)
        if port is None:
            continue
        if port in taken:
            yield FieldFinding(
                (*where, "access_port"),
                f"port {port} leads to the clusters of sites {taken[port]!r} and {site.site!r}",
                f"write another one, such as 'access_port: {_free_port(port, taken)}'",
                value=port,
            )
        taken[port] = site.site


@check("cluster-admin")
def cluster_admin(fleet: Fleet) -> Iterator[FieldFinding]:
    """EKS grants access by the ARN of an IAM role or user, rejects ARNs of sessions (sts, assumed-role), and
    allows one access entry per principal (EKS User Guide, "Access entries")."""
    for path, _, settings in _clusters(fleet):
        yield from _principals((*path, "kubernetes", "admins"), settings.admins)


@check("cluster-viewer")
def cluster_viewer(fleet: Fleet) -> Iterator[FieldFinding]:
    """A viewer has an access entry as an administrator does, and EKS allows one per principal (EKS User
    Guide, "Access entries"): no role can be both."""
    for path, _, settings in _clusters(fleet):
        where = (*path, "kubernetes", "viewers")
        yield from _principals(where, settings.viewers)
        for index, arn in enumerate(settings.viewers):
            if arn in settings.admins:
                yield FieldFinding(
                    (*where, index),
                    f"{arn} is a viewer and an administrator",
                    "remove it from 'viewers' or from 'admins'",
                )


def _clusters(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, Kubernetes]]:
    """Yield the sites on EKS with their settings."""
    for path, site in fleet.cloud():
        if site.scheduler == "kubernetes":
            yield path, site, site.kubernetes or Kubernetes()


def _principals(where: SpecPath, arns: Sequence[str]) -> Iterator[FieldFinding]:
    for index, arn in enumerate(arns):
        if not ADMIN.fullmatch(arn):
            yield FieldFinding(
                (*where, index),
                f"'{arn}' is not the ARN of an IAM role",
                "write it as 'arn:aws:iam::123456789012:role/platform'",
            )
        elif arn in arns[:index]:
            yield FieldFinding((*where, index), f"{arn} is listed twice", "list it once")


def _free_port(port: int, taken: Collection[int]) -> int:
    """Return the next free port; after the last one, the first."""
    ports = range(ACCESS_PORT_MIN, ACCESS_PORT_MAX + 1)
    later = (each for each in (*range(port, ports.stop), *ports) if each not in taken)
    return next(later, port)


@check("registry-unreachable")
def registry_unreachable(fleet: Fleet) -> Iterator[FieldFinding]:
    """The images of NVIDIA's device plugin and GPU Operator are on nvcr.io, those of Neuron, Karpenter and
    the handler of interruptions on public.ecr.aws, those of the Cluster Autoscaler, Kueue, JobSet and
    LeaderWorkerSet on registry.k8s.io, those of NVSentinel on ghcr.io. Interface endpoints reach only AWS
    services and private registries, so that without NAT the images cannot be pulled, no pod gets a device, no
    group grows, no job starts, and no fault is found."""
    for path, site in fleet.cloud():
        if site.scheduler != "kubernetes" or site.network.nat != "none":
            continue
        for lacking in (*_device_plugins(fleet, site), *_on_system_nodes(site)):
            yield FieldFinding(
                (*path, "network", "nat"),
                f"without NAT, {lacking}",
                "write 'nat: single' or 'nat: per-zone'",
            )


def _device_plugins(fleet: Fleet, site: CloudSite) -> Iterator[str]:
    """Yield what nodes with devices cannot pull without NAT."""
    registries = {"gpu": "NVIDIA's device plugin from nvcr.io", "neuron": "Neuron's from public.ecr.aws"}
    for kind, plugin in registries.items():
        names = [
            group.name
            for group in site.node_groups
            if any(item.accelerator and item.accelerator.kind == kind for item in fleet.types(group))
        ]
        if names:
            yield f"nodes of {', '.join(names[:4])} cannot pull {plugin}"


def _on_system_nodes(site: CloudSite) -> Iterator[str]:
    """Yield what system nodes cannot pull without NAT."""
    settings = site.kubernetes or Kubernetes()
    programs = []
    if settings.autoscaler is not None and settings.autoscaler.kind == "cluster-autoscaler":
        programs.append("the Cluster Autoscaler")
    queues = settings.queues
    if queues is not None and queues.kind == "kueue":
        programs += ["Kueue", *["JobSet"] * queues.jobset, *["LeaderWorkerSet"] * queues.leader_worker_set]
    yield from (f"system nodes cannot pull {program} from registry.k8s.io" for program in programs)
    if has_karpenter(site):
        yield "system nodes cannot pull Karpenter from public.ecr.aws, and it reads no prices"
    if site.interruptions is not None:
        yield "system nodes cannot pull the handler of interruptions from public.ecr.aws"
    if settings.fault_repair is not None and settings.fault_repair.kind == "nvsentinel":
        yield "nodes cannot pull NVSentinel from ghcr.io"


@check("slurm-cloud-unconnected")
def slurm_cloud_unconnected(fleet: Fleet) -> Iterator[FieldFinding]:
    """Slurm's controller and nodes connect to each other in both directions (slurm.conf, SlurmctldPort and
    SlurmdPort), and Ansible uses SSH. The nodes' security group admits only its members, also where a VPN
    connects the networks."""
    for path, site in fleet.cloud():
        if site.scheduler == "slurm" and site.node_groups and site.slurm is None:
            yield FieldFinding(
                (*path, "scheduler"),
                f"the Slurm nodes of site {site.site!r} are created without a connection: no SSH key or"
                " security group rule lets a controller or Ansible reach them",
                "let the Slurm of a rack site launch them ('slurm: {controllers: ...}'); or connect its"
                " network to the racks' ('network: {vpn: ...}') and allow SSH and slurmd (tcp 22, 6818) in"
                " the nodes' security group, which gpufleet does not do",
                "warning",
            )


CHECKS = (
    private_endpoint,
    cluster_unreachable,
    cluster_access,
    cluster_admin,
    cluster_viewer,
    registry_unreachable,
    slurm_cloud_unconnected,
)
