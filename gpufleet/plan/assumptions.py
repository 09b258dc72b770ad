"""Assumed costs of the fleet file for resources without a known price.

They are in `policies.budget-unknown-cost.settings.assume`, so that they are reviewed, and count wherever the
cost of the fleet is shown or checked.
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
    """Return the assumed costs of a fleet file. Invalid entries are omitted: the rule's settings report
    them."""
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
    """Return the amount for a pattern. Raises ValueError with the reason if it is invalid."""
    if not pattern.strip("*?[] "):
        raise ValueError(f"'{pattern}' covers every resource: name the resource")
    try:
        amount = Money.parse(text).amount
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if amount <= 0:
        raise ValueError(f"'{text}' for {pattern}: an assumed amount must be above 0 USD")
    return amount
