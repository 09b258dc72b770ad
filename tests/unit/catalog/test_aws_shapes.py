"""Facts from AWS responses: what is read, and what is skipped."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.catalog.aws_shapes import (
    capacity_block_price,
    has_accelerator,
    on_demand_prices,
    spot_by_zone_id,
)
from tests.unit.catalog.conftest import price_document

TODAY = dt.date(2026, 11, 21)


def prices(*documents: str) -> dict[str, Decimal | None]:
    found = on_demand_prices(documents, frozenset({"p5.48xlarge"}), source="a test", date=TODAY)
    return {name: price.amount for name, price in found.items()}


def test_linux_price_is_read_with_its_date() -> None:
    document = price_document("p5.48xlarge", "55.0400000000")
    found = on_demand_prices([document], frozenset({"p5.48xlarge"}), source="a test", date=TODAY)
    assert found["p5.48xlarge"].amount == Decimal("55.04")
    assert (found["p5.48xlarge"].date, found["p5.48xlarge"].source) == (TODAY, "a test")


@pytest.mark.parametrize(
    "changes",
    [
        {"operatingSystem": "Windows"},
        {"tenancy": "Dedicated"},
        {"preInstalledSw": "SQL Ent"},
        {"capacitystatus": "UnusedCapacityReservation"},
        {"operation": "RunInstances:0800"},
        {"marketoption": "CapacityBlock"},
    ],
)
def test_prices_of_other_products_are_skipped(changes: dict[str, str]) -> None:
    assert prices(price_document("p5.48xlarge", "1", **changes)) == {}


def test_price_of_0_is_unknown() -> None:
    assert prices(price_document("p5.48xlarge", "0.0000000000")) == {}


def test_price_in_another_unit_or_currency_is_unknown() -> None:
    document = json.loads(price_document("p5.48xlarge", "5"))
    (term,) = document["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    dimension["pricePerUnit"] = {"CNY": "5"}
    assert prices(json.dumps(document)) == {}
    dimension |= {"pricePerUnit": {"USD": "5"}, "unit": "Quantity"}
    assert prices(json.dumps(document)) == {}


def test_types_that_were_not_requested_are_skipped() -> None:
    assert prices(price_document("p4d.24xlarge", "5"), '{"product": {}}') == {}


def record(zone: str, price: str, hour: int, **more: str) -> dict[str, Any]:
    return {
        "InstanceType": "p5.48xlarge",
        "AvailabilityZone": zone,
        "SpotPrice": price,
        "Timestamp": dt.datetime(2026, 11, 21, hour, tzinfo=dt.UTC),
        **more,
    }


def test_newest_spot_price_of_a_zone_counts_in_any_order() -> None:
    records = [record("us-east-1a", "3", 2), record("us-east-1a", "2", 9), record("us-east-1a", "1", 5)]
    assert spot_by_zone_id(records, {"us-east-1a": "use1-az6"}) == {"p5.48xlarge": {"use1-az6": Decimal(2)}}


def test_zone_id_is_used_and_a_zone_without_one_is_skipped() -> None:
    records = [
        record("us-east-1a", "3", 2, AvailabilityZoneId="use1-az4"),
        record("us-east-1-atl-2a", "1", 2),
    ]
    assert spot_by_zone_id(records, {"us-east-1a": "use1-az6"}) == {"p5.48xlarge": {"use1-az4": Decimal(3)}}


def offering(fee: str, instances: int, hours: int, currency: str = "USD", minutes: int = 0) -> dict[str, Any]:
    return {
        "UpfrontFee": fee,
        "InstanceCount": instances,
        "CapacityBlockDurationHours": hours,
        "CapacityBlockDurationMinutes": minutes,
        "CurrencyCode": currency,
    }


def test_lowest_offering_sets_the_hourly_capacity_block_price() -> None:
    price = capacity_block_price(
        [offering("1000.00", 1, 24), offering("943.92", 1, 24), offering("1887.84", 2, 24)],
        source="a test",
        date=TODAY,
    )
    assert price is not None
    assert price.amount == Decimal("39.33")


@pytest.mark.parametrize(
    ("fee", "hours", "minutes", "amount"),
    [("314.40", 6, 35, "47.7570"), ("23.88", 0, 30, "47.7600"), ("1152.56", 24, 8, "47.7580")],
)
def test_minutes_of_an_offering_count_beside_its_hours(
    fee: str, hours: int, minutes: int, amount: str
) -> None:
    found = capacity_block_price([offering(fee, 1, hours, minutes=minutes)], source="a test", date=TODAY)
    assert found is not None
    assert found.amount == Decimal(amount)


def test_offering_without_a_duration_has_no_price() -> None:
    none = offering("314.40", 1, 0)
    without = {"UpfrontFee": "314.40", "InstanceCount": 1}
    assert capacity_block_price([none, without], source="a test", date=TODAY) is None


def test_offering_in_another_currency_is_not_a_price() -> None:
    assert capacity_block_price([], source="a test", date=TODAY) is None
    assert capacity_block_price([offering("5", 1, 24, "CNY")], source="a test", date=TODAY) is None
    assert capacity_block_price([offering("0.00", 1, 24)], source="a test", date=TODAY) is None


def test_only_nvidia_gpus_and_aws_accelerators_count(dump: dict[str, Any]) -> None:
    for name in ("p5.48xlarge", "g6f.large", "trn1.2xlarge", "inf2.xlarge"):
        assert has_accelerator(dump[name]), name
    for name in ("m7i.xlarge", "t3.medium"):
        assert not has_accelerator(dump[name]), name
    amd = {"GpuInfo": {"Gpus": [{"Manufacturer": "AMD", "Name": "Radeon Pro V520"}]}}
    assert not has_accelerator(amd)
