"""A lifecycle of each resource type: create, in-place change, replacement, drift."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.unit.lab.aws.provider.driver import Resource
from tests.unit.lab.aws.provider.world import World

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """`update` and `replace` are merged over the inputs (None removes a property); their keys are
    exactly those of the diff. `drift` changes the resource outside the provider and
    returns the property that a refresh must report. `stays` means that AWS keeps it after deletion."""

    token: str
    inputs: Callable[[World], Inputs]
    update: Callable[[World], Inputs] | None = None
    replace: Callable[[World], Inputs] | None = None
    drift: Callable[[World, Resource], str] | None = None
    stays: bool = False

    @property
    def name(self) -> str:
        """Only the type's name, as test ID."""
        return self.token.rpartition(":")[2]


def changed(inputs: Inputs, changes: Inputs) -> Inputs:
    """Inputs with merged changes."""
    return {key: value for key, value in {**inputs, **changes}.items() if value is not None}


def retagged(world: World) -> Inputs:
    return {"tags": {"Name": "renamed"}}


def drift_tag(world: World, resource: Resource) -> str:
    world.client("ec2").create_tags(Resources=[resource.id], Tags=[{"Key": "owner", "Value": "somebody"}])
    return "tags"
