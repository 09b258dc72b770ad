"""Sums of cost lines: in all, by site, by owner, by tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from gpufleet.plan.models import CostLine, CostRange

UNKNOWN = CostRange(None, None, None)


def total(lines: Iterable[CostLine]) -> CostRange:
    """The sum of lines, part by part; unknown where there is no line at all."""
    return _sum([line.monthly for line in lines])


def by_site(lines: Iterable[CostLine]) -> dict[str, CostRange]:
    """Sums for each site."""
    return _grouped((line.site, line.monthly) for line in lines)


def by_owner(lines: Iterable[CostLine]) -> dict[str, CostRange]:
    """Sums for each owner, "site/name"."""
    return _grouped((f"{line.site}/{line.owner}", line.monthly) for line in lines)


def by_tag(lines: Iterable[CostLine]) -> Mapping[str, Mapping[str, CostRange]]:
    """Sums for each tag key and value; the keys in alphabetical order.

    A line without a key is in none of its values: for a key that only some lines have (a node
    group's name), the values sum to less than the fleet.
    """
    pairs = [(key, value, line.monthly) for line in lines for key, value in line.tags.items()]
    return {
        key: _grouped((value, monthly) for each, value, monthly in pairs if each == key)
        for key in sorted({key for key, _, _ in pairs})
    }


def _grouped(pairs: Iterable[tuple[str, CostRange]]) -> dict[str, CostRange]:
    groups: dict[str, list[CostRange]] = {}
    for key, monthly in pairs:
        groups.setdefault(key, []).append(monthly)
    return {key: _sum(ranges) for key, ranges in groups.items()}


def _sum(ranges: list[CostRange]) -> CostRange:
    """Part by part, over what is known; a part that no range knows is unknown."""
    return CostRange(
        low=_add(item.low for item in ranges),
        expected=_add(item.expected for item in ranges),
        high=_add(item.high for item in ranges),
    )


def _add(amounts: Iterable[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if known else None
