"""The search for the resource of an interrupted creation: finders of packages and their answers.

Pulumi's protocol has no search. Available are the id, if inputs determine it; the provider's own functions,
some of which search; and reading a resource by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.values import Properties


class Candidates(Struct, frozen=True):
    """Ids that the resource may have; empty if it was not created.

    With `bare`, a resource without tags also matches, if nothing was put into it yet.
    """

    ids: tuple[str, ...] = ()
    bare: bool = False


class RepeatableCreation(Struct, frozen=True):
    """Creating it twice has the same effect as creating it once: no search is needed."""


class UnknownResult(Struct, frozen=True):
    """The search has no result; `reason` says why."""

    reason: str


Answer = Candidates | RepeatableCreation | UnknownResult


class ProviderCall(Protocol):
    """Calls a function of the resource's own provider."""

    def __call__(self, token: str, args: Properties) -> Properties:
        """Return the function's result; raise `ProviderError` if the provider rejects the call."""
        ...


class Finder(Protocol):
    """Searches resources of one package."""

    def visibility_delay_s(self, env: Mapping[str, str]) -> float:
        """Return how long after a creation the cloud may not show it yet, in seconds."""
        ...

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """Return where the resource of an interrupted creation may be."""
        ...

    def matches(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Return whether the resource read under a candidate's id is the wanted one."""
        ...
