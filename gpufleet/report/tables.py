"""Tables that never break a word: columns shrink to their longest word, then rows become lists."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

_ENDLESS = 10_000


def print_table(table: RenderableType, console: Console) -> None:
    """Print a table unchanged if it fits, with wrapped cells if its words fit, else row by row.

    A group prints each of its tables; anything else is printed unchanged.
    """
    if isinstance(table, Group):
        for each in table.renderables:
            print_table(each, console)
        return
    if not isinstance(table, Table):
        console.print(table)
        return
    measured = [_measure(column, console) for column in table.columns]
    natural, least = [each.maximum for each in measured], [each.minimum for each in measured]
    for column, width in zip(table.columns, natural, strict=True):
        column.width = width  # else Rich measures each cell again, now and while it prints
    whole = Measurement.get(console, console.options.update_width(_ENDLESS), table).maximum
    # What is left for the cells: lines and the space around them take the rest.
    room = console.width - (whole - sum(natural))
    if sum(natural) <= room:
        console.print(table)
    elif sum(least) <= room:
        for column, width in zip(table.columns, _shared_out(natural, least, room), strict=True):
            column.width = width
            column.no_wrap = False
        console.print(table)
    else:
        _print_rows(table, console)


def _measure(column: Column, console: Console) -> Measurement:
    """Return the longest word and the longest line of a column, heading included."""
    # Thousands of prices have few distinct regions and dates.
    distinct = {(type(cell), str(cell)): cell for cell in (column.header, *column.cells)}
    options = console.options.update_width(_ENDLESS)
    measured = [Measurement.get(console, options, _text(cell, console)) for cell in distinct.values()]
    longest = max(each.maximum for each in measured)
    least = longest if column.no_wrap else max(each.minimum for each in measured)
    return Measurement(least, longest)


def _text(cell: RenderableType, console: Console) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell))


def _shared_out(natural: list[int], least: list[int], room: int) -> list[int]:
    """Return widths that add up to `room`: the column with the most excess shrinks first."""
    widths = list(natural)
    while sum(widths) > room:
        place = max(range(len(widths)), key=lambda index: widths[index] - least[index])
        widths[place] -= 1
    return widths


def _print_rows(table: Table, console: Console) -> None:
    """Print each row as its first cell and, below it, `heading value` pairs that wrap between words."""
    if table.title is not None:
        console.print(_text(table.title, console), style="italic")
    headings = [_text(column.header, console).plain.strip() for column in table.columns]
    shown: list[RenderableType] = []
    for row in zip(*(column.cells for column in table.columns), strict=True):
        cells = [_text(cell, console) for cell in row]
        pairs = [
            Text.assemble((f"{heading} ", "dim") if heading else "", " ".join(cell.plain.split()))
            for heading, cell in zip(headings[1:], cells[1:], strict=True)
            if cell.plain.strip()
        ]
        shown.append(Text(cells[0].plain.strip(), style="bold"))
        if pairs:
            shown.append(Padding(Text(", ").join(pairs), (0, 0, 0, 4)))
    console.print(Group(*shown))
