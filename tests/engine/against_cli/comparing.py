"""Normalized states, plans and steps of both engines, without ids, times and ciphertexts."""

from __future__ import annotations

import json
import re
import shutil
from typing import Any

import pytest

from gpufleet.engine.api import RunResult

from ..conftest import Lab

needs_cli = pytest.mark.skipif(
    shutil.which("pulumi") is None,
    reason="the Pulumi CLI is not on PATH, so there is nothing to compare with",
)

_ID = re.compile(r"-[0-9a-f]{8}\b|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_IGNORED = {"created", "modified", "sourcePosition", "stackTrace"}


def normal(value: Any) -> Any:
    """Values without what differs from run to run: ids, times, positions, ciphertexts."""
    if isinstance(value, str):
        return _ID.sub("<id>", value)
    if isinstance(value, dict):
        return {
            key: "<sealed>" if key == "ciphertext" else normal(item)
            for key, item in value.items()
            if key not in _IGNORED
        }
    return [normal(item) for item in value] if isinstance(value, list) else value


def comparable(deployment: dict[str, Any]) -> list[str]:
    """The resources of a state, in an order that does not depend on timing."""
    resources = [normal(resource) for resource in deployment.get("resources") or []]
    for resource in resources:
        resource.get("dependencies", []).sort()
        # A refresh of the CLI drops empty lists here; they are equivalent.
        needed = {key: sorted(urns) for key, urns in resource.pop("propertyDependencies", {}).items() if urns}
        if needed:
            resource["propertyDependencies"] = needed
    return sorted(json.dumps(resource, sort_keys=True) for resource in resources)


def left(lab: Lab) -> list[str]:
    """The state after a run; None after a first preview."""
    exported = lab.engine.export(lab.request)
    return comparable({} if exported is None else exported["deployment"])


def planned(result: RunResult) -> list[tuple[Any, ...]]:
    """Changed resources in a result."""
    return sorted(
        (
            r.urn,
            r.op.value,
            r.custom,
            r.parent,
            r.diff,
            r.replace_keys,
            json.dumps(normal(r.inputs), sort_keys=True),
        )
        for r in result.resources
        if r.op.value not in ("same", "read", "refresh")
    )


def finished(lab: Lab) -> set[tuple[str, str]]:
    """Steps of a run. The CLI reports once more what an earlier run deleted before a replacement."""
    return {step for step in lab.real_steps() if step[0] != "delete-replaced"}
