"""What the fleet file says to assume for resources without a price.

It stands in `policies.budget-unknown-cost.settings.assume`, so that it is part of what is reviewed,
and counts in every budget rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING

from gpufleet.pricing.models import ResourceCost
from gpufleet.spec.quantity import Money, QuantityError

if TYPE_CHECKING:
    from gpufleet.spec.models import FleetSpec

RULE = "budget-unknown-cost"
SETTING = "assume"
FIELD = f"policies.{RULE}.settings.{SETTING}"

Assumptions = Mapping[str, Decimal]
"""USD a month for each resource that a name or a pattern of names covers."""


def assumptions_of(spec: FleetSpec | None) -> Assumptions:
    """What a fleet file says to assume. What cannot be read is left out: the rule's settings report it."""
    given = spec.policies.get(RULE) if spec is not None else None
    written = given.settings.get(SETTING) if given is not None else None
    found: dict[str, Decimal] = {}
    for pattern, amount in written.items() if isinstance(written, Mapping) else ():
        try:
            found[pattern] = amount_of(str(pattern), str(amount))
        except ValueError:
            continue
    return found


def amount_of(pattern: str, text: str) -> Decimal:
    """The amount to assume for a pattern. Raises ValueError, saying what is wrong with it."""
    if not pattern.strip("*?[] "):
        raise ValueError(f"'{pattern}' covers every resource: name the resource")
    try:
        amount = Money.parse(text).amount
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if amount <= 0:
        raise ValueError(f"'{text}' for {pattern}: what is assumed is above 0 USD")
    return amount


def assumed_for(line: ResourceCost, assumptions: Assumptions) -> tuple[str, Decimal] | None:
    """The pattern that covers a line, and its amount: the name itself first, else the dearest pattern.

    A pattern with a wildcard never covers nodes: a new group in its reach would be as good as free.
    """
    if line.name in assumptions:
        return line.name, assumptions[line.name]
    if line.kind == "compute":
        return None
    matching = [pattern for pattern in assumptions if fnmatchcase(line.name, pattern)]
    dearest = max(matching, key=lambda pattern: assumptions[pattern], default=None)
    return (dearest, assumptions[dearest]) if dearest is not None else None


def assume(lines: Iterable[ResourceCost], assumptions: Assumptions) -> tuple[ResourceCost, ...]:
    """The lines, with assumed amounts where there was none; one amount for all that a resource lacks."""
    if not assumptions:
        return tuple(lines)
    done: list[ResourceCost] = []
    for _, group in groupby(lines, key=lambda line: line.urn or line.name):
        given = False
        for line in group:
            found = None if line.known else assumed_for(line, assumptions)
            if found is None:
                done.append(line)
                continue
            pattern, amount = found
            amount = Decimal(0) if given else amount
            basis = f"assumed by the fleet file for {pattern}: {line.reason}"
            if given:
                basis += " (counted with the resource's line above)"
            given = True
            done.append(
                replace(
                    line,
                    minimum=amount,
                    expected=amount,
                    maximum=amount,
                    assumed=True,
                    basis=basis,
                    source="fleet file",
                    reason="",
                )
            )
    return tuple(done)
