"""A fleet plan on a terminal: sites, node groups, storage, hosts, and monthly cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rich.console import Console
from rich.markup import escape

from gpufleet.plan.capacity_models import CapacityBlockPlan, ExistingBlockPlan, SpotPlan
from gpufleet.plan.models import CloudSitePlan, FleetPlan, KubernetesPlan, NodeGroupPlan, OnPremSitePlan
from gpufleet.plan.ordered_capacity import OrderPlan
from gpufleet.plan.rack_models import SoftwareSource
from gpufleet.plan.slurm_models import SlurmServersPlan
from gpufleet.pricing.models import FleetCost
from gpufleet.report.cost_text import cost_table, owner_cost, print_budget, print_cost, site_cost
from gpufleet.report.image_text import print_images
from gpufleet.report.queue_text import queue_lines
from gpufleet.report.scaling_text import least_nodes, repair_lines, scaling_lines, sharing_lines
from gpufleet.report.tables import print_table

_SOURCES: Mapping[SoftwareSource, str] = {
    "distribution": "distribution",
    "nvidia": "NVIDIA's repository",
    "vendor": "vendor's repository",
    "mirror": "site mirror",
    "site": "repository of the fleet file",
    "host": "repository of the hosts",
    "built": "built",
    "none": "not installed",
}


def print_plan(plan: FleetPlan, cost: FleetCost, console: Console, today: dt.date) -> None:
    """Print the whole plan for `gpufleet plan`. The age of prices counts from `today`."""
    console.print(
        f"[bold]{escape(plan.fleet)}/{escape(plan.environment)}[/bold]: "
        f"{_at_maximum(plan)} at maximum, software channel {plan.software_channel}"
    )
    for site in plan.cloud:
        _print_cloud_site(site, cost, console)
    for rack_site in plan.onprem:
        _print_onprem_site(rack_site, cost, console)
    print_cost(cost, plan, console, today)


def print_summary(plan: FleetPlan, cost: FleetCost, console: Console) -> None:
    """Print a line per site, and the cost compared with the budget, for `up`."""
    for line in (*map(site_line, plan.cloud), *map(site_line, plan.onprem)):
        console.print(f"  {escape(line)}", soft_wrap=True)
    print_budget(cost, plan, console, briefly=True)


def site_line(site: CloudSitePlan | OnPremSitePlan) -> str:
    """Return `use1 (us-east-1, kubernetes): pretrain 2 x p5.48xlarge, serve 1-2 x g6.xlarge`."""
    if isinstance(site, OnPremSitePlan):
        return f"{site.site} (racks, {site.scheduler}): {_hosts(site)}"
    groups = ", ".join(f"{group.name} {_nodes(group)} x {group.instance_type}" for group in site.node_groups)
    return f"{site.site} ({site.region}, {site.scheduler}): {groups or 'no node groups'}"


def accelerators(group: NodeGroupPlan) -> str:
    """Return a group's GPUs or Neuron devices at its maximum."""
    found = group.accelerator
    return "none" if found is None else f"{found.count * group.capacity.max:,} {found.name}"


def _at_maximum(plan: FleetPlan) -> str:
    words = f"{plan.gpus_at_maximum:,} GPUs"
    devices = plan.neuron_devices_at_maximum
    return f"{words} and {devices:,} Neuron devices" if devices else words


def _servers(servers: SlurmServersPlan) -> str:
    """Return the hosts of a Slurm of the site's own, with their addresses and types."""
    hosts = ", ".join(f"{each.name} {each.address} ({each.instance_type})" for each in servers.servers)
    shared = f"; EFS at {servers.shared}" if servers.shared else ""
    return f"Slurm servers: {hosts}{shared}{'; state of controllers on EFS' if servers.shares_state else ''}"


def _print_cloud_site(site: CloudSitePlan, cost: FleetCost, console: Console) -> None:
    console.print(
        f"\n[bold]{escape(site.site)}[/bold]  aws {site.region}  {', '.join(site.zones)}  "
        f"{site.cidr}  NAT {site.nat}  {site.scheduler}"
    )
    if site.kubernetes is not None:
        console.print(f"  {escape(_access(site.kubernetes))}", soft_wrap=True)
        cluster = site.kubernetes
        lines = (*scaling_lines(site, cluster), *repair_lines(cluster), *sharing_lines(site))
        for line in (*lines, *queue_lines(cluster)):
            console.print(f"  {escape(line)}", soft_wrap=True)
    if site.slurm is not None and site.slurm.servers is not None:
        console.print(f"  {escape(_servers(site.slurm.servers))}", soft_wrap=True)
    others = any(each.accelerator is not None and each.accelerator.kind != "gpu" for each in site.node_groups)
    devices = "accelerators" if others else "GPUs"
    table = cost_table("node group", "type", "nodes", devices, "bought", "network", "USD a month")
    for group in site.node_groups:
        table.add_row(
            escape(group.name),
            "\n".join(group.instance_types),
            _nodes_wanted(group),
            accelerators(group),
            _bought(group),
            _network(group),
            owner_cost(cost, site.site, group.name),
        )
    if site.node_groups:
        print_table(table, console)
    for order in site.ordered_capacity:
        console.print(f"  {escape(order_line(order))}", soft_wrap=True)
    print_images(site, console)
    stores = cost_table("storage", "kind", "size", "throughput", "mount", "USD a month")
    for system in site.lustre:
        stores.add_row(
            escape(system.name),
            f"FSx Lustre {system.deployment}{' EFA' if system.efa else ''}",
            f"{system.capacity_gib:,} GiB",
            f"{system.throughput} MB/s/TiB" if system.throughput else "fixed",
            escape(system.mount),
            owner_cost(cost, site.site, system.name),
        )
    for bucket in site.buckets:
        stores.add_row(
            escape(bucket.name), "S3 bucket", "", "", bucket.bucket, owner_cost(cost, site.site, bucket.name)
        )
    if site.lustre or site.buckets:
        print_table(stores, console)


def _print_onprem_site(site: OnPremSitePlan, cost: FleetCost, console: Console) -> None:
    console.print(
        f"\n[bold]{escape(site.site)}[/bold]  racks  {site.system}  {site.fabric.kind} {site.fabric.speed} "
        f"{site.fabric.topology}  {site.scheduler}"
    )
    console.print(f"  {_hosts(site)}; {site_cost(cost, site.site, cost.currency)} a month", soft_wrap=True)
    table = cost_table("software", "version", "from")
    for item in site.software:
        missing = "none" if item.source == "none" else "known on the host"
        note = f": {escape(item.note)}" if item.note else ""
        table.add_row(escape(item.name), item.version or missing, f"{_SOURCES[item.source]}{note}")
    print_table(table, console)


def order_line(order: OrderPlan) -> str:
    """Return `pretrain draws 8 nodes (at least 4) from pretrain-odcr, then pretrain-spot`."""
    less = f" (at least {order.at_least})" if order.at_least < order.nodes else ", all or none,"
    places = ", then ".join(order.places[0])
    for before, place in pairwise(order.places):
        moves = _site(before) != _site(place)
        places += f" or, in another {'site' if moves else 'zone'}, {', then '.join(place)}"
    return f"{order.name} draws {order.nodes} nodes{less} from {places}"


def _site(place: Sequence[str]) -> str:
    """Return the site of a place's groups, empty for that of the order."""
    return place[0].rpartition("/")[0]


def _access(cluster: KubernetesPlan) -> str:
    """Return how a run reaches the cluster's API, and who may administer or read it."""
    how = {
        "ssm": f"a run reaches it through a node (ssm, port {cluster.access_port})",
        "direct": "a run reaches it over the network (direct)",
        "phased": "a run applies nothing in the cluster (phased)",
    }[cluster.access]
    endpoint = f"public for {', '.join(cluster.public_cidrs)}" if cluster.public_cidrs else "private"
    who = [
        f"{kind} {', '.join(arns)}"
        for kind, arns in (("admins", cluster.admins), ("viewers", cluster.viewers))
        if arns
    ]
    return "; ".join([f"Kubernetes {cluster.version}, API {endpoint}: {how}", *who])


def _nodes(group: NodeGroupPlan) -> str:
    least, most = least_nodes(group), group.capacity.max
    return str(most) if least == most else f"{least}-{most}"


def _nodes_wanted(group: NodeGroupPlan) -> str:
    nodes, pool = _nodes(group), group.node_pool
    expected = pool.always if pool is not None else group.capacity.desired
    return f"{expected} ({nodes})" if "-" in nodes else nodes


def _bought(group: NodeGroupPlan) -> str:
    match group.capacity:
        case (
            CapacityBlockPlan(duration=length) | ExistingBlockPlan(duration=dt.timedelta() as length) as block
        ):
            days = " + ".join(str(each.days) for each in (length, *block.extensions))
            return f"capacity block\n{days} d, {block.start or 'earliest'}"
        case SpotPlan(on_demand_fallback=True):
            return "spot, else\non-demand"
        case other:
            return other.kind


def _network(group: NodeGroupPlan) -> str:
    adapters = sum(1 for item in group.network_interfaces if item.interface_type != "interface")
    text = f"{adapters} EFA + 1 ENA" if adapters else "ENA"
    return text + ("\nplacement group" if group.placement_group else "")


def _hosts(site: OnPremSitePlan) -> str:
    counts: dict[str, int] = {}
    for host in site.hosts:
        counts[host.role] = counts.get(host.role, 0) + 1
    gpus = counts.get("gpu", 0) * site.gpus_per_node
    words = [f"{count} {role} host{'s' if count != 1 else ''}" for role, count in counts.items()]
    return f"{', '.join(words)}, {gpus:,} {site.gpu}"
