"""Options that a resource inherits from its parent: protection, providers and the like."""

from __future__ import annotations

import threading

from msgspec import Struct

from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.urns import PROVIDER_PREFIX, package_of, split_reference, urn_type


class _Parent(Struct, frozen=True):
    protect: bool | None
    retain_on_delete: bool | None
    deleted_with: str
    provider: str
    providers: dict[str, str]


class Inheritance:
    """The inheritable options of every resource registered so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parents: dict[str, _Parent] = {}

    def remember(self, urn: str, goal: Goal, providers: dict[str, str]) -> None:
        """Store the options for children of `urn`; a component passes its parent's providers on."""
        with self._lock:
            above = self._parents.get(goal.parent)
            if not goal.custom and above is not None:
                providers = {**above.providers, **providers}
            self._parents[urn] = _Parent(
                goal.protect,
                goal.retain_on_delete,
                goal.deleted_with,
                goal.provider,
                {} if goal.custom else providers,
            )

    def apply(self, goal: Goal, providers: dict[str, str]) -> None:
        """Set the options of `goal` that are not set."""
        with self._lock:
            above = self._parents.get(goal.parent)
        if above is not None:
            goal.deleted_with = goal.deleted_with or above.deleted_with
            goal.protect = above.protect if goal.protect is None else goal.protect
            if goal.retain_on_delete is None:
                goal.retain_on_delete = above.retain_on_delete
            if not goal.provider and (not goal.custom or _serves(above.provider, goal.type)):
                goal.provider = above.provider
        if goal.custom and not goal.provider:
            package = package_of(goal.type)
            goal.provider = providers.get(package) or self.provider_for(goal.parent, package)

    def provider_for(self, parent: str, package: str) -> str:
        """Return the provider of `parent` for a package; empty if it has none."""
        with self._lock:
            above = self._parents.get(parent)
        return above.providers.get(package, "") if above is not None else ""


def _serves(reference: str, type_: str) -> bool:
    if not reference:
        return False
    return urn_type(split_reference(reference)[0]) == PROVIDER_PREFIX + package_of(type_)
