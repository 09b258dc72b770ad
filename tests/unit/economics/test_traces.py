"""Traces of spot markets from CSV files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpufleet.economics.traces import StepTrace, common_part, make_trace, read_trace
from gpufleet.errors import InputError

START = datetime(2026, 1, 1, tzinfo=UTC)


def write(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_in_any_order_become_steps(tmp_path: Path) -> None:
    path = write(
        tmp_path, "time,price\n2026-01-01T02:00:00Z,9\n2026-01-01T00:00:00Z,1\n2026-01-01T02:30:00+01:00,3\n"
    )
    found = read_trace(path, "price")
    assert found == StepTrace(START, (0.0, 5400.0, 7200.0), (1.0, 3.0), str(path))
    assert found.mean == pytest.approx((1 * 1.5 + 3 * 0.5) / 2)


def test_columns_of_the_aws_cli_are_read_for_one_zone(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "AvailabilityZone,InstanceType,SpotPrice,Timestamp\n"
        "us-west-2a,p5.48xlarge,12.5,2026-01-01T00:00:00+00:00\n"
        "us-west-2b,p5.48xlarge,30.0,2026-01-01T00:00:00+00:00\n"
        "us-west-2a,p5.48xlarge,13.5,2026-01-01T01:00:00+00:00\n",
    )
    assert read_trace(path, "price", zone="us-west-2a").values == (12.5,)
    with pytest.raises(InputError, match="prices of 2 zones") as caught:
        read_trace(path, "price")
    assert "us-west-2a, us-west-2b" in caught.value.remedy
    with pytest.raises(InputError, match="no rows of zone 'us-west-2c'"):
        read_trace(path, "price", zone="us-west-2c")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no column 'time'; it has no header"),
        ("time,cost\n", "no column 'price'; it has cost, time"),
        ("time,price\n2026-01-01T00:00:00,1\n", "csv:2: '2026-01-01T00:00:00' is not a time with"),
        ("time,price\n2026-01-01T00:00:00Z,-1\n", "'-1' is not a number of at least 0"),
        ("time,price\n2026-01-01T00:00:00Z,\n", "'' is not a number"),
        ("time,price\n2026-01-01T00:00:00Z,nan\n", "'nan' is not a number"),
        ("time,price\n2026-01-01T00:00:00Z,1\n", "has 1 times: a trace needs at least two"),
    ],
)  # fmt: skip
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_trace(write(tmp_path, text), "price")


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.csv", "nodes")
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not a CSV file"):
        read_trace(path, "nodes")


def test_traces_are_cut_to_the_time_that_both_cover() -> None:
    def of(first: int, *values: float) -> StepTrace:
        hours = range(first, first + len(values) + 1)
        points = zip(hours, (*values, 0.0), strict=True)
        return make_trace(((START + timedelta(hours=hour), value) for hour, value in points), f"from {first}")

    prices, nodes = common_part([of(0, 1, 2, 3), of(1, 8, 4, 8)])
    assert prices.start == nodes.start == START + timedelta(hours=1)
    assert prices.values == (2.0, 3.0)
    assert nodes.values == (8.0, 4.0)
    assert prices.length_s == nodes.length_s == 7200.0
    with pytest.raises(InputError, match="from 0 and from 5 have no time in common"):
        common_part([of(0, 1), of(5, 1)])
