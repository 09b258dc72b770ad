"""Results of calculators as one self-contained HTML page: tables, plots, sources and dates."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.table import Table
from rich.text import Text

from gpufleet.economics.json import Assumption
from gpufleet.report.economics_plots import ranges_plot, rendered
from gpufleet.report.pages import render_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 500


class PageColumn(Struct, frozen=True):
    """A column of a table."""

    name: str
    numeric: bool


class PageSection(Struct, frozen=True):
    """A heading with a text, a plot, a table and lines, each of them optional."""

    heading: str
    text: str = ""
    image: str = ""
    alt: str = ""
    caption: str = ""
    columns: tuple[PageColumn, ...] = ()
    rows: tuple[tuple[tuple[PageColumn, str], ...], ...] = ()
    lines: tuple[str, ...] = ()


def economics_page(
    title: str,
    eyebrow: str,
    facts: Sequence[tuple[str, str]],
    sections: Sequence[PageSection],
    assumed: Sequence[Assumption] = (),
    sources: Sequence[str] = (),
) -> str:
    """Return the page. It needs no network and no scripts; plots are images in the page."""
    return render_page(
        "economics.html.j2",
        "economics.css",
        images=True,
        title=title,
        eyebrow=eyebrow,
        facts=facts,
        sections=sections,
        assumed=assumed,
        sources=sources,
    )


def table_section(heading: str, table: Table, text: str = "") -> PageSection:
    """Return a section with the table that the terminal shows; its title is the caption."""
    columns = tuple(PageColumn(_plain(column.header), column.justify == "right") for column in table.columns)
    cells = zip(*(column.cells for column in table.columns), strict=True)
    rows = tuple(
        tuple(zip(columns, (_plain(cell) for cell in row), strict=True)) for row in list(cells)[:MOST_ROWS]
    )
    return PageSection(heading, text, caption=_plain(table.title or ""), columns=columns, rows=rows)


def plot_section(heading: str, figure: Figure, alt: str, text: str = "") -> PageSection:
    """Return a section with a plot. `alt` says what it shows for readers who do not see it."""
    data = base64.b64encode(rendered(figure, "svg")).decode()
    return PageSection(heading, text, image=f"data:image/svg+xml;base64,{data}", alt=alt)


def ranges_section(
    heading: str, across: str, rows: Iterable[tuple[str, float, float, float]]
) -> PageSection | None:
    """Return a plot of names with low, median and high value; None without finite rows."""
    kept = [row for row in rows if all(math.isfinite(value) for value in row[1:])]
    if not kept:
        return None
    alt = "; ".join(f"{name}: {median:,.0f} ({low:,.0f} to {high:,.0f})" for name, low, median, high in kept)
    return plot_section(heading, ranges_plot("", across, kept), f"{across}. {alt}")


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
