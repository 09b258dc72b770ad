"""Line items of CUR 2.0 as cost, GPU-hours and idle GPU-hours.

The expressions are ibis': they run on DuckDB for files, and unchanged on Athena where the report lies.
Amortized cost of commitments: AWS Cost Intelligence Dashboards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpufleet.economics.cur_blocks import is_block_fee, runs_in_block
from gpufleet.economics.cur_tags import TagNames, tag_value

if TYPE_CHECKING:
    import ibis.expr.types as ir

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
        block=runs_in_block(table),
        reserved=(table.reservation_reservation_a_r_n.fill_null("") != "")
        if "reservation_reservation_a_r_n" in table.columns
        else False,
    )
    names = [
        "team", "project", "experiment", "day", "kind", "usage", "instance_type", "ec2", "block",
        "currency", "reserved",
    ]  # fmt: skip
    summed = {name: items[name].sum().fill_null(0.0) for name in _SUMMED if name in items.columns}
    return items.group_by(names).agg(rows=items.count(), **summed)


def usage_rows(sums: ir.Table, gpus: Mapping[str, int]) -> ir.Table:
    """Return the sums with `cost`, `gpu_hours` and `idle` GPU-hours, and what Capacity Blocks need.

    `block_fee` says whether a row is the fee of a Capacity Block, `block_hours` are instance-hours in blocks.
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
        block_fee=is_block_fee(sums),
        block_hours=ibis.ifelse(sums.block & (boxes | idle), sums.line_item_usage_amount, 0.0),
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
    """Return the cost by team and day, to compare days.

    The fee of a Capacity Block is not the cost of the day that has it, and omitted.
    """
    rows = rows.filter(~rows.block_fee)
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
        # Upfront fees of commitments are in their effective cost. That of a Capacity Block is nowhere else.
        ((kind == "Fee") & sums.reserved & ~is_block_fee(sums), 0.0),
        else_=plain,
    )
