"""Every type goes through its lifecycle: create, no change, update, drift, replace, delete."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from gpufleet.lab.aws.provider.registry import handler_for, tokens
from gpufleet.lab.aws.provider.wire import UNKNOWN
from tests.unit.lab.aws.provider.conftest import DEFAULT_TAGS
from tests.unit.lab.aws.provider.driver import Engine, Resource
from tests.unit.lab.aws.provider.scenarios import Scenario, changed
from tests.unit.lab.aws.provider.scenarios_compute import COMPUTE
from tests.unit.lab.aws.provider.scenarios_identity import IDENTITY
from tests.unit.lab.aws.provider.scenarios_network import NETWORK
from tests.unit.lab.aws.provider.scenarios_services import FUNCTIONS, MESSAGES_AND_MONEY, STORAGE
from tests.unit.lab.aws.provider.world import World

SCENARIOS = (*NETWORK, *COMPUTE, *IDENTITY, *STORAGE, *FUNCTIONS, *MESSAGES_AND_MONEY)
NONE = provider_pb2.DiffResponse.DIFF_NONE
each_type = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


def test_every_supported_type_has_a_round_trip() -> None:
    assert {scenario.token for scenario in SCENARIOS} == set(tokens())


def tagged(inputs: dict[str, Any], scenario: Scenario) -> dict[str, Any]:
    """Changes with the default tags that Check adds."""
    handler = handler_for(scenario.token)
    if "tags" in inputs and handler.schema.tagged:
        return {**inputs, "tags": {**DEFAULT_TAGS, **inputs["tags"]}}
    return inputs


@each_type
def test_preview_knows_the_inputs_and_marks_the_rest_unknown(
    scenario: Scenario, engine: Engine, world: World
) -> None:
    inputs = scenario.inputs(world)
    planned = engine.preview(scenario.token, "life", inputs)
    handler = handler_for(scenario.token)
    for key, value in tagged(inputs, scenario).items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for given, block in zip(value, planned[key], strict=True):
                assert {name: block[name] for name in given} == given
                assert {block[name] for name in block.keys() - given.keys()} <= {UNKNOWN}
        elif isinstance(value, dict) and isinstance(planned[key], dict):
            # Values that AWS fills in inside a block are as unknown as those beside it.
            assert {name: planned[key][name] for name in value} == value
            assert {planned[key][name] for name in planned[key].keys() - value.keys()} <= {UNKNOWN}
        else:
            assert planned[key] == value
    computed = handler.schema.computed_only - {"tagsAll", "region"}
    assert {key for key in computed if planned.get(key) != UNKNOWN} == set()
    if handler.schema.tagged:
        assert planned["tagsAll"] == {**DEFAULT_TAGS, **inputs.get("tags", {})}


@each_type
def test_resource_goes_through_create_update_drift_and_delete(
    scenario: Scenario, engine: Engine, world: World
) -> None:
    inputs = scenario.inputs(world)
    resource = engine.create(scenario.token, "life", inputs)
    assert resource.id
    assert resource.state["id"] == resource.id
    try:
        nothing_to_do(engine, resource, inputs)
        nothing_drifts(engine, resource)
        if scenario.update:
            inputs = updates_in_place(engine, resource, inputs, scenario.update(world))
        if scenario.drift:
            drifts_and_heals(engine, world, scenario, resource, inputs)
        if scenario.replace:
            replaces(engine, resource, inputs, scenario.replace(world))
    finally:
        engine.delete(resource)
    gone_unless_it_stays(engine, scenario, resource)
    engine.delete(resource)


def nothing_to_do(engine: Engine, resource: Resource, inputs: dict[str, Any]) -> None:
    diff = engine.diff(resource, inputs)
    assert (diff.changes, list(diff.diffs), list(diff.replaces)) == (NONE, [], [])


def nothing_drifts(engine: Engine, resource: Resource) -> None:
    before = copy.deepcopy((resource.inputs, resource.state))
    assert engine.refresh(resource)
    assert resource.inputs == before[0]
    assert resource.state == before[1]


def updates_in_place(
    engine: Engine, resource: Resource, inputs: dict[str, Any], changes: dict[str, Any]
) -> dict[str, Any]:
    wanted = changed(inputs, changes)
    diff = engine.diff(resource, wanted)
    assert set(diff.diffs) == set(changes)
    assert list(diff.replaces) == []
    rid = resource.id
    planned = engine.update(resource, wanted, preview=True)
    assert all(planned.get(key) == resource.state.get(key) for key in {"arn", "id"} - changes.keys())
    engine.update(resource, wanted)
    assert resource.id == rid
    nothing_to_do(engine, resource, wanted)
    nothing_drifts(engine, resource)
    for key, value in changes.items():
        if isinstance(value, str | int | bool) and key not in handler_for(resource.token).documents:
            assert resource.state[key] == value
    return wanted


def drifts_and_heals(
    engine: Engine, world: World, scenario: Scenario, resource: Resource, inputs: dict[str, Any]
) -> None:
    assert scenario.drift is not None
    drifted = scenario.drift(world, resource)
    assert engine.refresh(resource)
    diff = engine.diff(resource, inputs)
    assert drifted in diff.diffs
    if not diff.replaces:
        engine.update(resource, inputs)
        nothing_drifts(engine, resource)
        nothing_to_do(engine, resource, inputs)


def replaces(engine: Engine, resource: Resource, inputs: dict[str, Any], changes: dict[str, Any]) -> None:
    diff = engine.diff(resource, changed(inputs, changes))
    assert set(diff.diffs) == set(changes)
    assert diff.replaces
    assert set(diff.replaces) <= set(changes)
    kinds = {path: provider_pb2.PropertyDiff.Kind.Name(item.kind) for path, item in diff.detailedDiff.items()}
    assert any(kind.endswith("_REPLACE") for kind in kinds.values())


def gone_unless_it_stays(engine: Engine, scenario: Scenario, resource: Resource) -> None:
    assert engine.refresh(resource) == scenario.stays
