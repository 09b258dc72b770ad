"""A resource registration of the program, decoded once from the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pulumi.runtime.proto import resource_pb2

from gpufleet.engine.embedded.urns import AliasSpec
from gpufleet.engine.embedded.values import Properties

_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


@dataclass(slots=True)
class Goal:
    """One registration. `protect`, `retain_on_delete` and `delete_before_replace` are None if not set."""

    type: str
    name: str
    custom: bool
    inputs: Properties
    parent: str = ""
    dependencies: list[str] = field(default_factory=list)
    property_dependencies: dict[str, list[str]] = field(default_factory=dict)
    provider: str = ""
    protect: bool | None = None
    retain_on_delete: bool | None = None
    delete_before_replace: bool | None = None
    deleted_with: str = ""
    import_id: str = ""
    ignore_changes: list[str] = field(default_factory=list)
    replace_on_changes: list[str] = field(default_factory=list)
    additional_secret_outputs: list[str] = field(default_factory=list)
    aliases: tuple[AliasSpec | str, ...] = ()
    timeouts: dict[str, float] = field(default_factory=dict)
    source_position: str = ""


def seconds(text: str) -> float:
    """Parse a Go duration (`1h30m`, `500ms`) into seconds; anything else is a ValueError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: write it as 90s, 10m or 1h30m")
    return float(sum(float(number) * _UNIT_S[unit] for number, unit in parts))


def timeouts_of(message: resource_pb2.RegisterResourceRequest.CustomTimeouts) -> dict[str, float]:
    """Return custom timeouts in seconds, by operation."""
    given = {name: getattr(message, name) for name in ("create", "update", "delete", "read")}
    found = {name: seconds(text) for name, text in given.items() if text}
    # As Go writes them: whole numbers have no fraction.
    return {name: int(value) if value.is_integer() else value for name, value in found.items()}


def aliases_of(request: resource_pb2.RegisterResourceRequest) -> tuple[AliasSpec | str, ...]:
    """Return the aliases of a request, by URN and by specification."""
    found: list[AliasSpec | str] = list(request.aliasURNs)
    for alias in request.aliases:
        if alias.WhichOneof("alias") == "spec":
            spec = alias.spec
            found.append(
                AliasSpec(
                    name=spec.name,
                    type=spec.type,
                    stack=spec.stack,
                    project=spec.project,
                    parent=spec.parentUrn if spec.WhichOneof("parent") == "parentUrn" else "",
                    no_parent=spec.noParent if spec.WhichOneof("parent") == "noParent" else False,
                )
            )
        else:
            found.append(alias.urn)
    return tuple(found)


def property_dependencies_of(
    request: resource_pb2.RegisterResourceRequest, inputs: Properties, found: Mapping[str, set[str]]
) -> dict[str, list[str]]:
    """Return URNs by property; without any, each property depends on every dependency."""
    if request.propertyDependencies:
        result = {key: set(value.urns) for key, value in request.propertyDependencies.items()}
    else:
        result = {key: set(request.dependencies) for key in inputs}
    for key, urns in found.items():
        result.setdefault(key, set()).update(urns)
    return {key: sorted(urns) for key, urns in sorted(result.items()) if urns or key in inputs}
