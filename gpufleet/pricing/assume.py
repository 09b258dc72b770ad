"""What the fleet file says to assume for resources without a price.

It stands in `policies.budget-unknown-cost.settings.assume`, so that it is part of what is reviewed,
and counts in every budget rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpufleet.pricing.models import ResourceCost
from gpufleet.spec.quantity import Money, QuantityError

if TYPE_CHECKING:
    from gpufleet.spec.models import FleetSpec

RULE = "budget-unknown-cost"
SETTING = "assume"
FIELD = f"policies.{RULE}.settings.{SETTING}"

Assumptions = Mapping[str, Decimal]
"""USD a month for each resource that a key covers: its name, `name/kind`, or a pattern of either with `*`."""


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
    """The key that covers a line, and its amount: `name/kind`, then the name, then the dearest pattern.

    Nodes are covered by `name/compute` alone: what somebody assumes for a group's volumes must not
    cover a change of its instance type, nor a pattern a group that is new in its reach.
    """
    exact = f"{line.name}/{line.kind}"
    if exact in assumptions:
        return exact, assumptions[exact]
    if line.kind == "compute":
        return None
    if line.name in assumptions:
        return line.name, assumptions[line.name]
    matching = [key for key in assumptions if fnmatchcase(line.name, key) or fnmatchcase(exact, key)]
    dearest = max(matching, key=lambda key: assumptions[key], default=None)
    return (dearest, assumptions[dearest]) if dearest is not None else None


def key_for(line: ResourceCost) -> str:
    """The key that covers a line and no other resource."""
    return f"{line.name}/compute" if line.kind == "compute" else line.name


def assume(lines: Iterable[ResourceCost], assumptions: Assumptions) -> tuple[ResourceCost, ...]:
    """The lines, with assumed amounts where there was none.

    A key counts once for a resource, however many of its lines it covers.
    """
    if not assumptions:
        return tuple(lines)
    done: list[ResourceCost] = []
    counted: set[tuple[str, str]] = set()
    for line in lines:
        found = None if line.known else assumed_for(line, assumptions)
        if found is None:
            done.append(line)
            continue
        key, amount = found
        basis = f"assumed by the fleet file for {key}: {line.reason}"
        if (line.urn or line.name, key) in counted:
            amount = Decimal(0)
            basis += " (the amount stands in another line)"
        counted.add((line.urn or line.name, key))
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
