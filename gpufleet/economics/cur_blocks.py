"""Fees of EC2 Capacity Blocks in CUR 2.0, and their share in the hours of the blocks.

AWS bills a block by one line item on the day on which it starts, of the usage type
`[REGION-]CapacityBlockFee:p5.48xlarge`. It is not amortized; a cancelled block has a negative line item
(Refund) of the same usage type. The instances in the block cost 0 USD: their usage type is
`[REGION-]BoxUsage:p5.48xlarge`, their operation `RunInstances:CB`. No line item says to which
block an hour belongs.

So the fees of an instance type and region, less refunds, are spread evenly over the instance-hours in blocks
of this type and region, over all files that are read. Limits:

- Blocks of one type and region have one average price per hour, also those of several accounts.
- Hours of a block without an instance have no share, unless the report has them (`UnusedBox`).
- A block that continues after the report has its whole fee in the hours of the report, and the next report
  has hours without a fee. Read the files of all months of a block together.

Fees without such hours, and refunds of fees that the report does not have, stay with their tags.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import ibis.expr.types as ir

OPERATION = "line_item_operation"
"""The column that says whether an instance ran in a Capacity Block."""

_FEE = "CapacityBlockFee:"
_INSTANCES = "(BoxUsage|UnusedBox|DedicatedUsage|UnusedDed):"
_CENT = 0.01


class BlockFees(Struct, frozen=True):
    """The fees in USD and instance-hours of all blocks of one type and region.

    `usage` is the usage type of the fees. `continues` says that the last hours are of the report's last day.
    """

    usage: str
    fee: float
    hours: float
    continues: bool = False

    @property
    def rate(self) -> float | None:
        """USD per instance-hour, None if nothing can be spread."""
        return self.fee / self.hours if self.fee >= _CENT and self.hours > 0 else None


def is_block_fee(sums: ir.Table) -> Any:
    """Return whether a row is the fee of a Capacity Block or its refund."""
    return sums.usage.contains(_FEE)


def runs_in_block(table: ir.Table) -> Any:
    """Return whether a line item is of an instance in a Capacity Block; False without the column."""
    return table[OPERATION].fill_null("").contains(":CB") if OPERATION in table.columns else False


def block_totals(rows: ir.Table) -> ir.Table:
    """Return the fees, hours, and last day with hours by the usage type of the fee."""
    rows = rows.filter(rows.block_fee | (rows.block_hours > 0)).mutate(fee_usage=_fee_usage)
    return rows.group_by("fee_usage").agg(
        fee=rows.cost.sum(where=rows.block_fee).fill_null(0.0),
        hours=rows.block_hours.sum(),
        last=rows.day.max(where=rows.block_hours > 0),
    )


def read_blocks(totals: ir.Table, end: dt.date) -> tuple[BlockFees, ...]:
    """Return the rows of `block_totals`, by usage type. `end` is the last day of the report."""
    return tuple(
        BlockFees(each["fee_usage"], each["fee"], each["hours"], each["last"] == end)
        for each in sorted(totals.to_pyarrow().to_pylist(), key=lambda each: str(each["fee_usage"]))
    )


def with_block_fees(rows: ir.Table, blocks: Sequence[BlockFees]) -> ir.Table:
    """Return the rows with the share of their hours in the fees, and without the fees that are spread."""
    import ibis

    rates = {each.usage: each.rate for each in blocks if each.rate is not None}
    if not rates:
        return rows
    usage = _fee_usage(rows)
    rate = ibis.cases(*((usage == name, value) for name, value in rates.items()), else_=0.0)
    spread = rows.block_fee & rows.usage.isin(list(rates))
    return rows.mutate(cost=rows.cost + rows.block_hours * rate).filter(~spread)


def block_notes(blocks: Sequence[BlockFees]) -> tuple[str, ...]:
    """Return what was spread, and what could not be."""
    return tuple(note for each in blocks for note in _notes(each))


def _notes(found: BlockFees) -> list[str]:
    what, together = f"AWS: {found.usage}", "read the files of all months of the block together"
    fee, hours = f"{found.fee:,.2f} USD", f"{found.hours:,.1f} instance-hours"
    if found.rate is not None:
        spread = f"{what}: {fee} are spread over {hours} in Capacity Blocks, {found.rate:,.2f} USD each"
        later = f"; the last ones are of the report's last day: if the block continues, {together}"
        return [spread + (later if found.continues else "")]
    notes = []
    if found.fee >= _CENT:
        notes.append(
            f"{what}: {fee} have no hours of instances in Capacity Blocks in the report. They stay with the "
            f"tags of the fee, and unusual days are without them: {together}"
        )
    elif found.fee <= -_CENT:
        notes.append(
            f"{what}: {fee} are refunds of fees that the report does not have. They stay with their tags"
        )
    if found.hours > 0:
        notes.append(
            f"{what}: {hours} in Capacity Blocks have no fee in the report and count as 0 USD: {together}"
        )
    return notes


def _fee_usage(rows: ir.Table) -> Any:
    """Return the usage type of the fee for that of an instance: both begin with the region."""
    return rows.usage.re_replace(_INSTANCES, _FEE)
