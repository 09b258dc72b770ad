"""The parts of check, diff and preview that need no AWS call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.provider import DiffResponse, PropertyDiff, PropertyDiffKind

from gpufleet.lab.aws.provider import naming, schema
from gpufleet.lab.aws.provider.compare import InputChange, differences
from gpufleet.lab.aws.provider.config import AwsProviderConfig
from gpufleet.lab.aws.provider.handler import Handler
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import UNKNOWN, Props, contains_unknown

_KINDS = {
    ("add", False): PropertyDiffKind.ADD,
    ("add", True): PropertyDiffKind.ADD_REPLACE,
    ("delete", False): PropertyDiffKind.DELETE,
    ("delete", True): PropertyDiffKind.DELETE_REPLACE,
    ("update", False): PropertyDiffKind.UPDATE,
    ("update", True): PropertyDiffKind.UPDATE_REPLACE,
}


def checked_inputs(
    handler: Handler,
    config: AwsProviderConfig,
    inputs: Props,
    old: Mapping[str, Any],
    logical: str,
    seed: bytes,
) -> tuple[Props, list[Problem]]:
    """Return the inputs with names, defaults and default tags, and all errors in them.

    `__defaults` lists the inputs that were set by default, as in the real provider's state.
    """
    filled = dict(inputs)
    found = list(schema.problems(handler.schema.inputs, inputs))
    added = naming.apply(handler.auto_name, filled, old, logical, seed)
    if added:
        found = [problem for problem in found if problem.path not in added]
    for key, value in handler.defaults.items():
        if filled.get(key) is None:
            filled[key] = value
            added.append(key)
    if handler.schema.tagged and handler.takes_default_tags and config.default_tags:
        given = filled.get("tags") or {}
        if given != UNKNOWN:
            filled["tags"] = {**config.default_tags, **given}
    filled["__defaults"] = sorted(added)
    if not found:
        found += handler.check(filled)
    return filled, found


def diff(handler: Handler, old: Props, new: Props, ignore: list[str]) -> DiffResponse:
    """Return the exact difference between two sets of inputs, and whether it can be made in place."""
    changes = [
        change
        for change in differences(handler, old, new)
        if not _ignored(change, ignore) and not _left_to_aws(handler, change)
    ]
    changed = frozenset(top_level(change.path) for change in changes)
    forced = handler.replaces(old, new, changed) if changed else frozenset()
    replacing = {
        change.path: _forces(handler, change.dotted) or top_level(change.path) in forced for change in changes
    }
    replaces = sorted({top_level(path) for path, hard in replacing.items() if hard})
    return DiffResponse(
        changes=bool(changes),
        diffs=sorted(changed),
        replaces=replaces,
        delete_before_replace=bool(replaces) and collides(handler, old, new),
        detailed_diff={
            change.path: PropertyDiff(_KINDS[change.kind, replacing[change.path]], input_diff=True)
            for change in changes
        },
    )


def top_level(path: str) -> str:
    """Return the property that a path starts with."""
    return path.partition(".")[0].partition("[")[0]


def _ignored(change: InputChange, ignore: list[str]) -> bool:
    return any(
        change.path == path or change.path.startswith((f"{path}.", f"{path}["))
        or change.dotted == path or change.dotted.startswith(f"{path}.")
        for path in ignore
    )  # fmt: skip


def _left_to_aws(handler: Handler, change: InputChange) -> bool:
    """Return whether AWS keeps its value for a property that the program no longer sets."""
    return change.kind == "delete" and change.path == change.dotted and change.dotted in handler.computed


def _forces(handler: Handler, dotted: str) -> bool:
    """Return whether a path, or its parent block, forces a replacement; `region` always does."""
    steps = dotted.split(".")
    return dotted == "region" or any(
        ".".join(steps[: end + 1]) in handler.force_new for end in range(len(steps))
    )


def collides(handler: Handler, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the new resource would conflict with the old one: a fixed, unchanged name."""
    if handler.delete_before_replace:
        return True
    rule = handler.auto_name
    if rule is None or rule.prop in (new.get("__defaults") or ()):
        return False
    name = new.get(rule.prop)
    return name is not None and name == old.get(rule.prop)


def state_of(handler: Handler, config: AwsProviderConfig, inputs: Props, rid: str, observed: Props) -> Props:
    """Return the outputs of the state: AWS' values, and inputs that AWS does not return."""
    state = {key: value for key, value in inputs.items() if not key.startswith("__")}
    state |= observed
    state["id"] = rid
    if "region" in handler.schema.outputs:
        state["region"] = inputs.get("region") or config.region
    if handler.schema.tagged:
        state["tags"] = observed.get("tags", inputs.get("tags", {}))
        state["tagsAll"] = state["tags"]
    return {key: value for key, value in state.items() if value is not None}


def planned_create(handler: Handler, config: AwsProviderConfig, inputs: Props) -> Props:
    """Return the outputs of a previewed creation: the inputs, and unknowns for AWS' values."""
    state = {key: value for key, value in inputs.items() if not key.startswith("__")}
    for key in handler.schema.computed_only | frozenset(handler.computed):
        _leave_open(state, key)
    return _with_known(handler, config, inputs, state)


def planned_update(
    handler: Handler, config: AwsProviderConfig, inputs: Props, old_inputs: Props, old: Props
) -> Props:
    """Return the outputs of a previewed update: what cannot change keeps its value."""
    state = dict(old)
    for key in old_inputs:
        if key not in inputs:
            state.pop(key, None)
    state |= {
        key: _with_filled_in(value, old_inputs.get(key), old.get(key)) if _is_block(handler, key) else value
        for key, value in inputs.items()
        if not key.startswith("__")
    }
    for key in handler.computed:
        if key not in inputs and key in old:
            state[key] = old[key]
        _leave_open(state, key, old)
    changed = frozenset(diff(handler, old_inputs, inputs, []).diffs)
    for key in handler.unsettled(inputs, changed):
        state[key] = UNKNOWN
    return _with_known(handler, config, inputs, state)


def _leave_open(state: Props, path: str, old: Mapping[str, Any] | None = None) -> None:
    """Set a value that only AWS knows, also inside a block, to its old value or unknown."""
    key, _, inner = path.partition(".")
    if not inner:
        state.setdefault(key, UNKNOWN)
    elif isinstance(state.get(key), Mapping):
        before = (old or {}).get(key)
        known = before.get(inner, UNKNOWN) if isinstance(before, Mapping) else UNKNOWN
        state[key] = {inner: known, **state[key]}
    elif isinstance(state.get(key), list):
        before = (old or {}).get(key)
        state[key] = [
            {inner: _value_of_same(item, inner, before), **item} if isinstance(item, Mapping) else item
            for item in state[key]
        ]


def _value_of_same(item: Mapping[str, Any], inner: str, before: Any) -> Any:
    """Return the value of the old block of a list that has all values of `item`; unknown without one."""
    for each in before if isinstance(before, list) else ():
        if isinstance(each, Mapping) and all(each.get(key) == value for key, value in item.items()):
            return each.get(inner, UNKNOWN)
    return UNKNOWN


def _is_block(handler: Handler, key: str) -> bool:
    """Return whether an input is a nested block: fixed properties, not a free map."""
    kind = handler.schema.inputs.properties.get(key)
    return isinstance(kind, dict) and "ref" in kind


def _with_filled_in(new: Any, declared: Any, old: Any) -> Any:
    """Return a block as declared now, with the values that AWS had added to the former declaration."""
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return new
    named = {*new, *(declared if isinstance(declared, Mapping) else ())}
    return {**{key: value for key, value in old.items() if key not in named}, **new}


def _with_known(handler: Handler, config: AwsProviderConfig, inputs: Props, state: Props) -> Props:
    if "region" in handler.schema.outputs:
        state["region"] = inputs.get("region") or config.region
    if handler.schema.tagged:
        tags = inputs.get("tags", {})
        state["tagsAll"] = UNKNOWN if contains_unknown(tags) else tags
    return state
