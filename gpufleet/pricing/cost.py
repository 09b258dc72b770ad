"""The monthly cost of one resource, and the sizes of scaling ones."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from gpufleet.pricing.models import Kind
from gpufleet.pricing.rates import settle

if TYPE_CHECKING:
    from gpufleet.pricing.rates import Rate


class Sizes(Struct, frozen=True):
    """Minimum, expected and maximum number."""

    minimum: int
    expected: int
    maximum: int

    @classmethod
    def fixed(cls, number: int) -> Sizes:
        """Return the sizes of a fixed number."""
        return cls(number, number, number)

    def least(self, floor: int) -> Sizes:
        """Return the sizes, at least `floor`."""
        return Sizes(max(self.minimum, floor), max(self.expected, floor), max(self.maximum, floor))

    def without(self, others: Sizes) -> Sizes:
        """Return the sizes minus `others`, at least zero."""
        return Sizes(
            max(0, self.minimum - others.minimum),
            max(0, self.expected - others.expected),
            max(0, self.maximum - others.maximum),
        )

    def within(self, most: Sizes) -> Sizes:
        """Return the sizes, at most `most`."""
        return Sizes(
            min(self.minimum, most.minimum),
            min(self.expected, most.expected),
            min(self.maximum, most.maximum),
        )

    def span(self, unit: str) -> str:
        """Return `; 1 to 8 nodes` for a basis, empty for a fixed size."""
        fixed = self.minimum == self.expected == self.maximum
        return "" if fixed else f"; {self.minimum} to {self.maximum} {unit}"


ONE = Sizes.fixed(1)


class Cost(Struct, frozen=True):
    """Three monthly amounts, and the prices used for them.

    `what` and `kind` are those of the cost line, `bought` the purchase option of nodes. `upfront` is a
    one-time payment. `left_out` is the text of additional usage-based charges.
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
    """The source of amounts that are not catalog rates."""

    @property
    def lowest_ratio(self) -> Decimal:
        """The lowest ratio of a low price to a high one."""
        return min((settle(rate.low / rate.high) for rate in self.rates), default=Decimal(1))


def steady(what: str, kind: Kind, quantity: Decimal, basis: str, rate: Rate, *, left_out: str = "") -> Cost:
    """Return the cost of a fixed quantity."""
    amounts = (quantity * rate.low, quantity * rate.expected, quantity * rate.high)
    return Cost(what, kind, *amounts, basis, (rate,), left_out=(left_out,) if left_out else ())
