"""Small Cost and Usage Reports 2.0, written by DuckDB as Data Exports writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

DEFAULTS: Mapping[str, Any] = {
    "line_item_usage_start_date": "2026-03-01 00:00:00",
    "line_item_line_item_type": "Usage",
    "line_item_product_code": "AmazonEC2",
    "line_item_usage_type": "BoxUsage:p5.48xlarge",
    "line_item_operation": "RunInstances",
    "line_item_usage_amount": 1.0,
    "line_item_unblended_cost": 55.04,
    "line_item_currency_code": "USD",
    "product_instance_type": "p5.48xlarge",
    "resource_tags": {},
    "reservation_effective_cost": 0.0,
    "reservation_unused_amortized_upfront_fee_for_billing_period": 0.0,
    "reservation_unused_recurring_fee": 0.0,
    "reservation_reservation_a_r_n": "",
    "savings_plan_savings_plan_effective_cost": 0.0,
    "savings_plan_total_commitment_to_date": 0.0,
    "savings_plan_used_commitment": 0.0,
}


def write_cur(path: Path, rows: Sequence[Mapping[str, Any]], leave_out: Sequence[str] = ()) -> Path:
    """Rows with the defaults above, as Parquet or CSV by the name of `path`."""
    columns = [name for name in DEFAULTS if name not in leave_out]
    selects = []
    for row in rows:
        values = {**DEFAULTS, **row}
        selects.append(
            "SELECT " + ", ".join(f"{_sql(name, values[name], path)} AS {name}" for name in columns)
        )
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"COPY ({' UNION ALL '.join(selects)}) TO '{path}'")
    return path


def _sql(name: str, value: Any, path: Path) -> str:
    if name == "resource_tags":
        if path.suffix == ".parquet":
            keys, values = (str(list(part)) for part in (value.keys(), value.values()))
            return f"MAP({keys}::VARCHAR[], {values}::VARCHAR[])"
        return f"'{json.dumps(value)}'"
    if name.endswith("start_date"):
        return f"TIMESTAMP '{value}'"
    return f"'{value}'" if isinstance(value, str) else f"{value}::DOUBLE"
