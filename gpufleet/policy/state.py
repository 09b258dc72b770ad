"""The stack that is deployed now, from an engine's exported state: what a change is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.policy.resource import Options, Provider, Resource
from gpufleet.policy.stack import Stack

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_MASKED = "[secret]"


def stack_of_state(exported: Mapping[str, Any] | None) -> Stack:
    """The resources of a state in the form of `pulumi stack export` (version 3); empty without one.

    Secrets are encrypted there and become a mask. Resources that wait for their deletion do not count.
    """
    deployment = (exported or {}).get("deployment") or {}
    states = [each for each in deployment.get("resources") or () if not each.get("delete")]
    providers = {each["urn"]: each for each in states if each["type"].startswith("pulumi:providers:")}
    return Stack(_resource(each, providers) for each in states)


def _resource(state: Mapping[str, Any], providers: Mapping[str, Mapping[str, Any]]) -> Resource:
    secrets: set[str] = set()
    inputs = {key: _plain(value, key, secrets) for key, value in (state.get("inputs") or {}).items()}
    outputs = {key: _plain(value, key, secrets) for key, value in (state.get("outputs") or {}).items()}
    return Resource(
        type=state["type"],
        name=_name(state["urn"]),
        urn=state["urn"],
        props={**outputs, **inputs},
        inputs=inputs,
        options=Options(
            protect=bool(state.get("protect")),
            ignore_changes=tuple(state.get("ignoreChanges") or ()),
            aliases=tuple(state.get("aliases") or ()),
        ),
        provider=_provider(providers.get((state.get("provider") or "").rpartition("::")[0])),
        parent=state.get("parent") or "",
        dependencies=tuple(state.get("dependencies") or ()),
        property_dependencies={
            key: tuple(urns or ()) for key, urns in (state.get("propertyDependencies") or {}).items()
        },
        secrets=frozenset(secrets),
    )


def _provider(state: Mapping[str, Any] | None) -> Provider | None:
    if state is None:
        return None
    region = (state.get("inputs") or {}).get("region")
    return Provider(
        state["type"], _name(state["urn"]), state["urn"], {"region": region} if region is not None else {}
    )


def _name(urn: str) -> str:
    return urn.split("::", 3)[-1]


def _plain(value: Any, path: str, secrets: set[str]) -> Any:
    if isinstance(value, Mapping):
        if _SIGNATURE in value:
            secrets.add(path)
            return _MASKED
        return {key: _plain(item, f"{path}.{key}", secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]", secrets) for index, item in enumerate(value)]
    return value
