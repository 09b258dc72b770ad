"""The cost of a fleet in groups, and its difference from another one, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Literal, get_args

from msgspec import Struct

from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.json import by_tag
from gpufleet.pricing.models import Amount, CostLine, FleetCost, grouped, sums_by

_NUMBER = re.compile(r"(?<![\w.,])([0-9]+) (x |(?=root volumes))")

Grouping = Literal["site", "group", "team", "kind", "option"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

_KEYS: dict[Grouping, Callable[[CostLine], str]] = {
    "site": lambda line: line.site or "account",
    "group": lambda line: f"{line.site}/{line.owner}" if line.owner else line.site or "account",
    "team": lambda line: line.team or "no team",
    "kind": lambda line: line.kind,
    "option": lambda line: line.bought or "not by purchase option",
}


class LineChange(Struct, frozen=True):
    """A cost line before and after, None if there is no such line. `what` is without its number."""

    site: str
    owner: str
    what: str
    before: CostLine | None
    after: CostLine | None

    @property
    def difference(self) -> Decimal | None:
        """The difference of the expected monthly cost, None if an amount is unknown."""
        amounts = [Decimal(0) if line is None else line.expected for line in (self.before, self.after)]
        first, second = amounts
        return None if first is None or second is None else second - first


def group_cost(cost: FleetCost, grouping: Grouping) -> dict[str, Amount]:
    """Return sums by site, node group or storage, team, kind of resource, or purchase option."""
    return sums_by(cost.lines, _KEYS[grouping])


def group_by_tag(cost: FleetCost, plan: FleetPlan, key: str) -> dict[str, Amount]:
    """Return sums by the values of a tag; resources without it are under "" (no value)."""
    found = by_tag(cost, plan).get(key, {})
    known = [line for line in cost.lines if line.known]
    rest = _minus(sums_by(known, lambda line: "").get("", Amount()), found.values())
    return found | ({"": rest} if rest.maximum > 0 else {})


def compare_costs(before: FleetCost, after: FleetCost) -> tuple[LineChange, ...]:
    """Return the lines that differ, the largest increase first; lines with unknown amounts lead."""
    old, new = _by_place(before), _by_place(after)
    changes = [
        LineChange(*place, old.get(place), new.get(place))
        for place in dict.fromkeys([*new, *old])
        if _amounts(old.get(place)) != _amounts(new.get(place))
    ]

    def order(change: LineChange) -> tuple[bool, Decimal]:
        found = change.difference
        return found is not None, -(found or Decimal(0))

    return tuple(sorted(changes, key=order))


def _by_place(cost: FleetCost) -> dict[tuple[str, str, str], CostLine]:
    """Return merged lines by site, owner and what they are, without their number."""
    return {(line.site, line.owner, _what(line)): line for line in grouped(cost.lines)}


def number_of(line: CostLine) -> str:
    """Return the number in what a line is (`8 x p5.48xlarge`), empty without one."""
    found = _NUMBER.search(line.what)
    return found[1] if found else ""


def _what(line: CostLine) -> str:
    """Return what a line is without its number, so that one node more is a change and not another line."""
    return _NUMBER.sub("", line.what, count=1)


def _amounts(line: CostLine | None) -> tuple[object, ...]:
    return () if line is None else (line.minimum, line.expected, line.maximum, line.upfront, line.reason)


def _minus(whole: Amount, parts: Iterable[Amount]) -> Amount:
    found = list(parts)
    return Amount(
        whole.minimum - sum((part.minimum for part in found), Decimal(0)),
        whole.expected - sum((part.expected for part in found), Decimal(0)),
        whole.maximum - sum((part.maximum for part in found), Decimal(0)),
    )
