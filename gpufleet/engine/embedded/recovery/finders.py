"""The finders of the packages that this project's programs use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.engine.embedded.recovery.aws import AwsFinder
from gpufleet.engine.embedded.recovery.search import (
    Answer,
    Candidates,
    Finder,
    ProviderCall,
    RepeatableCreation,
    UnknownResult,
)
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.values import UnknownValue, reveal


class KubernetesFinder:
    """Objects have their name as id: `<namespace>/<name>`, or `<name>` without a namespace."""

    def visibility_delay_s(self, env: Mapping[str, str]) -> float:
        """Return 0: an API server shows accepted objects at once."""
        return 0.0

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """Return the object of that name."""
        metadata = reveal(wanted.inputs.get("metadata"))
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str):
            return UnknownResult("it has no name in its inputs")
        namespace = metadata.get("namespace")
        if isinstance(namespace, UnknownValue):
            return UnknownResult("its namespace is not known")
        # An object without a namespace is in `default`, if its kind has namespaces.
        places = [f"{namespace}/{name}"] if namespace else [name, f"default/{name}"]
        return Candidates(tuple(places))

    def matches(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Return whether the object has the requested labels."""
        asked = reveal(wanted.inputs.get("metadata")) or {}
        found = reveal(outputs.get("metadata")) or {}
        return contains_all(found.get("labels"), asked.get("labels"))


class DynamicFinder:
    """Our dynamic resources only search something, or store it under their own name."""

    def visibility_delay_s(self, env: Mapping[str, str]) -> float:
        """Return 0: nothing is searched."""
        return 0.0

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """Return repeatable: `components/dynamic.py` requires that of every dynamic resource."""
        return RepeatableCreation()

    def matches(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Never called."""
        return True


def contains_all(found: Any, wanted: Any) -> bool:
    """Return whether a map of tags or labels contains all wanted ones."""
    have = found if isinstance(found, dict) else {}
    return all(have.get(key) == value for key, value in (wanted or {}).items())


FINDERS: dict[str, Finder] = {
    "aws": AwsFinder(),
    "kubernetes": KubernetesFinder(),
    "pulumi-python": DynamicFinder(),
}
"""Package -> finder."""
