"""AWS's Cost and Usage Report 2.0 (Data Exports): cost and GPU-hours by team, project and experiment.

The expressions are ibis': they run on DuckDB for files, and unchanged on Athena where the report lies.
Columns and their meaning: AWS Data Exports User Guide, "Cost and Usage Report (CUR) 2.0"; amortized cost of
commitments: AWS Cost Intelligence Dashboards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.economics.cur_tags import TagNames, find_keys, missing_tags, tag_value
from gpufleet.economics.usage import (
    Allocation,
    Anomaly,
    Commitment,
    SiteCapacity,
    UsageReport,
    find_anomalies,
)
from gpufleet.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

SOURCE = "AWS"

COLUMNS: Mapping[str, str] = {
    "line_item_usage_start_date": "timestamp",
    "line_item_line_item_type": "string",
    "line_item_product_code": "string",
    "line_item_usage_type": "string",
    "line_item_usage_amount": "float64",
    "line_item_unblended_cost": "float64",
    "line_item_currency_code": "string",
    "product_instance_type": "string",
    "resource_tags": "string",
}
"""Columns that every report needs, with their types in CSV files."""

COMMITMENTS: Mapping[str, str] = {
    "reservation_effective_cost": "float64",
    "reservation_unused_amortized_upfront_fee_for_billing_period": "float64",
    "reservation_unused_recurring_fee": "float64",
    "reservation_reservation_a_r_n": "string",
    "savings_plan_savings_plan_effective_cost": "float64",
    "savings_plan_total_commitment_to_date": "float64",
    "savings_plan_used_commitment": "float64",
}
"""Columns of commitments; without them a report with such line items is refused."""

_SUMMED = (
    "line_item_usage_amount",
    "line_item_unblended_cost",
    *(name for name, kind in COMMITMENTS.items() if kind == "float64"),
)

COMMITTED_TYPES = ("DiscountedUsage", "RIFee", "SavingsPlanCoveredUsage", "SavingsPlanRecurringFee")
REMEDY = (
    "create a Data Export of the table COST_AND_USAGE_REPORT (CUR 2.0) with all columns, as Parquet or CSV"
)


def read_cur(paths: Sequence[Path], gpus: Mapping[str, int], tags: TagNames) -> UsageReport:
    """Return the report of files. `gpus` has the GPUs of each instance type.

    A note names the tags that no row has.

    Raises InputError for missing columns, the old format, and several currencies.
    """
    import duckdb
    import ibis

    connection = ibis.duckdb.connect(
        ":memory:", autoinstall_known_extensions=False, autoload_known_extensions=False
    )
    names = [str(path) for path in _files(paths)]
    try:
        if names[0].endswith(".parquet"):
            table = connection.read_parquet(names)
        else:
            # Types are given: a tag that looks like a number stays text.
            header = connection.read_csv(names, all_varchar=True).columns
            _check_columns(header, names[0])
            known = {**COLUMNS, **COMMITMENTS}
            table = connection.read_csv(names, columns=None, types={
                name: _SQL_TYPES[known[name]] for name in header if name in known
            })  # fmt: skip
        _check_columns(table.columns, names[0])
        # The file is read once, if the keys of its tags are clear: what follows works on its sums.
        keys = find_keys(table, tags)
        sums = connection.create_table("sums", line_item_sums(table, keys), temp=True)
        rows = usage_rows(sums, gpus)
        kinds, days = _kinds(rows)
        _check_kinds(table.columns, kinds, names[0])
        groups = by_group(rows).to_pyarrow().to_pylist()
        daily = by_day(rows).to_pyarrow().to_pylist()
        commitments = _commitments(kinds)
        notes = missing_tags(table, sums, tags, keys)
    except duckdb.Error as error:
        raise InputError(
            f"{names[0]} cannot be read as a report: {str(error).strip().splitlines()[0]}", remedy=REMEDY
        ) from None
    finally:
        connection.disconnect()
    return _report(groups, daily, commitments, f"{', '.join(names)}: {days}", notes)


def line_item_sums(table: ir.Table, keys: TagNames) -> ir.Table:
    """Return the sums of the line items of the same owner, day and kind: a small part of the rows.

    `keys` are those of the tags in `resource_tags`, as `find_keys` returns them.
    """
    items = table.select(
        *(table[name].cast("float64").name(name) for name in _SUMMED if name in table.columns),
        team=tag_value(table, keys.team),
        project=tag_value(table, keys.project),
        experiment=tag_value(table, keys.experiment),
        day=table.line_item_usage_start_date.cast("timestamp").date(),
        kind=table.line_item_line_item_type.fill_null(""),
        usage=table.line_item_usage_type.fill_null(""),
        instance_type=table.product_instance_type.fill_null(""),
        ec2=table.line_item_product_code.fill_null("") == "AmazonEC2",
        currency=table.line_item_currency_code.fill_null(""),
        reserved=(table.reservation_reservation_a_r_n.fill_null("") != "")
        if "reservation_reservation_a_r_n" in table.columns
        else False,
    )
    names = [
        "team", "project", "experiment", "day", "kind", "usage", "instance_type", "ec2", "currency",
        "reserved",
    ]  # fmt: skip
    summed = {name: items[name].sum().fill_null(0.0) for name in _SUMMED if name in items.columns}
    return items.group_by(names).agg(rows=items.count(), **summed)


def usage_rows(sums: ir.Table, gpus: Mapping[str, int]) -> ir.Table:
    """Return the sums with `cost`, `gpu_hours` and `idle` GPU-hours.

    Idle are hours of a Capacity Reservation without instance (usage types `UnusedBox`, `UnusedDed`). Those
    that it was held (`Reservation`) are both again, used and idle, and do not count. Hours are those of EC2:
    EMR bills the same instance again, under the same usage type.
    """
    import ibis

    used = sums.ec2 & sums.kind.isin(["Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"])
    having = {count: sorted(name for name in gpus if gpus[name] == count) for count in set(gpus.values())}
    count = ibis.cases(
        *((sums.instance_type.isin(names), number) for number, names in having.items()), else_=0
    )
    hours = sums.line_item_usage_amount * count
    boxes = used & sums.usage.re_search("(BoxUsage|SpotUsage|DedicatedUsage)(:|$)")
    idle = used & sums.usage.re_search("Unused(Box|Ded)(:|$)")
    return sums.mutate(
        cost=_cost(sums),
        gpu_hours=ibis.ifelse(boxes & ~idle, hours, 0.0),
        idle=ibis.ifelse(idle, hours, 0.0),
    )


def by_group(rows: ir.Table) -> ir.Table:
    """Return the sums by team, project and experiment."""
    return rows.group_by(["team", "project", "experiment"]).agg(
        cost=rows.cost.sum(),
        gpu_hours=rows.gpu_hours.sum(),
        idle=rows.idle.sum(),
        idle_cost=rows.cost.sum(where=rows.idle > 0),
    )


def by_day(rows: ir.Table) -> ir.Table:
    """Return the cost by team and day."""
    return rows.group_by(["team", "day"]).agg(cost=rows.cost.sum())


def _cost(sums: ir.Table) -> Any:
    """Return the amortized cost: what is paid for a commitment counts where and when it is used."""
    import ibis

    kind, plain = sums.kind, sums.line_item_unblended_cost
    if set(_SUMMED) - set(sums.columns):
        return plain
    return ibis.cases(
        (kind == "SavingsPlanCoveredUsage", sums.savings_plan_savings_plan_effective_cost),
        (
            kind == "SavingsPlanRecurringFee",
            sums.savings_plan_total_commitment_to_date - sums.savings_plan_used_commitment,
        ),
        (kind.isin(["SavingsPlanNegation", "SavingsPlanUpfrontFee"]), 0.0),
        (kind == "DiscountedUsage", sums.reservation_effective_cost),
        (
            kind == "RIFee",
            sums.reservation_unused_amortized_upfront_fee_for_billing_period
            + sums.reservation_unused_recurring_fee,
        ),
        ((kind == "Fee") & sums.reserved, 0.0),
        else_=plain,
    )


def _kinds(rows: ir.Table) -> tuple[list[dict[str, Any]], str]:
    """Return cost by kind of line item and currency, and the number of rows with first and last day."""
    found: list[dict[str, Any]] = (
        rows.group_by(["kind", "currency"])
        .agg(rows=rows.rows.sum(), cost=rows.cost.sum(), first=rows.day.min(), last=rows.day.max())
        .to_pyarrow()
        .to_pylist()
    )
    if not found:
        return [], "no rows"
    first, last = min(each["first"] for each in found), max(each["last"] for each in found)
    return found, f"{sum(each['rows'] for each in found):,} rows, {first} to {last}"


def _commitments(kinds: Sequence[Mapping[str, Any]]) -> tuple[Commitment, ...]:
    of = {each["kind"]: float(each["cost"] or 0) for each in kinds}
    pairs = (
        ("Reserved Instances", "DiscountedUsage", "RIFee"),
        ("Savings Plans", "SavingsPlanCoveredUsage", "SavingsPlanRecurringFee"),
    )
    return tuple(
        Commitment(name, of.get(used, 0.0), of.get(unused, 0.0))
        for name, used, unused in pairs
        if used in of or unused in of
    )


def _check_kinds(columns: Sequence[str], kinds: Sequence[Mapping[str, Any]], name: str) -> None:
    currencies = sorted({each["currency"] for each in kinds})
    if not currencies:
        raise InputError(f"{name} has no rows", remedy="choose the files of a month with usage")
    if len(currencies) > 1:
        raise InputError(
            f"{name} has amounts in {', '.join(currencies)}: they cannot be added",
            remedy="read the reports of each currency by themselves",
        )
    if currencies != ["USD"]:
        raise InputError(
            f"{name} has amounts in {currencies[0] or 'no currency'}; prices of fleets are USD",
            remedy="create the report in an account that is billed in USD",
        )
    missing = sorted(set(COMMITMENTS) - set(columns))
    if missing and any(each["kind"] in COMMITTED_TYPES for each in kinds):
        raise InputError(f"{name} has commitments, but no column {', '.join(missing)}", remedy=REMEDY)


def _check_columns(columns: Sequence[str], name: str) -> None:
    old = [each for each in columns if "/" in each or each.startswith("resource_tags_")]
    if old and "resource_tags" not in columns:
        raise InputError(
            f"{name} is a legacy Cost and Usage Report (column '{old[0]}'); CUR 2.0 is read", remedy=REMEDY
        )
    missing = [each for each in COLUMNS if each not in columns]
    if missing:
        raise InputError(f"{name} has no column {', '.join(missing)}", remedy=REMEDY)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of `paths`, all Parquet or all CSV; a folder has those of an export."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(
                each for each in path.rglob("*") if each.name.endswith((".parquet", ".csv", ".csv.gz"))
            )
            if not inside:
                raise InputError(f"{path} has no .parquet or .csv files", remedy=REMEDY)
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise InputError(f"{path} does not exist", remedy="check the path of --cur")
    forms = {each.name.endswith(".parquet") for each in found}
    if len(forms) != 1:
        raise InputError("Parquet and CSV files are mixed", remedy="read one export at a time")
    return found


def _report(
    groups: Sequence[Mapping[str, Any]],
    daily: Sequence[Mapping[str, Any]],
    commitments: tuple[Commitment, ...],
    source: str,
    notes: tuple[str, ...],
) -> UsageReport:
    allocations = [
        Allocation(
            SOURCE, row["team"], row["project"], row["experiment"], float(row["gpu_hours"] or 0),
            cost=float(row["cost"] or 0),
        )
        for row in groups
    ]  # fmt: skip
    idle = sum(float(row["idle"] or 0) for row in groups)
    idle_cost = sum(float(row["idle_cost"] or 0) for row in groups)
    used = sum(each.gpu_hours for each in allocations)
    anomalies: tuple[Anomaly, ...] = find_anomalies(
        ((row["team"], row["day"], float(row["cost"] or 0)) for row in daily), SOURCE, "USD"
    )
    basis = "Capacity Reservations without instances; their cost is in the sums of their teams"
    return UsageReport(
        sources=(source,),
        allocations=tuple(sorted(allocations, key=lambda each: (-(each.cost or 0), each.team, each.project))),
        capacities=(SiteCapacity(SOURCE, used + idle, idle, idle_cost, None, basis),),
        commitments=commitments,
        anomalies=anomalies,
        notes=notes,
    )


_SQL_TYPES = {"timestamp": "TIMESTAMP", "string": "VARCHAR", "float64": "DOUBLE"}
