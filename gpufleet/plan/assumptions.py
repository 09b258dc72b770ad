"""What the fleet file says to assume for resources that no price is known for.

It stands in `policies.budget-unknown-cost.settings.assume`, so that it is part of what is reviewed,
and counts wherever the fleet's cost is shown or judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from gpufleet.spec.models import FleetSpec
from gpufleet.spec.quantity import Money, QuantityError

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
        raise ValueError(f"'{text}' for {pattern}: an assumed amount must be above 0 USD")
    return amount
