"""What keeps storage and reservations from going without somebody's word, before anything is changed.

Rules of the policy pack say the same to reviewers; this holds for every `up` and `destroy`, also where
policies are left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpufleet.changes.observe import SeenStep, short_type
from gpufleet.errors import RefusedError
from gpufleet.resources.types import (
    BLOCK_OFFERING,
    BUCKETS,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    LUSTRE,
    VOLUME,
)

STORAGE = frozenset({LUSTRE, VOLUME, *BUCKETS})
"""Types whose deletion takes data with it."""

RESERVATIONS = frozenset({CAPACITY_BLOCK, CAPACITY_RESERVATION, BLOCK_OFFERING})
"""Types that hold capacity: what is given back is somebody else's a minute later."""

GUARDED = STORAGE | RESERVATIONS

_MOST_NAMED = 5


def lost_data(steps: Iterable[SeenStep]) -> list[SeenStep]:
    """The steps that delete or replace storage."""
    return [step for step in steps if step.type in STORAGE and step.how in ("delete", "replace")]


def lost_reservations(steps: Iterable[SeenStep]) -> list[SeenStep]:
    """The steps that replace a reservation, or delete one in the run that asks for another.

    One whose group was taken out of the file is meant to go. A group, site or fleet with another name looks
    like an old one that goes and a new one that comes: nobody said that its reservation may go.
    """
    held = [step for step in steps if step.type in RESERVATIONS]
    asked = {step.type for step in held if step.how == "create"}
    return [step for step in held if step.how == "replace" or (step.how == "delete" and step.type in asked)]


def hold(
    steps: Iterable[SeenStep], *, allow_data_loss: bool, exported: Mapping[str, Any] | None, now: dt.datetime
) -> None:
    """Raise RefusedError where the steps of a preview lose data or a reservation that nobody gave up.

    `exported` is the state before; reservations that have ended by `now` hold nothing any more.
    """
    seen = tuple(steps)
    data = lost_data(seen)
    if data and not allow_data_loss:
        raise RefusedError(
            f"this deletes storage with everything in it: {_named(data)}; nothing has been changed",
            remedy="keep in the fleet file what forces it, or pass --allow-data-loss once the data is"
            " elsewhere",
        )
    ended = set(_ended(exported, now))
    reservations = [step for step in lost_reservations(seen) if step.urn not in ended]
    if reservations:
        raise RefusedError(
            f"this gives up reserved capacity to ask for other: {_named(reservations)}; nothing has been"
            " changed",
            remedy="keep it as it is and add a node group beside it; to give a reservation up, take its group"
            " out of the fleet file in a run of its own",
        )


def hold_destroy(stored: Mapping[str, int], *, allow_data_loss: bool) -> None:
    """Raise RefusedError where a stack with these resources (type -> how many) holds storage."""
    held = {kind: count for kind, count in sorted(stored.items()) if kind in STORAGE}
    if held and not allow_data_loss:
        listed = ", ".join(f"{count} x {short_type(kind)}" for kind, count in held.items())
        raise RefusedError(
            f"this deletes storage with everything in it: {listed}; nothing has been changed",
            remedy="pass --allow-data-loss once the data is elsewhere",
        )


def is_guarded(exported: Mapping[str, Any] | None) -> bool:
    """Whether a stack's exported state has anything that is guarded."""
    return any(resource["type"] in GUARDED for resource in _resources(exported))


def _resources(exported: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    return ((exported or {}).get("deployment") or {}).get("resources") or ()


def _ended(exported: Mapping[str, Any] | None, now: dt.datetime) -> Iterator[str]:
    """URNs of reservations whose time has run out."""
    for resource in _resources(exported):
        outputs = resource.get("outputs") or {}
        end = outputs.get("endDate") or outputs.get("end_date")
        if resource["type"] not in RESERVATIONS or not isinstance(end, str):
            continue
        try:
            moment = dt.datetime.fromisoformat(end.replace("Z", "+00:00"))
        except ValueError:
            continue
        if (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) <= now:
            yield str(resource["urn"])


def _named(steps: list[SeenStep]) -> str:
    names = [
        f"{step.name} ({short_type(step.type)}, {step.how}d"
        + (f" because of {', '.join(sorted(step.forced))}" if step.forced else "")
        + ")"
        for step in steps
    ]
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
