"""Fees of Capacity Blocks in AWS's report: spread over the hours of the blocks, or named."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from gpufleet.economics.cur import read_cur
from gpufleet.economics.cur_tags import TagNames
from gpufleet.economics.usage import UsageReport
from gpufleet.errors import InputError
from tests.unit.economics.cur_files import write_cur

GPUS = {"p5.48xlarge": 8, "p4d.24xlarge": 8}
NLP, VISION = ({"user_team": team, "user_project": "p", "user_experiment": "e"} for team in ("nlp", "vision"))
FEE = 128378.88


def fee(day: dt.date, usd: float = FEE, place: str = "USE2-", **other: Any) -> dict[str, Any]:
    """The line item of a block's fee."""
    return {
        "line_item_usage_start_date": f"{day} 11:30:00",
        "line_item_line_item_type": "Fee" if usd > 0 else "Refund",
        "line_item_usage_type": f"{place}CapacityBlockFee:p5.48xlarge",
        "line_item_operation": "",
        "line_item_unblended_cost": usd,
        **other,
    }


def hours(day: dt.date, number: float, tags: dict[str, str], **other: Any) -> dict[str, Any]:
    """Instance-hours in a block on one day."""
    return {
        "line_item_usage_start_date": f"{day} 12:00:00",
        "line_item_usage_type": "USE2-BoxUsage:p5.48xlarge",
        "line_item_operation": "RunInstances:CB",
        "line_item_usage_amount": number,
        "line_item_unblended_cost": 0.0,
        "resource_tags": tags,
        **other,
    }


def days(first: dt.date, number: int) -> list[dt.date]:
    return [first + dt.timedelta(days=day) for day in range(number)]


def read(path: Path, rows: list[dict[str, Any]]) -> UsageReport:
    return read_cur([write_cur(path, rows)], GPUS, TagNames())


def costs(report: UsageReport) -> dict[str, Any]:
    return {each.team: pytest.approx(each.cost) for each in report.allocations}


START = dt.date(2026, 11, 2)
OTHER = {"resource_tags": VISION, "line_item_unblended_cost": 1.0, "line_item_usage_start_date": "2026-11-20"}


@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv"])
def test_fee_is_spread_over_the_hours_of_the_block_by_team(tmp_path: Path, name: str) -> None:
    rows = [
        fee(START),
        *(hours(day, 8 * 18, NLP) for day in days(START, 14)),
        *(hours(day, 8 * 6, VISION) for day in days(START, 14)),
        OTHER,
    ]
    report = read(tmp_path / name, rows)
    assert costs(report) == {"nlp": FEE * 0.75, "vision": FEE * 0.25 + 1.0}, "there is no row without a team"
    assert {each.team: each.gpu_hours for each in report.allocations} == {"nlp": 16128.0, "vision": 5384.0}
    (note,) = report.notes
    assert note == (
        "AWS: USE2-CapacityBlockFee:p5.48xlarge: 128,378.88 USD are spread over 2,688.0 instance-hours in "
        "Capacity Blocks, 47.76 USD each"
    )
    assert "30 rows, 2026-11-02 to 2026-11-20" in report.sources[0]


def test_fee_pays_hours_of_its_type_and_region_in_blocks_only(tmp_path: Path) -> None:
    rows = [
        fee(START, 100.0),
        fee(START, 30.0, place=""),
        hours(START, 10, NLP),
        hours(START, 10, VISION, line_item_usage_type="BoxUsage:p5.48xlarge"),
        # On-demand, another type, and the hours that a block was held, used or not.
        hours(START, 10, {"user_team": "od"}, line_item_operation="RunInstances"),
        hours(START, 10, {"user_team": "p4d"}, line_item_usage_type="USE2-BoxUsage:p4d.24xlarge"),
        hours(START, 10, {"user_team": "held"}, line_item_usage_type="USE2-Reservation:p5.48xlarge"),
        OTHER,
    ]
    report = read(tmp_path / "cur.parquet", rows)
    assert costs(report) == {"nlp": 100.0, "vision": 31.0, "od": 0.0, "p4d": 0.0, "held": 0.0}
    (note,) = (note for note in report.notes if "p4d" in note)
    assert note == (
        "AWS: USE2-CapacityBlockFee:p4d.24xlarge: 10.0 instance-hours in Capacity Blocks have no fee in the "
        "report and count as 0 USD: read the files of all months of the block together"
    )


def test_unused_hours_of_a_block_are_idle_with_their_share(tmp_path: Path) -> None:
    unused = hours(START, 30, {}, line_item_usage_type="USE2-UnusedBox:p5.48xlarge")
    report = read(tmp_path / "cur.parquet", [fee(START, 400.0), hours(START, 10, NLP), unused, OTHER])
    assert costs(report) == {"nlp": 100.0, "vision": 1.0, "": 300.0}
    (capacity,) = report.capacities
    assert (capacity.idle, capacity.idle_cost) == (240.0, pytest.approx(300.0))


def test_cancelled_block_costs_nothing(tmp_path: Path) -> None:
    rows = [fee(START, 400.0), fee(START, 900.0), fee(START, -900.0), hours(START, 10, NLP), OTHER]
    assert costs(read(tmp_path / "cur.parquet", rows)) == {"nlp": 400.0, "vision": 1.0}
    report = read(tmp_path / "cancelled.parquet", [fee(START), fee(START, -FEE), OTHER])
    assert costs(report) == {"": 0.0, "vision": 1.0}
    assert report.notes == ()


def test_block_in_two_months_is_even_if_both_are_read(tmp_path: Path) -> None:
    first = dt.date(2026, 11, 25)
    november = [fee(first, 1400.0), *(hours(day, 24, NLP) for day in days(first, 6))]
    december = [hours(day, 24, VISION) for day in days(dt.date(2026, 12, 1), 8)]
    (note,) = read(tmp_path / "11.parquet", november).notes
    assert "; the last ones are of the report's last day: if the block continues, read the files of" in note
    both = [tmp_path / "11.parquet", write_cur(tmp_path / "12.parquet", [*december, OTHER])]
    assert costs(read_cur(both, GPUS, TagNames())) == {"nlp": 600.0, "vision": 801.0}
    assert "192.0 instance-hours in Capacity Blocks have no fee" in read(both[1], december).notes[0]


@pytest.mark.parametrize("arn", ["", "arn:aws:ec2:us-east-2:111122223333:capacity-reservation/cr-1"])
def test_fee_without_hours_stays_is_named_and_is_no_unusual_day(tmp_path: Path, arn: str) -> None:
    usual = [
        {"line_item_usage_start_date": str(day), "resource_tags": NLP, "line_item_unblended_cost": 1000.0}
        for day in days(START, 20)
    ]
    late = fee(START + dt.timedelta(days=17), resource_tags=NLP, reservation_reservation_a_r_n=arn)
    report = read(tmp_path / "cur.parquet", [*usual, late])
    assert costs(report) == {"nlp": 20000.0 + FEE}
    assert report.anomalies == ()
    (note,) = report.notes
    assert note.startswith(
        "AWS: USE2-CapacityBlockFee:p5.48xlarge: 128,378.88 USD have no hours of instances"
    )


def test_refund_of_a_fee_in_another_report_is_not_spread(tmp_path: Path) -> None:
    report = read(tmp_path / "cur.parquet", [fee(START, -500.0), hours(START, 10, NLP), OTHER])
    assert costs(report) == {"": -500.0, "nlp": 0.0, "vision": 1.0}
    refund, no_fee = report.notes
    assert "-500.00 USD are refunds of fees that the report does not have" in refund
    assert "10.0 instance-hours in Capacity Blocks have no fee" in no_fee


def test_fees_without_the_column_of_operations_are_refused(tmp_path: Path) -> None:
    path = write_cur(tmp_path / "cur.parquet", [OTHER], ["line_item_operation"])
    assert costs(read_cur([path], GPUS, TagNames())) == {"vision": 1.0}
    path = write_cur(tmp_path / "cur.parquet", [fee(START), hours(START, 1, NLP)], ["line_item_operation"])
    with pytest.raises(InputError, match="has fees of Capacity Blocks, but no column line_item_operation"):
        read_cur([path], GPUS, TagNames())
