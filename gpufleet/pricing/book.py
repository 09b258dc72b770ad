"""The cost lines of one run, in order, each with a price or the reason why it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from gpufleet.pricing.cost import Cost
from gpufleet.pricing.models import CostLine, FleetCost, Kind
from gpufleet.pricing.rates import UnpricedError, joined, oldest


class Owner(Struct, frozen=True):
    """Site, owner in it (node group or storage) and team. Empty if unknown."""

    site: str = ""
    owner: str = ""
    team: str = ""


class PricedResource(Struct, frozen=True):
    """The resource of a line: type token and name (a rack site has only a name), and owner. The URN is empty
    for a plan."""

    type: str
    name: str
    owner: Owner
    urn: str = ""


@dataclass
class CostBook:
    """Collects cost lines, and usage-based charges as text."""

    lines: list[CostLine] = field(default_factory=list)
    not_counted: dict[str, None] = field(default_factory=dict)

    def price(self, thing: PricedResource, compute: Callable[[], Cost]) -> None:
        """Add the line of the cost from `compute`, or a line without a price if it raises `UnpricedError`."""
        try:
            cost = compute()
        except UnpricedError as error:
            if error.kind is None:
                raise
            self.unknown(thing, error.what, error.kind, str(error))
            return
        self.lines.append(
            CostLine(
                urn=thing.urn,
                type=thing.type,
                name=thing.name,
                what=cost.what,
                kind=cost.kind,
                minimum=cost.minimum,
                expected=cost.expected,
                maximum=cost.maximum,
                upfront=cost.upfront,
                site=thing.owner.site,
                owner=thing.owner.owner,
                team=thing.owner.team,
                basis=cost.basis,
                source=cost.source or joined(rate.source for rate in cost.rates),
                date=oldest(rate.date for rate in cost.rates),
                note=joined([*cost.notes, *(rate.note for rate in cost.rates)]),
                bought=cost.bought,
                estimated=any(rate.estimated for rate in cost.rates),
                lowest_ratio=cost.lowest_ratio,
            )
        )
        for text in cost.left_out:
            self.leave_out(text)

    def unknown(self, thing: PricedResource, what: str, kind: Kind, reason: str) -> None:
        """Add a line without a price."""
        self.lines.append(
            CostLine(
                urn=thing.urn,
                type=thing.type,
                name=thing.name,
                what=what,
                kind=kind,
                minimum=None,
                expected=None,
                maximum=None,
                site=thing.owner.site,
                owner=thing.owner.owner,
                team=thing.owner.team,
                reason=reason,
            )
        )

    def leave_out(self, text: str) -> None:
        """Record a usage-based charge that is not counted, without duplicates."""
        self.not_counted.setdefault(text)

    def cost(self, lines: tuple[CostLine, ...]) -> FleetCost:
        """Return the cost of `lines` with the usage-based charges."""
        dates = [line.date for line in lines if line.date is not None]
        return FleetCost(lines, tuple(self.not_counted), min(dates) if dates else None)
