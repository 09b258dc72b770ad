"""Quantities: exact values inside, one clear error for everything else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pydantic import TypeAdapter, ValidationError

from gpufleet.spec.quantity import (
    Duration,
    EnergyPrice,
    HostRange,
    HourlyPrice,
    LustreSize,
    Moment,
    Money,
    Percent,
    Power,
    Quantity,
    QuantityError,
    Size,
    ThroughputPerTiB,
)

KINDS = [Size, ThroughputPerTiB, Duration, Money, Percent, Power, EnergyPrice, HourlyPrice, Moment, HostRange]


def error_of(kind: type[Quantity], text: str) -> QuantityError:
    with pytest.raises(QuantityError) as caught:
        kind.parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "gib"),
    [("24 TiB", 24576), ("1200 GiB", 1200), ("1200GiB", 1200), (" 1.5 TiB ", 1536), ("1 PiB", 1024 * 1024)],
)
def test_size_is_a_whole_number_of_gib(text: str, gib: int) -> None:
    assert Size.parse(text) == Size.of_gib(gib)


def test_size_in_decimal_units_is_refused_with_both_readings() -> None:
    error = error_of(Size, "24 TB")
    assert "22351.742 GiB" in error.reason
    assert "22352 GiB" in error.remedy
    assert "24 TiB" in error.remedy


def test_size_that_is_not_whole_gib_is_refused_with_the_nearest() -> None:
    error = error_of(Size, "1.2 TiB")
    assert "1228.8 GiB" in error.reason
    assert "1229 GiB" in error.remedy
    assert Size.parse("1200 GiB") == Size.of_gib(1200)


@pytest.mark.parametrize(
    ("text", "gib"), [("1.2 TiB", 1200), ("24 TiB", 24_000), ("38.4 TiB", 38_400), ("1200 GiB", 1200)]
)
def test_lustre_capacity_is_counted_as_in_fsx(text: str, gib: int) -> None:
    assert LustreSize.parse(text) == LustreSize.of_gib(gib)
    assert "unit" in error_of(LustreSize, "24 TB").reason


@pytest.mark.parametrize("text", ["0 GiB", "1025 TiB", "24 W", "24", "24 MiB", "24 tib", "24 TiB 3", "TiB"])
def test_invalid_size_is_refused(text: str) -> None:
    assert text in error_of(Size, text).reason


def test_unit_in_the_wrong_case_suggests_the_right_one() -> None:
    assert "did you mean 'TiB'" in error_of(Size, "24 tib").reason


def test_throughput_is_per_tib() -> None:
    assert ThroughputPerTiB.parse("250 MB/s/TiB") == ThroughputPerTiB(250)
    error = error_of(ThroughputPerTiB, "250 MB/s")
    assert "whole file system" in error.reason
    assert "250 MB/s/TiB" in error.remedy
    for text in ("0 MB/s/TiB", "1.5 MB/s/TiB", "250 GB/s/TiB", "250"):
        error_of(ThroughputPerTiB, text)


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("90 s", timedelta(seconds=90)),
        ("30 min", timedelta(minutes=30)),
        ("1.5 h", timedelta(minutes=90)),
        ("14 d", timedelta(days=14)),
        ("2 w", timedelta(days=14)),
        ("5 y", timedelta(days=1825)),
        ("0.000001 s", timedelta(microseconds=1)),
    ],
)
def test_durations_are_exact(text: str, delta: timedelta) -> None:
    assert Duration.parse(text) == Duration(delta)


@pytest.mark.parametrize("text", ["0 d", "3 months", "3 m", "101 y", "0.0000001 s", "14", "14 D", "-1 d"])
def test_invalid_duration_is_refused(text: str) -> None:
    assert text in error_of(Duration, text).reason


def test_money_is_exact_and_in_usd() -> None:
    assert Money.parse("250000 USD") == Money(Decimal(250000), "USD")
    assert Money.parse("0.10 USD").amount == Decimal("0.10")
    assert Money.parse("0 USD").amount == 0
    assert "USD" in error_of(Money, "250000 EUR").reason
    assert "negative" in error_of(Money, "-1 USD").reason
    assert "cent" in error_of(Money, "1.001 USD").reason
    assert "currency is missing" in error_of(Money, "250000").reason
    error_of(Money, "$5")


def test_percent_power_and_energy_are_exact() -> None:
    assert Percent.parse("80%").value == 80
    assert Percent.parse("12.5 %").value == Decimal("12.5")
    assert Power.parse("40 kW") == Power.parse("40000 W") == Power.parse("0.04 MW")
    assert EnergyPrice.parse("0.11 USD/kWh") == EnergyPrice.parse("110 USD/MWh")
    for kind, text in (
        (Percent, "80"),
        (Percent, "0%"),
        (Percent, "1001%"),
        (Power, "40 kWh"),
        (Power, "0 kW"),
        (EnergyPrice, "0.11 USD"),
        (EnergyPrice, "0.11 EUR/kWh"),
        (EnergyPrice, "0.11 USD/kW"),
    ):
        assert text in error_of(kind, text).reason


@pytest.mark.parametrize(
    "text",
    ["nan", "inf", "1e9", "1E+9", "1_000", "1,200", "1.2.3", "-1", "\N{MINUS SIGN}1", "0x10", "9" * 40, ""],
)
@pytest.mark.parametrize("kind", [Size, ThroughputPerTiB, Duration, Money, Percent, Power, EnergyPrice])
def test_numbers_in_other_notations_are_refused(kind: type[Quantity], text: str) -> None:
    unit = kind.examples[0].lstrip("0123456789. ")
    error = error_of(kind, f"{text} {unit}")
    assert kind.examples[0] in error.remedy or "write" in error.remedy
    assert kind.noun in error.reason


def test_relative_time_keeps_its_offset_and_no_date() -> None:
    when = Moment.parse("in 14 d")
    assert when == Moment("in 14 d", offset=timedelta(days=14))
    assert when.at is None


def test_date_is_midnight_utc_and_a_time_zone_is_converted() -> None:
    assert Moment.parse("2031-05-01").at == datetime(2031, 5, 1, tzinfo=UTC)
    assert Moment.parse("2031-05-01T11:30:00Z").at == datetime(2031, 5, 1, 11, 30, tzinfo=UTC)
    assert Moment.parse("2031-05-01T11:30:00+01:00").at == datetime(2031, 5, 1, 10, 30, tzinfo=UTC)
    assert Moment.parse("2031-05-01").offset is None


def test_time_without_a_zone_is_refused_with_the_zoned_form() -> None:
    error = error_of(Moment, "2031-05-01T11:30")
    assert "zone is missing" in error.reason
    assert "2031-05-01T11:30Z" in error.remedy


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow",
        "2031-13-01",
        "2031-02-30",
        "in",
        "in 2 fortnights",
        "in 0 d",
        "20310501",
        "0001-01-01T00:00+14:00",
    ],
)
def test_nonexistent_time_is_refused(text: str) -> None:
    assert text in error_of(Moment, text).reason


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_is_accepted_and_round_trips(kind: type[Quantity]) -> None:
    adapter = TypeAdapter(kind)
    for example in kind.examples:
        value = adapter.validate_python(example)
        assert adapter.validate_python(str(value)) == value
        assert adapter.validate_python(value) is value
        assert adapter.dump_python(value, mode="json") == str(value)


@pytest.mark.parametrize("kind", KINDS)
def test_editor_schema_of_a_quantity_is_text_with_pattern_and_examples(kind: type[Quantity]) -> None:
    schema = TypeAdapter(kind).json_schema()
    assert schema["type"] == "string"
    assert schema["pattern"] == kind.pattern
    assert schema["examples"] == list(kind.examples)
    assert schema["description"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [None, True, [], {}, 24, 1.5])
def test_values_other_than_text_are_pydantic_errors(kind: type[Quantity], value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("text", "amount", "shown"),
    [
        ("2.5M USD", "2500000", "2500000 USD"),
        ("500k USD", "500000", "500000 USD"),
        ("500 k USD", "500000", "500000 USD"),
        ("0.01k USD", "10", "10 USD"),
        ("1.23456k USD", "1234.56", "1234.56 USD"),
    ],
)
def test_money_accepts_thousands_and_millions(text: str, amount: str, shown: str) -> None:
    money = Money.parse(text)
    assert money.amount == Decimal(amount)
    assert str(money) == shown
    assert Money.parse(str(money)) == money


@pytest.mark.parametrize(
    "text", ["2.5m USD", "500K USD", "2kk USD", "k USD", "1.234567k USD", "2.5M", "2M EUR"]
)
def test_other_thousands_separators_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Money.parse(text)


def test_hourly_price_is_exact() -> None:
    assert HourlyPrice.parse("12.5 USD/h").amount == Decimal("12.5")
    assert str(HourlyPrice.parse("0.0001 USD / h")) == "0.0001 USD/h"


@pytest.mark.parametrize(
    "text", ["12.5", "12.5 USD", "0 USD/h", "-1 USD/h", "0.00001 USD/h", "1 EUR/h", "1 USD/d"]
)
def test_invalid_hourly_price_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        HourlyPrice.parse(text)
