"""Exemptions: a rule that may be broken by one resource, for a stated reason, by somebody, for a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.spec.policy import Exemption

EXEMPTED = "exempted"
"""How the message of an exempted violation begins."""


@dataclass(frozen=True, slots=True)
class ExemptionMatch:
    """An exemption that a violation falls under, in force or not."""

    exemption: Exemption
    in_force: bool


def find(
    exemptions: Sequence[Exemption], rule: str, urn: str, name: str, today: dt.date
) -> ExemptionMatch | None:
    """The exemption of a rule for a resource: one in force if there is any, else an expired one.

    `resource` of an exemption is a URN, a resource's name, or the beginning of a name followed by `*`;
    "stack" stands for violations of no single resource.
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
    """An exemption as the verdict lists it."""
    return {**exemption.model_dump(mode="json"), "in_force": exemption.expires >= today}


def text(exemption: Exemption, message: str) -> str:
    """The message of a violation that is exempted."""
    return f"{EXEMPTED} until {exemption.expires} by {exemption.approver} ({exemption.reason}): {message}"
