"""A life of each resource type: what makes it, changes it in place, replaces it, drifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.unit.lab.aws.provider.driver import Resource
from tests.unit.lab.aws.provider.world import World

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """`update` and `replace` are laid over the inputs (None takes a property away); their keys are
    exactly what the diff must name. `drift` changes the resource behind the provider's back and
    returns the property that a refresh must report. `stays` says that AWS keeps it after deletion."""

    token: str
    inputs: Callable[[World], Inputs]
    update: Callable[[World], Inputs] | None = None
    replace: Callable[[World], Inputs] | None = None
    drift: Callable[[World, Resource], str] | None = None
    stays: bool = False

    @property
    def name(self) -> str:
        """The type's name alone, as the test's id."""
        return self.token.rpartition(":")[2]


def changed(inputs: Inputs, changes: Inputs) -> Inputs:
    """Inputs with changes laid over."""
    return {key: value for key, value in {**inputs, **changes}.items() if value is not None}


def retagged(world: World) -> Inputs:
    return {"tags": {"Name": "renamed"}}


def drift_tag(world: World, resource: Resource) -> str:
    world.client("ec2").create_tags(Resources=[resource.id], Tags=[{"Key": "owner", "Value": "somebody"}])
    return "tags"
