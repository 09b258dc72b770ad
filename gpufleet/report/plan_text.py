"""A fleet plan on a terminal: sites, node groups, storage, hosts, and what it costs a month."""

from __future__ import annotations

from decimal import Decimal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpufleet.plan.models import CloudSitePlan, CostPlan, FleetPlan, NodeGroupPlan, OnPremSitePlan
from gpufleet.report.money import money, money_range


def print_plan(plan: FleetPlan, console: Console) -> None:
    """The whole plan: what `gpufleet plan` shows."""
    console.print(
        f"[bold]{escape(plan.fleet)}/{escape(plan.environment)}[/bold]: "
        f"{plan.gpus_at_maximum:,} GPUs at maximum, software channel {plan.software_channel}"
    )
    for site in plan.cloud:
        _print_cloud_site(site, plan.cost, console)
    for rack_site in plan.onprem:
        _print_onprem_site(rack_site, plan.cost, console)
    _print_cost(plan.cost, console)


def print_summary(plan: FleetPlan, console: Console) -> None:
    """Two or three lines: size of each site and the cost against the budget."""
    for site in plan.cloud:
        groups = ", ".join(
            f"{group.name} {_nodes(group)} x {group.instance_type}" for group in site.node_groups
        )
        console.print(f"  {site.site} ({site.region}, {site.scheduler}): {escape(groups)}", soft_wrap=True)
    for rack_site in plan.onprem:
        console.print(
            f"  {rack_site.site} (racks, {rack_site.scheduler}): {_hosts(rack_site)}", soft_wrap=True
        )
    console.print(budget_line(plan.cost))
    for line in unknown_lines(plan.cost):
        console.print(line, soft_wrap=True)


def budget_line(cost: CostPlan) -> str:
    """`cost: 12,345 USD a month (...) of a 20,000 USD budget (62%)`, coloured by how near it is."""
    expected = cost.monthly.expected or Decimal(0)
    share = expected / cost.budget_monthly * 100 if cost.budget_monthly else Decimal(0)
    highest = cost.monthly.high or expected
    color = (
        "red" if expected > cost.budget_monthly else "yellow" if highest > cost.budget_monthly else "green"
    )
    bound = "at least " if cost.unknown else ""
    text = (
        f"  cost: [{color}]{bound}{money_range(cost.monthly, cost.currency)} a month[/{color}]"
        f" of a {money(cost.budget_monthly, cost.currency)} budget ({share:.0f}%)"
    )
    if highest > cost.budget_monthly >= expected:
        text += "; over it at maximum size"
    if cost.upfront:
        text += f"; {money(cost.upfront, cost.currency)} to be paid upfront"
    return text


def unknown_lines(cost: CostPlan) -> list[str]:
    """One line for each price that nobody knows."""
    return [
        f"  [yellow]unknown cost[/yellow]: {escape(item.site)}/{escape(item.owner)}: "
        f"{escape(item.what)} ({escape(item.reason)})"
        for item in cost.unknown
    ]


def _print_cloud_site(site: CloudSitePlan, cost: CostPlan, console: Console) -> None:
    console.print(
        f"\n[bold]{escape(site.site)}[/bold]  aws {site.region}  {', '.join(site.zones)}  "
        f"{site.cidr}  {site.scheduler}"
    )
    table = _table("node group", "type", "nodes", "GPUs", "bought", "network", "USD a month")
    for group in site.node_groups:
        table.add_row(
            escape(group.name),
            "\n".join(group.instance_types),
            _nodes(group),
            f"{group.gpus_per_node * group.capacity.max} {group.gpu}",
            _bought(group),
            _network(group),
            _owner_cost(cost, site.site, group.name),
        )
    if site.node_groups:
        console.print(table)
    stores = _table("storage", "kind", "size", "throughput", "mount", "USD a month")
    for system in site.lustre:
        stores.add_row(
            escape(system.name),
            f"FSx Lustre {system.deployment}{' EFA' if system.efa else ''}",
            f"{system.capacity_gib:,} GiB",
            f"{system.throughput} MB/s/TiB" if system.throughput else "fixed",
            system.mount,
            _owner_cost(cost, site.site, system.name),
        )
    for bucket in site.buckets:
        stores.add_row(
            escape(bucket.name), "S3 bucket", "", "", bucket.bucket, _owner_cost(cost, site.site, bucket.name)
        )
    if site.lustre or site.buckets:
        console.print(stores)


def _print_onprem_site(site: OnPremSitePlan, cost: CostPlan, console: Console) -> None:
    console.print(
        f"\n[bold]{escape(site.site)}[/bold]  racks  {site.system}  {site.fabric_kind} {site.fabric_speed} "
        f"{site.fabric_topology}  {site.scheduler}"
    )
    console.print(f"  {_hosts(site)}; {_site_cost(cost, site.site)} a month", soft_wrap=True)


def _print_cost(cost: CostPlan, console: Console) -> None:
    table = _table("site", "owner", "what", "USD a month", "price of")
    for line in cost.lines:
        table.add_row(
            escape(line.site),
            escape(line.owner),
            escape(line.what),
            money_range(line.monthly, "").replace(" (", "\n(", 1),
            line.date or "undated",
        )
    console.print("\n[bold]monthly cost[/bold] (730 hours)")
    console.print(table)
    console.print(budget_line(cost))
    for text in unknown_lines(cost):
        console.print(text, soft_wrap=True)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column.startswith("USD") else "left")
    return table


def _nodes(group: NodeGroupPlan) -> str:
    capacity = group.capacity
    return str(capacity.max) if capacity.min == capacity.max else f"{capacity.min}-{capacity.max}"


def _bought(group: NodeGroupPlan) -> str:
    capacity = group.capacity
    if capacity.kind == "capacity-block" and capacity.duration is not None:
        return f"capacity block\n{capacity.duration.days} d, {capacity.start or 'earliest'}"
    if capacity.kind == "spot" and capacity.on_demand_fallback:
        return "spot, else\non-demand"
    return capacity.kind


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


def _owner_cost(cost: CostPlan, site: str, owner: str) -> str:
    found = cost.by_owner.get(f"{site}/{owner}")
    if any(item.site == site and item.owner == owner for item in cost.unknown):
        return "unknown" if found is None else f"at least {money_range(found, '').strip()}"
    return money_range(found, "").replace(" (", "\n(", 1) if found is not None else ""


def _site_cost(cost: CostPlan, site: str) -> str:
    found = cost.by_site.get(site)
    return money_range(found, cost.currency) if found is not None else "not priced"
