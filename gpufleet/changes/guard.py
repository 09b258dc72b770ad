"""Refuse to delete storage or reservations without approval, before anything is changed.

Rules of the policy pack report the same to reviewers; this applies to every `up` and `destroy`, also where
policies are skipped.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpufleet.changes.observe import ObservedStep, short_type
from gpufleet.errors import RefusedError
from gpufleet.kinds import EXTENSION_SUFFIX
from gpufleet.resources.types import (
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    BUCKETS,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    CLUSTER,
    EFS,
    LUSTRE,
    VOLUME,
)

STORAGE = frozenset({LUSTRE, EFS, VOLUME, *BUCKETS})
"""Types whose deletion deletes data."""

RESERVATIONS = frozenset({CAPACITY_BLOCK, CAPACITY_RESERVATION, BLOCK_OFFERING, BLOCK_EXTENSION})
"""Types that hold capacity: another customer can take released capacity within a minute."""

GUARDED = STORAGE | RESERVATIONS

_KUBERNETES = "kubernetes:"
_PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
"""Every cluster has some: they are deleted only with all of its contents."""

_MOST_LISTED = 5


def lost_data(steps: Iterable[ObservedStep]) -> list[ObservedStep]:
    """Return the steps that delete or replace storage."""
    return [step for step in steps if step.type in STORAGE and step.how in ("delete", "replace")]


def lost_reservations(steps: Iterable[ObservedStep]) -> list[ObservedStep]:
    """Return the steps that replace a reservation, or delete one in a run that requests another.

    A reservation whose group was removed from the file may be deleted. Renaming a group, site or fleet looks
    like a deletion and a creation, which is no approval to delete its reservation.
    """
    held = [step for step in steps if step.type in RESERVATIONS]
    asked = {step.type for step in held if step.how == "create"}
    return [step for step in held if step.how == "replace" or (step.how == "delete" and step.type in asked)]


def lost_contents(steps: Iterable[ObservedStep]) -> list[ObservedStep]:
    """Return the steps that delete the contents of a cluster which itself stays.

    `access: phased` takes all of them out of the program. With another provider, as for a kubeconfig with
    another server, Pulumi replaces all of them.
    """
    seen = tuple(steps)
    gone = [step.name for step in seen if step.type == CLUSTER and step.how in ("delete", "replace")]
    return [
        step
        for step in seen
        if step.type.startswith(_KUBERNETES)
        and ((step.type == _PRIORITY and step.how == "delete") or "provider" in step.forced)
        and not any(step.name.startswith(f"{cluster}-base-") for cluster in gone)
    ]


def refuse_data_loss(
    steps: Iterable[ObservedStep],
    *,
    allow_data_loss: bool,
    exported: Mapping[str, Any] | None,
    now: dt.datetime,
) -> None:
    """Raise RefusedError if the steps of a preview delete data or a reservation without approval.

    `exported` is the state before the run; a reservation that ended before `now` may be deleted.
    """
    seen = tuple(steps)
    data = lost_data(seen)
    if data and not allow_data_loss:
        raise RefusedError(
            f"this deletes storage and its data: {_named(data)}; nothing has been changed",
            remedy="undo the change of the fleet file that forces it, or copy the data and pass"
            " --allow-data-loss",
        )
    contents = lost_contents(seen)
    if contents and not allow_data_loss:
        raise RefusedError(
            "this deletes what gpufleet applied in a cluster that stays, with everything in its namespaces:"
            f" {_named(contents)}; nothing has been changed",
            remedy="keep `kubernetes.access` of the site at direct or ssm. A cluster that was first reached"
            " with direct by an older version needs one `up` with `access: direct` before ssm. To delete the"
            " contents, pass --allow-data-loss",
        )
    ended = set(_ended(exported, now))
    reservations = [step for step in lost_reservations(seen) if step.urn not in ended]
    if reservations:
        raise RefusedError(
            f"this releases reserved capacity to request other capacity: {_named(reservations)}; nothing has"
            " been changed",
            remedy="keep the reservation and add another node group; to release a reservation, remove its"
            " group from the fleet file in a separate run",
        )


def refuse_destroying_data(stored: Mapping[str, int], *, allow_data_loss: bool) -> None:
    """Raise RefusedError if a stack with these resources (type -> count) has storage."""
    held = {kind: count for kind, count in sorted(stored.items()) if kind in STORAGE}
    if held and not allow_data_loss:
        listed = ", ".join(f"{count} x {short_type(kind)}" for kind, count in held.items())
        raise RefusedError(
            f"this deletes storage and its data: {listed}; nothing has been changed",
            remedy="copy the data and pass --allow-data-loss",
        )


def is_guarded(exported: Mapping[str, Any] | None) -> bool:
    """Return whether a stack's exported state has guarded resources, or contents of a cluster."""
    kinds = {resource["type"] for resource in _resources(exported)}
    return any(kind in GUARDED or kind.startswith(_KUBERNETES) for kind in kinds)


def _resources(exported: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    return ((exported or {}).get("deployment") or {}).get("resources") or ()


def _ended(exported: Mapping[str, Any] | None, now: dt.datetime) -> Iterator[str]:
    """Yield URNs of reservations that have ended, with all extensions of a block."""
    ends: dict[str, dict[str, dt.datetime]] = {}
    for resource in _resources(exported):
        outputs, urn = resource.get("outputs") or {}, str(resource["urn"])
        end = outputs.get("endDate") or outputs.get("end_date")
        if resource["type"] not in RESERVATIONS or not isinstance(end, str):
            continue
        try:
            moment = dt.datetime.fromisoformat(end.replace("Z", "+00:00"))
        except ValueError:
            continue
        # The resources of a block have one name, and its extensions another suffix.
        block = urn.rpartition("::")[2].partition(EXTENSION_SUFFIX)[0]
        ends.setdefault(block, {})[urn] = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    for found in ends.values():
        if max(found.values()) <= now:
            yield from found


def _named(steps: list[ObservedStep]) -> str:
    names = [
        f"{step.name} ({short_type(step.type)}, {step.how}d"
        + (f" because of {', '.join(sorted(step.forced))}" if step.forced else "")
        + ")"
        for step in steps
    ]
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
