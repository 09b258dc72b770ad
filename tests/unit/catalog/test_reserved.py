"""Prices of Reserved Instances."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from gpufleet.catalog import load_catalog
from gpufleet.catalog.reserved import _table, reserved_price

CATALOG = load_catalog()


def test_newest_price_is_taken_with_its_on_demand_price_and_source() -> None:
    found = reserved_price("p4d.24xlarge", "ap-south-1", "1y", "none")
    assert found is not None
    assert (found.amount, found.on_demand_then) == (Decimal("17.02575"), Decimal("26.3444"))
    assert found.date == dt.date(2026, 8, 26)
    assert "tsaol/aws-gpu" in found.source
    older = reserved_price("p4d.24xlarge", "ap-south-1", "3y", "all")
    assert older is not None
    assert older.date == dt.date(2025, 5, 28), "the newer table has only one year without upfront"
    assert reserved_price("p5en.48xlarge", "us-east-1", "1y", "none") is None


def test_each_price_is_below_on_demand_of_a_known_type_and_region() -> None:
    table = _table()
    assert len(table) > 2000
    for (name, region, term, payment), price in table.items():
        assert name in CATALOG.instances
        assert region in CATALOG.regions
        assert 0 < price.amount < price.on_demand_then
        if payment != "none" and (name, region, term, "none") in table:
            other = table[name, region, term, "none"]
            assert other.on_demand_then != price.on_demand_then or price.amount <= other.amount
