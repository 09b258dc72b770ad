"""The cost of a fleet, line by line, in USD per month (730 hours). None is unknown, never 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.plan.json import ELSEWHERE, MONEY

Kind = Literal["compute", "storage", "network", "control-plane", "power", "ownership", "running", "service"]

CURRENCY = "USD"


class CostLine(Struct, frozen=True):
    """The monthly cost of one resource (or one on-premises site).

    `minimum`, `expected` and `maximum` are the cost at minimum, desired and maximum size, equal without
    scaling. All three are None if the price or an input is unknown; `reason` is then set. `estimated` is
    True if a price of the region is not known: then `minimum` has the lowest price of other regions, and
    the two others one above the highest (`note` has the calculation). `lowest_ratio` is the lowest ratio of
    a low price to a high one. `assumed` is True if the amount comes from the fleet file instead. `upfront`
    is paid when the resource is created. `bought` is the purchase option of nodes (`on-demand`, `spot`,
    `on-demand and spot`, `odcr`, `capacity-block`), empty otherwise. `type` and `name` are those of the
    resource; `urn` is empty for a plan. The cost belongs to `site`, `owner` (node group or storage) and
    `team`, empty if unknown. `basis` is the calculation, `source` and `date` are those of the prices,
    `note` has remarks on them.
    """

    urn: str
    type: str
    name: str
    what: str
    kind: Kind
    minimum: Annotated[Decimal | None, ELSEWHERE]
    expected: Annotated[Decimal | None, ELSEWHERE]
    maximum: Annotated[Decimal | None, ELSEWHERE]
    upfront: Annotated[Decimal, MONEY] = Decimal(0)
    site: str = ""
    owner: str = ""
    team: str = ""
    basis: str = ""
    source: str = ""
    date: str | None = None
    reason: str = ""
    assumed: bool = False
    estimated: bool = False
    lowest_ratio: Decimal = Decimal(1)
    bought: str = ""
    note: str = ""
    count: int = 1
    """The number of resources in the line (see `grouped`)."""

    @property
    def known(self) -> bool:
        """Whether it has a price."""
        return self.expected is not None


class Amount(Struct, frozen=True):
    """A sum of known monthly costs. `complete` is False if any part is unknown, `known` is False if all parts
    are."""

    minimum: Decimal = Decimal(0)
    expected: Decimal = Decimal(0)
    maximum: Decimal = Decimal(0)
    complete: bool = True
    known: bool = True


class FleetCost(Struct, frozen=True):
    """The cost of a plan, or of a stack with the racks of its fleet.

    `not_counted` lists usage-based charges (data transfer, requests, objects in buckets).
    """

    lines: tuple[CostLine, ...] = ()
    not_counted: tuple[str, ...] = ()
    oldest_price: str | None = None
    currency: str = CURRENCY

    @property
    def unknown(self) -> tuple[CostLine, ...]:
        """The lines without a price."""
        return tuple(line for line in self.lines if not line.known)

    @property
    def estimated(self) -> tuple[CostLine, ...]:
        """The lines with an estimated price."""
        return tuple(line for line in self.lines if line.estimated)

    @property
    def upfront(self) -> Decimal:
        """The sum of upfront payments."""
        return sum((line.upfront for line in self.lines), Decimal(0))

    @property
    def total(self) -> Amount:
        """The sum of all lines."""
        return sums_by(self.lines, lambda line: "all").get("all", Amount())

    def by(self, key: Literal["site", "owner", "team"]) -> dict[str, Amount]:
        """Sums by site ("use1"), by owner ("use1/pretrain") or by team; "" for lines without one."""
        keys: dict[str, Callable[[CostLine], str]] = {
            "site": lambda line: line.site,
            "owner": lambda line: f"{line.site}/{line.owner}" if line.owner else "",
            "team": lambda line: line.team,
        }
        return sums_by(self.lines, keys[key])


def sums_by(lines: Iterable[CostLine], key: Callable[[CostLine], str]) -> dict[str, Amount]:
    """Return the sums of lines with the same key. A sum with an unknown cost is a lower bound."""
    sums: dict[str, Amount] = {}
    for line in lines:
        have = sums.get(key(line), Amount(known=False))
        sums[key(line)] = Amount(
            minimum=have.minimum + (line.minimum or 0),
            expected=have.expected + (line.expected or 0),
            maximum=have.maximum + (line.maximum or 0),
            complete=have.complete and line.known,
            known=have.known or line.known,
        )
    return sums


def grouped(lines: Iterable[CostLine]) -> tuple[CostLine, ...]:
    """Merge lines of the same kind and owner, in order: `2 x NAT gateway`.

    Amounts are summed. The name is empty if the line has several resources.
    """
    found: dict[tuple[object, ...], list[CostLine]] = {}
    for line in lines:
        same = (
            line.site,
            line.owner,
            line.kind,
            line.what,
            line.bought,
            line.reason,
            line.assumed,
            line.estimated,
            line.date,
        )
        found.setdefault(same, []).append(line)
    return tuple(_merged(each) for each in found.values())


def _merged(lines: list[CostLine]) -> CostLine:
    first, count = lines[0], len(lines)
    if count == 1:
        return first
    total = sums_by(lines, lambda line: "")[""]
    costs = (total.minimum, total.expected, total.maximum)
    minimum, expected, maximum = costs if total.known else (None, None, None)
    return replace(
        first,
        name=first.name if len({line.name for line in lines}) == 1 else "",
        what=f"{count} x {first.what}",
        minimum=minimum,
        expected=expected,
        maximum=maximum,
        upfront=sum((line.upfront for line in lines), Decimal(0)),
        basis=f"{count} x {first.basis}" if first.basis else "",
        count=count,
    )
