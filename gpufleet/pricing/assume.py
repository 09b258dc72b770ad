"""Amounts that the fleet file assumes for lines without a price, or with an estimated one."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fnmatch import fnmatchcase

from msgspec.structs import replace

from gpufleet.plan.assumptions import Assumptions
from gpufleet.pricing.models import CostLine
from gpufleet.pricing.rates import settle


def assumed_for(line: CostLine, assumptions: Assumptions) -> tuple[str, Decimal] | None:
    """Return the key that covers a line and its amount: `name/kind`, else the name, else the highest pattern.

    Only `name/compute` covers nodes: an amount for a group's volumes must not cover a change of its instance
    type, and a pattern must not cover a new group.
    """
    exact = f"{line.name}/{line.kind}"
    if exact in assumptions:
        return exact, assumptions[exact]
    if line.kind == "compute":
        return None
    if line.name in assumptions:
        return line.name, assumptions[line.name]
    matching = [key for key in assumptions if fnmatchcase(line.name, key) or fnmatchcase(exact, key)]
    highest = max(matching, key=lambda key: assumptions[key], default=None)
    return (highest, assumptions[highest]) if highest is not None else None


def key_for(line: CostLine) -> str:
    """Return the key that covers a line and no other resource."""
    return f"{line.name}/compute" if line.kind == "compute" else line.name


def assume(lines: Iterable[CostLine], assumptions: Assumptions) -> tuple[CostLine, ...]:
    """Return the lines, with assumed amounts for those without a price of their own.

    A key counts once per resource, even if it covers several of its lines. An estimated line counts at least
    with the lowest price of its estimate.
    """
    if not assumptions:
        return tuple(lines)
    done: list[CostLine] = []
    counted: set[tuple[str, str]] = set()
    for line in lines:
        found = assumed_for(line, assumptions) if line.estimated or not line.known else None
        if found is None:
            done.append(line)
            continue
        key, amount = found
        basis = f"assumed by the fleet file for {key}: {line.reason or line.note}"
        resource = line.urn or f"{line.type}::{line.name}"
        if (resource, key) in counted:
            amount = Decimal(0)
            basis += " (the amount is in another line)"
        counted.add((resource, key))
        done.append(
            replace(
                line,
                minimum=max(amount, _lowest(line, line.minimum)),
                expected=max(amount, _lowest(line, line.expected)),
                maximum=max(amount, _lowest(line, line.maximum)),
                assumed=True,
                estimated=False,
                basis=basis,
                source="fleet file",
                reason="",
            )
        )
    return tuple(done)


def _lowest(line: CostLine, amount: Decimal | None) -> Decimal:
    return Decimal(0) if amount is None else settle(amount * line.lowest_ratio)
