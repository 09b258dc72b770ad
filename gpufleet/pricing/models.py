"""The cost of a stack, resource by resource, in USD per month (730 hours). None is unknown, never 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Kind = Literal["compute", "storage", "network", "control-plane", "power", "ownership", "service"]


@dataclass(frozen=True, slots=True)
class ResourceCost:
    """What one resource (or one on-premises site) costs a month.

    `minimum`, `expected` and `maximum` are at the least, the desired and the largest size of what
    scales; equal for what does not. All three are None when anything needed is unknown, and
    `reason` then says what: a price that nobody read, or an input that is not known before it exists.
    `assumed` says that the fleet file named the amount, since there is no price. `upfront` is paid at
    once, when the resource is created. `bought` is the purchase option of nodes (`on-demand`, `spot`,
    `on-demand and spot`, `odcr`, `capacity-block`), empty for all else.

    `site`, `owner` (node group or storage) and `team` are whose cost it is; empty where nobody can be
    named. `basis` says how it was computed.
    """

    urn: str
    type: str
    name: str
    what: str
    kind: Kind
    minimum: Decimal | None
    expected: Decimal | None
    maximum: Decimal | None
    upfront: Decimal = Decimal(0)
    site: str = ""
    owner: str = ""
    team: str = ""
    basis: str = ""
    source: str = ""
    date: str | None = None
    reason: str = ""
    assumed: bool = False
    bought: str = ""

    @property
    def known(self) -> bool:
        """Whether it has a price."""
        return self.expected is not None


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum of known costs a month, and whether anything unknown belongs to it."""

    minimum: Decimal = Decimal(0)
    expected: Decimal = Decimal(0)
    maximum: Decimal = Decimal(0)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class StackCost:
    """The cost of a stack with the racks of its fleet. `lines` has every resource that costs money.

    `not_counted` says in words what is paid by use (data transfer, requests, objects in buckets).
    """

    lines: tuple[ResourceCost, ...] = ()
    currency: str = "USD"
    not_counted: tuple[str, ...] = ()
    oldest_price: str | None = None

    @property
    def unknown(self) -> tuple[ResourceCost, ...]:
        """The lines without a price."""
        return tuple(line for line in self.lines if not line.known)

    @property
    def upfront(self) -> Decimal:
        """What is paid at once."""
        return sum((line.upfront for line in self.lines), Decimal(0))

    @property
    def total(self) -> Amount:
        """The sum of all lines."""
        return sums_by(self.lines, lambda line: "all").get("all", Amount())

    def by(self, key: Literal["site", "owner", "team"]) -> dict[str, Amount]:
        """Sums by site ("use1"), by owner ("use1/pretrain") or by team; lines without one under ""."""
        keys: dict[str, Callable[[ResourceCost], str]] = {
            "site": lambda line: line.site,
            "owner": lambda line: f"{line.site}/{line.owner}" if line.owner else "",
            "team": lambda line: line.team,
        }
        return sums_by(self.lines, keys[key])


def sums_by(lines: tuple[ResourceCost, ...], key: Callable[[ResourceCost], str]) -> dict[str, Amount]:
    """The sums of the lines that have the same key; an unknown cost makes its sum a lower bound."""
    sums: dict[str, Amount] = {}
    for line in lines:
        have = sums.get(key(line), Amount())
        sums[key(line)] = Amount(
            minimum=have.minimum + (line.minimum or 0),
            expected=have.expected + (line.expected or 0),
            maximum=have.maximum + (line.maximum or 0),
            complete=have.complete and line.known,
        )
    return sums
