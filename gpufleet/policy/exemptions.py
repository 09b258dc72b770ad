"""Exemptions: permission for one resource to break a rule, with reason, approver and expiry date."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.spec.policy import Exemption

EXEMPTED = "exempted"
"""The beginning of the message of an exempted violation."""


@dataclass(frozen=True, slots=True)
class ExemptionMatch:
    """The exemption that covers a violation, in force or expired."""

    exemption: Exemption
    in_force: bool


def find(
    exemptions: Sequence[Exemption], rule: str, urn: str, name: str, today: dt.date
) -> ExemptionMatch | None:
    """Return the exemption of a rule for a resource: one in force, else an expired one, else None.

    `resource` of an exemption is a URN, a resource's name, or the beginning of a name followed by `*`;
    "stack" covers violations of the stack as a whole.
    """
    expired: ExemptionMatch | None = None
    for exemption in exemptions:
        if exemption.rule != rule or not _covers(exemption.resource, urn, name):
            continue
        if exemption.expires >= today:
            return ExemptionMatch(exemption, in_force=True)
        expired = ExemptionMatch(exemption, in_force=False)
    return expired


def _covers(wanted: str, urn: str, name: str) -> bool:
    if not urn or urn.split("::")[-2:-1] == ["pulumi:pulumi:Stack"]:
        return wanted == "stack"
    return wanted in (urn, name) or (wanted.endswith("*") and name.startswith(wanted[:-1]))


def to_json(exemption: Exemption, today: dt.date) -> dict[str, Any]:
    """Return an exemption as JSON values for the verdict."""
    return {**exemption.model_dump(mode="json"), "in_force": exemption.expires >= today}


def text(exemption: Exemption, message: str) -> str:
    """Return the message of an exempted violation."""
    return f"{EXEMPTED} until {exemption.expires} by {exemption.approver} ({exemption.reason}): {message}"
