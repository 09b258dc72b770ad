"""Notices about nodes: what a job may take must fit in the time that AWS gives."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from gpufleet.checks.rules import FieldFinding, Fleet, check
from gpufleet.spec.models import CapacityBlock, Spot

SPOT_NOTICE = timedelta(seconds=120)
"""From the notice to the end of a spot instance (EC2 User Guide, "Spot Instance interruption notices")."""

BLOCK_NOTICE = timedelta(minutes=10)
"""Between the notice and the first terminations: 40 and 30 minutes before the end of a Capacity Block
(EC2 User Guide, "Monitor Capacity Blocks using EventBridge")."""

REACTION = timedelta(seconds=15)
"""What the handler needs besides: 5 s from notice to signal, 10 s to requeue."""

LONGEST_LEAD = timedelta(days=7)


@check("checkpoint-in-time")
def checkpoint_in_time(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS stops a spot instance 2 minutes after its notice, and those of a Capacity Block 10 minutes after:
    a checkpoint that takes longer is lost."""
    for index, site in enumerate(fleet.spec.cloud):
        if site.interruptions is None:
            continue
        written, path = site.interruptions.checkpoint, ("cloud", index, "interruptions", "checkpoint")
        options = [group.capacity.option for group in site.node_groups]
        for kind, notice, what in (
            (Spot, SPOT_NOTICE, "a spot node"),
            (CapacityBlock, BLOCK_NOTICE, "a node of a Capacity Block"),
        ):
            most = notice - REACTION
            if written.delta > most and any(isinstance(option, kind) for option in options):
                yield FieldFinding(
                    path,
                    f"{written} is longer than {what} has: it stops {notice.total_seconds():.0f} s after its"
                    " notice",
                    f"write '{most.total_seconds():.0f} s' or less",
                )
                break


@check("maintenance-lead")
def maintenance_lead(fleet: Fleet) -> Iterator[FieldFinding]:
    """Scheduled maintenance is announced days or weeks ahead. Jobs that are moved long before it lose work
    for nothing; those that are moved in the last moment cannot write a checkpoint."""
    for index, site in enumerate(fleet.spec.cloud):
        wanted = site.interruptions
        if wanted is None:
            continue
        path = ("cloud", index, "interruptions", "before_maintenance")
        if wanted.before_maintenance.delta > LONGEST_LEAD:
            yield FieldFinding(
                path,
                f"{wanted.before_maintenance} is longer than 7 d: nodes stay without jobs for that long",
                "write '7 d' or less",
            )
        elif wanted.before_maintenance.delta < wanted.checkpoint.delta + REACTION:
            yield FieldFinding(
                path,
                f"{wanted.before_maintenance} leaves no time for a checkpoint of {wanted.checkpoint}",
                "write a longer one, such as '1 h'",
            )


@check("interruptions-of-nothing")
def interruptions_of_nothing(fleet: Fleet) -> Iterator[FieldFinding]:
    """A handler of a site without node groups has no nodes to act on."""
    for index, site in enumerate(fleet.spec.cloud):
        if site.interruptions is not None and not site.node_groups:
            yield FieldFinding(
                ("cloud", index, "interruptions"),
                f"site {site.site!r} has no node groups, and AWS sends no notices about it",
                "remove `interruptions`, or add a node group",
                "warning",
                value=site.site,
            )


CHECKS = (checkpoint_in_time, maintenance_lead, interruptions_of_nothing)
