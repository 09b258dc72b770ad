"""Amounts of the fleet file for lines without a price."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from gpufleet.pricing.assume import assume
from tests.unit.pricing.test_models import UNKNOWN

STORAGE = replace(UNKNOWN, type="aws:fsx/fileSystem:FileSystem", kind="storage")
AMOUNT = {"one": Decimal(40)}


def test_amount_counts_once_for_all_lines_of_a_resource() -> None:
    for line in (STORAGE, replace(STORAGE, urn="urn:one")):
        first, second = assume((line, replace(line, kind="network")), AMOUNT)
        assert (first.expected, second.expected) == (40, 0)
        assert second.basis.endswith("(the amount is in another line)")


def test_resources_of_one_name_under_different_parents_count_each() -> None:
    lines = (replace(STORAGE, urn="urn:a$one"), replace(STORAGE, urn="urn:b$one"))
    assert [line.expected for line in assume(lines, AMOUNT)] == [40, 40]


def test_estimated_line_counts_at_least_its_lowest_price() -> None:
    estimated = replace(
        STORAGE,
        minimum=Decimal(100),
        expected=Decimal(200),
        maximum=Decimal(300),
        estimated=True,
        lowest_ratio=Decimal("0.5"),
    )
    (line,) = assume((estimated,), AMOUNT)
    assert (line.minimum, line.expected, line.maximum) == (50, 100, 150)
    assert (line.assumed, line.estimated) == (True, False)
    known = replace(estimated, estimated=False)
    assert assume((known,), AMOUNT) == (known,)
