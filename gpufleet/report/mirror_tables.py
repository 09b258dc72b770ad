"""What sites need from a mirror, and what a mirror lacks, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from gpufleet.racks.mirror.lacking import MissingItem
from gpufleet.racks.mirror.needs import Needs


def needs_table(needs: Needs) -> Table:
    """Return images and charts, with their sites where there are several; `*`: not verified."""
    several = len(needs.sites) > 1
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("component" if needs.images else "")
    table.add_column("image or chart", overflow="fold")
    if several:
        table.add_column("sites")
    for image in needs.images:
        table.add_row(
            f"{image.component}{'*' if image.note else ''}", image.name, *[", ".join(image.sites)] * several
        )
    for needed in needs.charts:
        chart = needed.chart
        table.add_row(
            "chart", f"{chart.name} {chart.version}  {chart.repository}", *[", ".join(needed.sites)] * several
        )
    return table


def lacking_table(lacking: Sequence[MissingItem]) -> Table:
    """Return what is missing, with the address that was asked and what it answers."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("site", "missing", "asked", "answer"):
        table.add_column(heading, overflow="fold")
    for each in lacking:
        table.add_row(each.site, each.name, each.address, each.reason)
    return table
