"""AWS's Cost and Usage Report 2.0: allocation, commitments, idle reservations, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import ibis
import pytest

from gpufleet.economics.cur import read_cur
from gpufleet.economics.cur_blocks import BlockFees, block_totals, with_block_fees
from gpufleet.economics.cur_rows import by_day, by_group, line_item_sums, usage_rows
from gpufleet.economics.cur_tags import TagNames, find_keys
from gpufleet.errors import InputError
from tests.unit.economics.cur_files import DEFAULTS, write_cur

GPUS = {"p5.48xlarge": 8, "p4d.24xlarge": 8, "g6.xlarge": 1}
TAGS = TagNames()
ATLAS = {"user_team": "ml", "user_project": "atlas", "user_experiment": "run-7"}
SPOT = {"line_item_usage_type": "USW2-SpotUsage:p4d.24xlarge", "product_instance_type": "p4d.24xlarge"}


@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv", "cur.csv.gz"])
def test_cost_and_gpu_hours_are_allocated_by_tags(tmp_path: Path, name: str) -> None:
    path = write_cur(
        tmp_path / name,
        [
            {"resource_tags": ATLAS, "line_item_usage_amount": 2.0, "line_item_unblended_cost": 110.08},
            {"resource_tags": ATLAS, **SPOT, "line_item_unblended_cost": 13.0},
            {"resource_tags": {"user_team": "007"}, "product_instance_type": "m7i.large",
             "line_item_usage_type": "BoxUsage:m7i.large", "line_item_unblended_cost": 0.1},
            {"line_item_usage_type": "USW2-EBS:VolumeUsage.gp3", "product_instance_type": "",
             "line_item_unblended_cost": 7.0},
        ],
    )  # fmt: skip
    report = read_cur([path], GPUS, TAGS)
    found = {(each.team, each.project, each.experiment): each for each in report.allocations}
    atlas = found["ml", "atlas", "run-7"]
    assert (atlas.gpu_hours, atlas.cost) == (24.0, pytest.approx(123.08))
    assert found["007", "", ""].gpu_hours == 0, "a team is text, whatever it looks like"
    assert found["", "", ""].cost == pytest.approx(7.0), "what has no tag is not lost"
    assert sum(each.cost or 0 for each in report.allocations) == pytest.approx(130.18)
    assert "4 rows, 2026-03-01 to 2026-03-01" in report.sources[0]
    assert report.commitments == ()


@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv"])
def test_commitments_count_where_they_are_used(tmp_path: Path, name: str) -> None:
    path = write_cur(
        tmp_path / name,
        [
            {"line_item_line_item_type": "SavingsPlanCoveredUsage", "resource_tags": ATLAS,
             "savings_plan_savings_plan_effective_cost": 30.0},
            {"line_item_line_item_type": "SavingsPlanNegation", "line_item_unblended_cost": -55.04},
            {"line_item_line_item_type": "SavingsPlanRecurringFee", "line_item_unblended_cost": 40.0,
             "savings_plan_total_commitment_to_date": 40.0, "savings_plan_used_commitment": 30.0},
            {"line_item_line_item_type": "DiscountedUsage", "resource_tags": ATLAS,
             "line_item_unblended_cost": 0.0, "reservation_effective_cost": 20.0},
            {"line_item_line_item_type": "RIFee", "line_item_unblended_cost": 99.0,
             "reservation_unused_recurring_fee": 5.0,
             "reservation_unused_amortized_upfront_fee_for_billing_period": 1.0},
            {"line_item_line_item_type": "Fee", "line_item_unblended_cost": 9999.0,
             "reservation_reservation_a_r_n": "arn:aws:ec2:us-east-1:111122223333:reserved-instances/x"},
            {"line_item_line_item_type": "Tax", "line_item_unblended_cost": 2.0},
        ],
    )  # fmt: skip
    report = read_cur([path], GPUS, TAGS)
    found = {each.team: each for each in report.allocations}
    assert (found["ml"].gpu_hours, found["ml"].cost) == (16.0, pytest.approx(50.0))
    assert found[""].cost == pytest.approx(10 + 6 + 2)
    paid = {each.kind: (each.used, each.unused) for each in report.commitments}
    assert paid == {"Savings Plans": (30.0, 10.0), "Reserved Instances": (20.0, 6.0)}


def test_reservations_without_instances_are_idle(tmp_path: Path) -> None:
    path = write_cur(
        tmp_path / "cur.parquet",
        [
            {"resource_tags": ATLAS, "line_item_usage_type": "USE1-UnusedBox:p5.48xlarge"},
            {"resource_tags": ATLAS},
            # What was reserved, used and not.
            {"resource_tags": ATLAS, "line_item_usage_type": "USE1-Reservation:p5.48xlarge",
             "line_item_usage_amount": 2.0, "line_item_unblended_cost": 0.0},
        ],
    )  # fmt: skip
    (capacity,) = read_cur([path], GPUS, TAGS).capacities
    assert (capacity.gpu_hours, capacity.idle) == (16.0, 8.0)
    assert capacity.idle_cost == pytest.approx(55.04)


@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv"])
def test_gpu_hours_are_those_of_ec2_and_the_fee_of_emr_is_a_cost(tmp_path: Path, name: str) -> None:
    path = write_cur(
        tmp_path / name,
        [
            {"resource_tags": ATLAS, "line_item_usage_amount": 2.0, "line_item_unblended_cost": 110.08},
            {"resource_tags": ATLAS, "line_item_product_code": "ElasticMapReduce",
             "line_item_usage_amount": 2.0, "line_item_unblended_cost": 27.52},
        ],
    )  # fmt: skip
    report = read_cur([path], GPUS, TAGS)
    (found,) = report.allocations
    assert (found.gpu_hours, found.cost) == (16.0, pytest.approx(137.6))
    assert report.capacities[0].gpu_hours == 16.0


def test_day_that_costs_much_more_is_unusual(tmp_path: Path) -> None:
    days = [dt.date(2026, 3, 1) + dt.timedelta(days=day) for day in range(20)]
    rows = [
        {"line_item_usage_start_date": f"{day} 05:00:00", "resource_tags": ATLAS,
         "line_item_unblended_cost": 5000.0 if day == days[17] else 1000.0 + day.day}
        for day in days
    ]  # fmt: skip
    (found,) = read_cur([write_cur(tmp_path / "cur.parquet", rows)], GPUS, TAGS).anomalies
    assert (found.team, found.day, found.value, found.unit) == ("ml", days[17], 5000.0, "USD")
    assert found.usual == pytest.approx(1010, abs=5)


def test_files_of_a_folder_are_one_report_and_tags_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "BILLING_PERIOD=2026-03"
    folder.mkdir(parents=True)
    tags = {"user_cost_center": "cc-1", "user_team": "ml"}
    for part in ("1", "2"):
        write_cur(folder / f"part-{part}.snappy.parquet", [{"resource_tags": tags}])
    report = read_cur([tmp_path / "data"], GPUS, TagNames(team="cost-center"))
    assert [(each.team, each.gpu_hours) for each in report.allocations] == [("cc-1", 16.0)]


def test_expressions_are_the_same_on_athena() -> None:
    types = {name: "float64" if isinstance(value, float) else "string" for name, value in DEFAULTS.items()}
    table = ibis.table(
        types | {"resource_tags": "map<string, string>", "line_item_usage_start_date": "timestamp"},
        name="cur",
    )
    rows = usage_rows(line_item_sums(table, find_keys(table, TAGS)), GPUS)
    spread = with_block_fees(rows, [BlockFees("CapacityBlockFee:p5.48xlarge", 100.0, 10.0)])
    assert "CapacityBlockFee" in ibis.to_sql(block_totals(rows), dialect="athena")
    for expression in (by_group(spread), by_day(spread)):
        text = ibis.to_sql(expression, dialect="athena")
        assert "user_team" in text
        assert "savings_plan_savings_plan_effective_cost" in text


@pytest.mark.parametrize("name", ["cur.parquet", "cur.csv"])
@pytest.mark.parametrize(
    ("rows", "leave_out", "says"),
    [
        (
            [{}],
            ["line_item_usage_type", "resource_tags"],
            "has no column line_item_usage_type, resource_tags",
        ),
        ([{}, {"line_item_currency_code": "EUR"}], [], "has amounts in EUR, USD: they cannot be added"),
        ([{"line_item_currency_code": "CNY"}], [], "has amounts in CNY; prices of fleets are USD"),
        (
            [{"line_item_line_item_type": "RIFee"}],
            ["reservation_unused_recurring_fee"],
            "has commitments, but no column reservation_unused_recurring_fee",
        ),
    ],
)
def test_report_that_cannot_be_added_up_is_refused(
    tmp_path: Path, name: str, rows: list[dict[str, str]], leave_out: list[str], says: str
) -> None:
    path = write_cur(tmp_path / name, rows, leave_out)
    with pytest.raises(InputError, match=says):
        read_cur([path], GPUS, TAGS)


@pytest.mark.parametrize(
    "header",
    [
        "identity/LineItemId,lineItem/UsageStartDate,lineItem/UnblendedCost,resourceTags/user:team",
        "identity_line_item_id,line_item_usage_start_date,line_item_unblended_cost,resource_tags_user_team",
    ],
)
def test_legacy_report_is_refused_with_the_export_to_create(tmp_path: Path, header: str) -> None:
    path = tmp_path / "legacy.csv"
    path.write_text(f"{header}\na,2026-03-01T00:00:00Z,1.0,ml\n", encoding="utf-8")
    with pytest.raises(InputError, match="is a legacy Cost and Usage Report") as caught:
        read_cur([path], GPUS, TAGS)
    assert "Data Export" in caught.value.remedy


def test_files_that_are_no_report_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_cur([tmp_path / "none.parquet"], GPUS, TAGS)
    with pytest.raises(InputError, match=r"has no \.parquet or \.csv files"):
        read_cur([tmp_path], GPUS, TAGS)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 not a report")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read as a report"):
        read_cur([broken], GPUS, TAGS)
    with pytest.raises(InputError, match="Parquet and CSV files are mixed"):
        read_cur([broken, write_cur(tmp_path / "cur.csv", [{}])], GPUS, TAGS)
    path = write_cur(tmp_path / "text.csv", [{}])
    path.write_text(path.read_text().replace("55.04", "a lot"), encoding="utf-8")
    with pytest.raises(InputError, match=r"text\.csv cannot be read as a report"):
        read_cur([path], GPUS, TAGS)
