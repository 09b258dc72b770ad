"""How the resource of an interrupted creation is looked for: what a package's finder is and answers.

Pulumi's protocol has no search. What there is: the id, where inputs determine it; the provider's own
functions, some of which search; and reading a resource by its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.values import Properties


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ids under which the resource may be; none: it was not made.

    With `bare`, one without any tags is it as well: nothing has been put into it yet.
    """

    ids: tuple[str, ...] = ()
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Repeatable:
    """Creating it again has the same effect as creating it once: nothing need be looked for."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """There is no way to tell; `reason` says why."""

    reason: str


Answer = Candidates | Repeatable | Undecided


class ProviderCall(Protocol):
    """Calls a function of the resource's own provider."""

    def __call__(self, token: str, args: Properties) -> Properties:
        """The function's result; a `ProviderError` where the provider refuses."""
        ...


class Finder(Protocol):
    """Looks for resources of one package."""

    def settle_s(self, env: Mapping[str, str]) -> float:
        """How long after a creation the cloud may still not show it, in seconds."""
        ...

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        """Where the resource may be that an interrupted run wanted to create."""
        ...

    def is_it(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        """Whether what was read under a candidate's id is what was wanted."""
        ...
