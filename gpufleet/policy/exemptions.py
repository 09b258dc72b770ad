"""Exemptions: permission for one resource to break a rule, with reason, approver and expiry date."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from gpufleet.spec.policy import Exemption

LONGEST = dt.timedelta(days=366)
"""The longest time for which an exemption counts: one without a near end is a rule that does not hold."""

EXEMPTED = "exempted"
"""The beginning of the message of an exempted violation."""


class ExemptionMatch(Struct, frozen=True):
    """The exemption that covers a violation, in force or not."""

    exemption: Exemption
    in_force: bool
    why_not: str = ""


def find(
    exemptions: Sequence[Exemption], rule: str, urn: str, name: str, today: dt.date
) -> ExemptionMatch | None:
    """Return the exemption of a rule for a resource: one in force, else another one, else None.

    `resource` of an exemption is a URN, a resource's name, or the beginning of a name followed by `*`;
    "stack" covers violations of the stack as a whole.
    """
    outside: ExemptionMatch | None = None
    for exemption in exemptions:
        if exemption.rule != rule or not _covers(exemption.resource, urn, name):
            continue
        if is_in_force(exemption, today):
            return ExemptionMatch(exemption, in_force=True)
        outside = ExemptionMatch(exemption, in_force=False, why_not=_why_not(exemption, today))
    return outside


def is_in_force(exemption: Exemption, today: dt.date) -> bool:
    """Return whether an exemption has not ended, and ends within `LONGEST`."""
    return today <= exemption.expires <= today + LONGEST


def _why_not(exemption: Exemption, today: dt.date) -> str:
    """Return why an exemption that is not in force does not count."""
    if exemption.expires < today:
        return f"the exemption by {exemption.approver} expired on {exemption.expires}"
    return (
        f"the exemption by {exemption.approver} until {exemption.expires} does not count: one lasts"
        f" {LONGEST.days} days at most"
    )


def _covers(wanted: str, urn: str, name: str) -> bool:
    if not urn or urn.split("::")[-2:-1] == ["pulumi:pulumi:Stack"]:
        return wanted == "stack"
    return wanted in (urn, name) or (wanted.endswith("*") and name.startswith(wanted[:-1]))


def to_json(exemption: Exemption, today: dt.date) -> dict[str, Any]:
    """Return an exemption as JSON values for the verdict."""
    return {**exemption.model_dump(mode="json"), "in_force": is_in_force(exemption, today)}


def text(exemption: Exemption, message: str) -> str:
    """Return the message of an exempted violation."""
    return f"{EXEMPTED} until {exemption.expires} by {exemption.approver} ({exemption.reason}): {message}"
