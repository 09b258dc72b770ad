"""Expiry of bucket objects: a shorter time on a bucket with data deletes data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpufleet.policies.rules.security._buckets import LIFECYCLE, configured
from gpufleet.policies.rules.security._properties import is_off
from gpufleet.policy.change import StackChange
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack

_CURRENT = ("expiration.days", "expiration.date")
_FORMER = ("noncurrentVersionExpiration.noncurrentDays", "noncurrentVersionExpiration.days")
_NEVER = math.inf


def earlier_expiry(change: StackChange) -> Iterator[tuple[Resource, str]]:
    """Yield (bucket, description) of each existing bucket whose objects the change deletes sooner.

    A bucket of gpufleet whose creation was interrupted before its lifecycle was set has no time yet.
    """
    after = _times(change.after)
    begun = _unfinished_buckets(change.before)
    for urn, (_, was) in _times(change.before).items():
        if urn in begun:
            continue
        named = next((each for each in after if each == urn or urn in _aliases(after[each][0])), None)
        if named is None:
            continue
        bucket, now = after[named]
        for what, old, new in zip(("objects", "former versions"), was, now, strict=True):
            if new < old:
                yield bucket, f"{what} would be deleted {_shown(new)} instead of {_shown(old)}"


def _unfinished_buckets(stack: Stack) -> set[str]:
    """Return the URNs of gpufleet's buckets that never had their lifecycle set."""
    return {
        bucket.urn
        for bucket, lifecycles in configured(stack, LIFECYCLE)
        if not lifecycles and _is_unfinished(stack.by_urn.get(bucket.parent))
    }


def _is_unfinished(component: Resource | None) -> bool:
    return (
        component is not None
        and component.type == "gpufleet:storage:Bucket"
        and not component.get("lifecycleId")
    )


def _aliases(bucket: Resource) -> tuple[str, ...]:
    return bucket.options.aliases


def _times(stack: Stack) -> dict[str, tuple[Resource, tuple[float, float]]]:
    """Return URN -> (bucket, days until any object expires, and any former version)."""
    return {
        bucket.urn: (bucket, (_least(bucket, found, _CURRENT), _least(bucket, found, _FORMER)))
        for bucket, found in configured(stack, LIFECYCLE)
    }


def _least(bucket: Resource, lifecycles: list[Resource], paths: tuple[str, ...]) -> float:
    days = [_NEVER]
    for resource, prop in ((bucket, "lifecycleRules"), *((each, "rules") for each in lifecycles)):
        if is_unknown(resource.get(prop)) and (resource.inputs or {}).get(prop) is not None:
            days.append(0)
            continue
        for rule, _ in resource.items(prop):
            off = resource.get(f"{rule}.status") == "Disabled" or is_off(resource.get(f"{rule}.enabled"))
            for path in () if off else paths:
                value = resource.get(f"{rule}.{path}")
                if value is not None:
                    days.append(_days(value))
    return min(days)


def _days(value: object) -> float:
    # A date counts as 0 days, and so does an unknown time.
    return float(value) if isinstance(value, (int, float)) and value > 0 else 0


def _shown(days: float) -> str:
    if days == _NEVER:
        return "never"
    return f"after {days:g} days" if days else "on a fixed or unknown date"
