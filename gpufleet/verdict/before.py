"""The stack before a change, read from its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.policy.wire import SECRET, SIGNATURE, UNKNOWN_STRING
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack

_HIDDEN = "[secret]"


def stack_of_state(exported: Mapping[str, Any] | None) -> Stack:
    """Return the stack of Pulumi's deployment JSON (version 3), empty for None.

    Secret values and resources that are pending deletion after a replacement are omitted.
    """
    deployment = (exported or {}).get("deployment") or {}
    states = [state for state in deployment.get("resources") or () if not state.get("delete")]
    by_urn = {state["urn"]: state for state in states}
    return Stack(_resource(state, by_urn) for state in states)


def _resource(state: Mapping[str, Any], by_urn: Mapping[str, Mapping[str, Any]]) -> Resource:
    secrets: set[str] = set()
    inputs = _properties(state.get("inputs") or {}, secrets)
    outputs = _properties(state.get("outputs") or {}, secrets)
    return Resource(
        type=state["type"],
        name=_name(state["urn"]),
        urn=state["urn"],
        props={**outputs, **inputs},
        inputs=inputs,
        options=ResourceOptions(
            protect=bool(state.get("protect")),
            ignore_changes=tuple(state.get("ignoreChanges") or ()),
            aliases=tuple(each for each in state.get("aliases") or () if isinstance(each, str)),
            retain_on_delete=bool(state.get("retainOnDelete")),
        ),
        provider=_provider(state.get("provider"), by_urn),
        parent=state.get("parent") or "",
        dependencies=tuple(state.get("dependencies") or ()),
        property_dependencies={
            key: tuple(urns or ()) for key, urns in (state.get("propertyDependencies") or {}).items() if urns
        },
        secrets=frozenset(secrets),
    )


def _provider(reference: str | None, by_urn: Mapping[str, Mapping[str, Any]]) -> ProviderInstance | None:
    urn = (reference or "").rpartition("::")[0]
    state = by_urn.get(urn)
    if state is None:
        return None
    inputs = _properties(state.get("inputs") or {}, set())
    region = {"region": inputs["region"]} if "region" in inputs else {}
    return ProviderInstance(state["type"], _name(urn), urn, region)


def _name(urn: str) -> str:
    # Only the name, after the fourth part, may contain the separator.
    return urn.split("::", 3)[-1]


def _properties(values: Mapping[str, Any], secrets: set[str]) -> dict[str, Any]:
    return {key: _plain(value, key, secrets) for key, value in values.items() if not key.startswith("__")}


def _plain(value: Any, path: str, secrets: set[str]) -> Any:
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            secrets.add(path)
            return _HIDDEN
        return {
            key: _plain(item, f"{path}.{key}", secrets) for key, item in value.items() if key != SIGNATURE
        }
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]", secrets) for index, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return UNKNOWN if value == UNKNOWN_STRING else value


def unprotected(exported: Mapping[str, Any]) -> dict[str, Any]:
    """Return the deployment without protected resources, so that a preview shows their changes."""
    deployment = dict(exported["deployment"])
    deployment["resources"] = [
        {key: value for key, value in state.items() if key != "protect"} for state in deployment["resources"]
    ]
    return {**exported, "deployment": deployment}
