"""What a site does when AWS announces that it takes nodes back."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpufleet.plan.names import NOTICES_SUFFIX
from gpufleet.spec.models import CloudSite, Interruptions

CHECKPOINT_S = int(Interruptions().checkpoint.delta.total_seconds())
"""How long a signalled job may take where the fleet file says nothing of interruptions."""


class InterruptionsPlan(Struct, frozen=True):
    """The queue of AWS's notices about nodes of a site, and what its handler does.

    `checkpoint_s` is how long a signalled job may take; `maintenance_s` how long before a scheduled
    maintenance running jobs are moved.
    """

    queue: str
    rebalance: Literal["cordon", "drain", "ignore"]
    checkpoint_s: int
    maintenance_s: int


def plan_interruptions(name: str, site: CloudSite) -> InterruptionsPlan | None:
    """The queue of AWS's notices, and the settings of its handler; None if the fleet file has none."""
    wanted = site.interruptions
    if wanted is None:
        return None
    return InterruptionsPlan(
        queue=f"{name}{NOTICES_SUFFIX}",
        rebalance=wanted.rebalance,
        checkpoint_s=int(wanted.checkpoint.delta.total_seconds()),
        maintenance_s=int(wanted.before_maintenance.delta.total_seconds()),
    )
