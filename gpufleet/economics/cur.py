"""AWS's Cost and Usage Report 2.0 (Data Exports): cost and GPU-hours by team, project and experiment.

Columns and their meaning: AWS Data Exports User Guide, "Cost and Usage Report (CUR) 2.0".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.economics.cur_blocks import (
    OPERATION,
    BlockFees,
    block_notes,
    block_totals,
    read_blocks,
    with_block_fees,
)
from gpufleet.economics.cur_rows import COMMITMENTS, by_day, by_group, line_item_sums, usage_rows
from gpufleet.economics.cur_tags import TagNames, find_keys, missing_tags
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

COMMITTED_TYPES = ("DiscountedUsage", "RIFee", "SavingsPlanCoveredUsage", "SavingsPlanRecurringFee")
REMEDY = (
    "create a Data Export of the table COST_AND_USAGE_REPORT (CUR 2.0) with all columns, as Parquet or CSV"
)


def read_cur(paths: Sequence[Path], gpus: Mapping[str, int], tags: TagNames) -> UsageReport:
    """Return the report of files. `gpus` has the GPUs of each instance type.

    Fees of Capacity Blocks are spread over their hours (`cur_blocks`). Notes name these fees, and the tags
    that no row has. Raises InputError for missing columns, the old format, and several currencies.
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
            known = {**COLUMNS, **COMMITMENTS, OPERATION: "string"}
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
        blocks = read_blocks(block_totals(rows), max(each["last"] for each in kinds))
        _check_blocks(table.columns, blocks, names[0])
        rows = with_block_fees(rows, blocks)
        groups = by_group(rows).to_pyarrow().to_pylist()
        daily = by_day(rows).to_pyarrow().to_pylist()
        commitments = _commitments(kinds)
        notes = block_notes(blocks) + missing_tags(table, sums, tags, keys)
    except duckdb.Error as error:
        raise InputError(
            f"{names[0]} cannot be read as a report: {str(error).strip().splitlines()[0]}", remedy=REMEDY
        ) from None
    finally:
        connection.disconnect()
    return _report(groups, daily, commitments, f"{', '.join(names)}: {days}", notes)


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


def _check_blocks(columns: Sequence[str], blocks: Sequence[BlockFees], name: str) -> None:
    if OPERATION not in columns and any(each.fee for each in blocks):
        raise InputError(f"{name} has fees of Capacity Blocks, but no column {OPERATION}", remedy=REMEDY)


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
