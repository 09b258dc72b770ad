"""A Cost and Usage Report of five million rows: `gpufleet usage`, and the same sums in SQL by hand."""

from __future__ import annotations

from pathlib import Path

import duckdb

from gpufleet.catalog import load_catalog
from gpufleet.economics.cur import read_cur
from gpufleet.economics.cur_tags import TagNames
from tests.bench.measure import Row, interleaved

ROWS = 5_000_000

_REPORT = """
COPY (
  SELECT
    TIMESTAMP '2026-03-01' + INTERVAL (i % 744) HOUR AS line_item_usage_start_date,
    CASE i % 20 WHEN 0 THEN 'DiscountedUsage' WHEN 1 THEN 'SavingsPlanCoveredUsage' ELSE 'Usage' END
      AS line_item_line_item_type,
    'AmazonEC2' AS line_item_product_code,
    CASE i % 5 WHEN 0 THEN 'USE1-EBS:VolumeUsage.gp3' WHEN 1 THEN 'USE1-SpotUsage:p5.48xlarge'
      ELSE 'USE1-BoxUsage:g6.xlarge' END AS line_item_usage_type,
    CASE i % 5 WHEN 0 THEN 'CreateVolume-Gp3' ELSE 'RunInstances' END AS line_item_operation,
    1.0::DOUBLE AS line_item_usage_amount,
    ((i * 7919) % 1000 / 100.0)::DOUBLE AS line_item_unblended_cost,
    'USD' AS line_item_currency_code,
    CASE i % 5 WHEN 0 THEN '' WHEN 1 THEN 'p5.48xlarge' ELSE 'g6.xlarge' END AS product_instance_type,
    'arn:aws:ec2:us-east-1:111122223333:instance/i-' || (i % 90000) AS line_item_resource_id,
    MAP(['user_team', 'user_project', 'user_experiment'],
        ['team-' || i % 40, 'project-' || i % 200, 'run-' || i % 5000]) AS resource_tags,
    0.5::DOUBLE AS reservation_effective_cost,
    0.0::DOUBLE AS reservation_unused_amortized_upfront_fee_for_billing_period,
    0.0::DOUBLE AS reservation_unused_recurring_fee,
    '' AS reservation_reservation_a_r_n,
    0.6::DOUBLE AS savings_plan_savings_plan_effective_cost,
    0.0::DOUBLE AS savings_plan_total_commitment_to_date,
    0.0::DOUBLE AS savings_plan_used_commitment
  FROM range({rows}) AS t(i)
) TO '{path}'
"""
_BY_HAND = """
SELECT resource_tags['user_team'], resource_tags['user_project'], resource_tags['user_experiment'],
  sum(CASE line_item_line_item_type WHEN 'DiscountedUsage' THEN reservation_effective_cost
    WHEN 'SavingsPlanCoveredUsage' THEN savings_plan_savings_plan_effective_cost
    ELSE line_item_unblended_cost END)
FROM '{path}' GROUP BY ALL
"""


def measure(folder: Path, rounds: int) -> list[Row]:
    """The report as Parquet."""
    path = folder / "cur.parquet"
    with duckdb.connect(":memory:") as connection:
        connection.execute(_REPORT.format(rows=ROWS, path=path))
    gpus = {name: item.gpu_count for name, item in load_catalog().instances.items() if item.gpu_count}

    def ours() -> None:
        report = read_cur([path], gpus, TagNames())
        assert f"{ROWS:,} rows" in report.sources[0]

    def by_hand() -> None:
        with duckdb.connect(":memory:") as connection:
            connection.execute(_BY_HAND.format(path=path)).fetchall()

    mine, theirs = interleaved(ours, by_hand, rounds)
    return [Row("allocate a CUR 2.0 file", f"{ROWS:,} rows", mine, "one sum in DuckDB's SQL", theirs)]
