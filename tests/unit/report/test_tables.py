"""Tables whose words are not broken on any screen."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.report.cost_text import cost_table
from gpufleet.report.tables import print_table

LONG = "atlas-sandbox-use1-checkpoints-lustre"
ROWS = [
    ("use1", "checkpoints", "FSx for Lustre PERSISTENT_2 125 MB/s/TiB, 38,400 GiB", "5,568\n(0 to 9,999)"),
    ("usw2", LONG, "6000 metadata IOPS, provisioned", "at least 500"),
]
WORDS = {word for row in ROWS for cell in row for word in cell.split()}


def printed(width: int, table: Table) -> list[str]:
    file = io.StringIO()
    print_table(table, Console(file=file, width=width, color_system=None))
    return file.getvalue().splitlines()


def costs() -> Table:
    table = cost_table("site", "owner", "what", "USD a month")
    for site, owner, what, amount in ROWS:
        table.add_row(site, Text(owner), what, amount)
    return table


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120, 200])
def test_no_word_is_split_and_no_line_is_too_long_at_any_width(width: int) -> None:
    lines = printed(width, costs())
    found = {word for line in lines for word in re.split(r"\s+", line)}
    missing = {word for word in WORDS if word not in found and f"{word}," not in found}
    assert not missing
    assert max(map(len, lines)) <= width


def test_cells_wrap_at_words_and_the_heading_is_kept() -> None:
    lines = printed(90, costs())
    assert lines[0].split() == ["site", "owner", "what", "USD", "a", "month"]
    assert len(lines) > 2 + 2 * len(ROWS) - 1


def test_rows_become_lists_if_no_column_can_shrink() -> None:
    lines = printed(40, costs())
    assert lines[0].strip() == "use1"
    assert lines[1].split()[:2] == ["owner", "checkpoints,"]
    assert "USD a month" in " ".join(" ".join(lines).split())


def test_table_that_fits_is_unchanged() -> None:
    wide = printed(200, costs())
    assert any("FSx for Lustre PERSISTENT_2 125 MB/s/TiB, 38,400 GiB" in line for line in wide)


def test_markup_and_a_text_of_the_same_characters_are_measured_apart() -> None:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_row(Text("[b]ab[/b]"))
    table.add_row("[b]ab[/b]")
    assert [line.strip() for line in printed(40, table)] == ["[b]ab[/b]", "ab"]
