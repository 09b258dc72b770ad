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
    Repeatable,
    Undecided,
)
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.values import UnknownValue, reveal


class KubernetesFinder:
    """Objects have their id from their name: `<namespace>/<name>`, or `<name>` where there is none."""

    def settle_s(self, env: Mapping[str, str]) -> float:
        """An API server shows at once what it has accepted."""
        return 0.0

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """The object of that name."""
        metadata = reveal(wanted.inputs.get("metadata"))
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str):
            return Undecided("it has no name in its inputs")
        namespace = metadata.get("namespace")
        if isinstance(namespace, UnknownValue):
            return Undecided("its namespace is not known")
        # An object without a namespace lies in `default`, if it is of a kind that has one.
        places = [f"{namespace}/{name}"] if namespace else [name, f"default/{name}"]
        return Candidates(tuple(places))

    def is_it(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Whether the object carries the labels that were asked for."""
        asked = reveal(wanted.inputs.get("metadata")) or {}
        found = reveal(outputs.get("metadata")) or {}
        return carries(found.get("labels"), asked.get("labels"))


class DynamicFinder:
    """Our dynamic resources look something up or put it under a name of its own."""

    def settle_s(self, env: Mapping[str, str]) -> float:
        """Nothing is looked for."""
        return 0.0

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """`components/dynamic.py` asks that of every dynamic resource."""
        return Repeatable()

    def is_it(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Never asked."""
        return True


def carries(found: Any, wanted: Any) -> bool:
    """Whether a map of tags or labels holds all that is wanted."""
    have = found if isinstance(found, dict) else {}
    return all(have.get(key) == value for key, value in (wanted or {}).items())


FINDERS: dict[str, Finder] = {
    "aws": AwsFinder(),
    "kubernetes": KubernetesFinder(),
    "pulumi-python": DynamicFinder(),
}
"""Package -> finder."""
