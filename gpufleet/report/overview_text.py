"""The last table of a run: changes and monthly cost per site."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpufleet.engine.api import Changes, Op
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from gpufleet.pricing.models import FleetCost
from gpufleet.report.changes_text import GLYPHS, KINDS
from gpufleet.report.cost_text import ACCOUNT, cost_table, site_cost
from gpufleet.report.sites import SiteChanges
from gpufleet.report.tables import print_table


def print_overview(plan: FleetPlan, cost: FleetCost, groups: Sequence[SiteChanges], console: Console) -> None:
    """Print one row per site of the plan, racks included, and one for resources outside any site."""
    counted = [group.changes.to_json() for group in groups]
    kinds = [kind for kind in (*KINDS, Op.SAME) if any(counts[kind] for counts in counted)]
    table = cost_table("site", "where")
    for kind in kinds:
        name = "unchanged" if kind is Op.SAME else str(kind)
        table.add_column(name, justify="right", style=GLYPHS[kind][1])
    table.add_column("USD a month", justify="right", no_wrap=True)
    clouds = {site.site: site for site in plan.cloud}
    for group in groups:
        _row(table, group.site, _where(clouds.get(group.site or "")), group.changes, kinds, cost)
    for rack_site in plan.onprem:
        where = f"racks, {rack_site.scheduler} (managed by Ansible)"
        _row(table, rack_site.site, where, None, kinds, cost)
    console.print()
    print_table(table, console)


def _row(
    table: Table, site: str | None, where: str, changes: Changes | None, kinds: Sequence[str], cost: FleetCost
) -> None:
    counts = changes.to_json() if changes is not None else {}
    amount = site_cost(cost, site or "", "")
    shown = (str(counts.get(kind) or "") for kind in kinds)
    table.add_row(escape(site or ACCOUNT), where, *shown, amount.replace(" (", "\n(", 1))


def _where(site: CloudSitePlan | None) -> str:
    return f"{site.region}, {site.scheduler}" if site is not None else "outside any site"
