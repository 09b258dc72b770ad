"""Adds tags to a resource, in any of the forms that AWS resource types use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpufleet.policies.rules.tags._launched import REQUIRED
from gpufleet.policies.rules.tags._tags import folded
from gpufleet.resources.aws_types import taggable
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import LAUNCH_TEMPLATE

_REFUSES_TWO_SPELLINGS = "aws:iam/"
"""IAM rejects two keys that differ only in case (IAM User Guide, "Tags for IAM resources")."""


def with_tags(
    resource: Resource, wanted: Mapping[str, str], otherwise: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the top-level properties that must change for the wanted tags; None if none must.

    Tags of `otherwise` are added only if the key is missing, whatever its value. Tags that are unknown as a
    whole stay as they are. Existing tags keep their order and place, so secret values stay secret.
    """
    changed: dict[str, Any] = {}
    tags = resource.props.get("tags")
    if taggable(resource.type) == "list":
        _put(changed, "tags", tags, _list(tags, wanted, otherwise))
    else:
        one_spelling = resource.type.startswith(_REFUSES_TWO_SPELLINGS)
        _put(changed, "tags", tags, _map(tags, wanted, otherwise, one_spelling))
        result = resource.props.get("tagsAll")
        if isinstance(result, Mapping):
            # The real provider computes this before rules run, and uses it.
            _put(changed, "tagsAll", result, _map(result, wanted, otherwise, one_spelling))
    if resource.type == LAUNCH_TEMPLATE:
        entries = resource.props.get("tagSpecifications")
        _put(changed, "tagSpecifications", entries, _specifications(entries, wanted, otherwise))
    return changed or None


def _put(changed: dict[str, Any], prop: str, before: Any, after: Any) -> None:
    if after != before:
        changed[prop] = after


def _map(
    tags: Any, wanted: Mapping[str, str], otherwise: Mapping[str, str], one_spelling: bool = False
) -> Any:
    if is_unknown(tags):
        return tags
    have = dict(tags) if isinstance(tags, Mapping) else {}
    if one_spelling:
        spelt = {folded(key): key for key in wanted}
        have = {key: value for key, value in have.items() if spelt.get(folded(key), key) == key}
    absent = {key: value for key, value in otherwise.items() if key not in have}
    return {**have, **absent, **wanted}


def _list(tags: Any, wanted: Mapping[str, str], otherwise: Mapping[str, str]) -> Any:
    if is_unknown(tags) or (tags is not None and not isinstance(tags, Sequence)):
        return tags
    entries: list[Any] = []
    there: set[str] = set()
    for entry in tags or ():
        key = entry.get("key") if isinstance(entry, Mapping) else None
        if isinstance(key, str):
            there.add(key)
            entry = {**entry, "value": wanted[key]} if key in wanted else entry
        entries.append(entry)
    missing = [
        {"key": key, "value": value, "propagateAtLaunch": True}
        for key, value in {**otherwise, **wanted}.items()
        if key not in there
    ]
    return [*entries, *missing]


def _specifications(entries: Any, wanted: Mapping[str, str], otherwise: Mapping[str, str]) -> Any:
    if is_unknown(entries) or (entries is not None and not isinstance(entries, Sequence)):
        return entries
    found: list[Any] = []
    there: set[Any] = set()
    for entry in entries or ():
        if not isinstance(entry, Mapping):
            return entries  # it may be of any kind
        there.add(entry.get("resourceType"))
        found.append({**entry, "tags": _map(entry.get("tags"), wanted, otherwise)})
    if any(is_unknown(kind) for kind in there):
        return found
    return [
        *found,
        *({"resourceType": kind, "tags": {**otherwise, **wanted}} for kind in REQUIRED if kind not in there),
    ]
