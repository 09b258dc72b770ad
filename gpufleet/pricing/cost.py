"""What one thing costs a month, and the numbers of what scales."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpufleet.pricing.models import Kind

if TYPE_CHECKING:
    from gpufleet.pricing.rates import Rate


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many there are at the least, as asked for, and at the most."""

    minimum: int
    expected: int
    maximum: int

    @classmethod
    def fixed(cls, number: int) -> Sizes:
        """The sizes of what does not scale."""
        return cls(number, number, number)

    def least(self, floor: int) -> Sizes:
        """The sizes, none below `floor`."""
        return Sizes(max(self.minimum, floor), max(self.expected, floor), max(self.maximum, floor))

    def without(self, others: Sizes) -> Sizes:
        """The sizes less others, never below zero."""
        return Sizes(
            max(0, self.minimum - others.minimum),
            max(0, self.expected - others.expected),
            max(0, self.maximum - others.maximum),
        )

    def within(self, most: Sizes) -> Sizes:
        """The sizes, none above `most`."""
        return Sizes(
            min(self.minimum, most.minimum),
            min(self.expected, most.expected),
            min(self.maximum, most.maximum),
        )

    def span(self, unit: str) -> str:
        """`; 1 to 8 nodes`, for a basis; empty for what does not scale."""
        fixed = self.minimum == self.expected == self.maximum
        return "" if fixed else f"; {self.minimum} to {self.maximum} {unit}"


ONE = Sizes.fixed(1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Three amounts a month, and the prices they were computed from.

    `what` and `kind` are those of the cost line, `bought` the purchase option of nodes. `upfront` is
    paid at once. `notes` are for readers, `left_out` says what is paid by use besides.
    """

    what: str
    kind: Kind
    minimum: Decimal
    expected: Decimal
    maximum: Decimal
    basis: str
    rates: tuple[Rate, ...] = ()
    upfront: Decimal = Decimal(0)
    bought: str = ""
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    source: str = ""
    """Where the amounts come from that are no rates of the catalog."""


def steady(what: str, kind: Kind, amount: Decimal, basis: str, *rates: Rate, left_out: str = "") -> Cost:
    """A cost that does not scale."""
    return Cost(what, kind, amount, amount, amount, basis, rates, left_out=(left_out,) if left_out else ())
