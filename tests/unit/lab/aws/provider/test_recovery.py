"""Resources of an interrupted run are found again: by name, by tags, or they may be created again."""

from __future__ import annotations

import pytest

from gpufleet.engine.embedded.recovery.aws import AwsFinder
from gpufleet.engine.embedded.recovery.aws_ids import BUCKET, DERIVED, NAMED, REPEATABLE, TAGGED
from gpufleet.engine.embedded.recovery.search import (
    Candidates,
    ProviderCall,
    RepeatableCreation,
    UnknownResult,
)
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import ProviderError
from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import sandbox_env
from gpufleet.lab.aws.provider.registry import tokens
from tests.unit.lab.aws.provider.driver import Engine, Resource
from tests.unit.lab.aws.provider.scenarios import Scenario, changed
from tests.unit.lab.aws.provider.test_round_trip import each_type
from tests.unit.lab.aws.provider.world import World

# AWS neither names these after inputs nor finds them by tags.
_UNDECIDED = {
    "aws:costexplorer/anomalyMonitor:AnomalyMonitor",
    "aws:costexplorer/anomalySubscription:AnomalySubscription",
    "aws:directconnect/gatewayAssociationProposal:GatewayAssociationProposal",
    "aws:ec2/securityGroupRule:SecurityGroupRule",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
    "aws:route53/resolverRuleAssociation:ResolverRuleAssociation",
}


@pytest.fixture
def ask(engine: Engine) -> ProviderCall:
    """The functions of the sandbox's provider."""
    import grpc

    def call(token: str, args: Properties) -> Properties:
        try:
            return engine.invoke(token, **args)
        except grpc.RpcError as error:
            raise ProviderError(str(error.details())) from error

    return call


def wanted(resource: Resource) -> ResourceState:
    """Contents of a pending creation: only the inputs."""
    return ResourceState(resource.urn, resource.token, True, inputs=dict(resource.inputs))


@each_type
def test_each_type_is_found_again_from_its_pending_creation(
    scenario: Scenario, engine: Engine, world: World, ask: ProviderCall
) -> None:
    finder = AwsFinder()
    inputs = changed(scenario.inputs(world), {})
    marked = f"recovered-{scenario.name}"
    if scenario.token in TAGGED:
        inputs = {**inputs, "tags": {**(inputs.get("tags") or {}), "Name": marked, "gpufleet:fleet": "atlas"}}
        before = finder.find(ResourceState("urn", scenario.token, True, inputs={**inputs}), ask)
        assert before == Candidates()
    made = engine.create(scenario.token, marked, inputs)
    try:
        answer = finder.find(wanted(made), ask)
        if scenario.token in REPEATABLE:
            assert answer == RepeatableCreation()
        elif scenario.token in _UNDECIDED:
            assert isinstance(answer, UnknownResult)
        else:
            assert isinstance(answer, Candidates)
            assert answer.ids == (made.id,)
            found = Resource(made.token, made.name, dict(made.inputs), id=made.id, state=dict(made.inputs))
            assert engine.refresh(found)
            assert finder.matches(wanted(made), found.state)
    finally:
        if not scenario.stays:
            engine.delete(made)


def test_every_type_of_the_sandbox_has_a_recovery_rule() -> None:
    rules = [*NAMED, *TAGGED, *DERIVED, *REPEATABLE, "aws:ec2/routeTableAssociation:RouteTableAssociation"]
    assert len(rules) == len(set(rules))
    assert set(tokens()) - set(rules) == _UNDECIDED


def test_untagged_resource_is_not_matched_with_others(ask: ProviderCall) -> None:
    state = ResourceState("urn", "aws:ec2/vpc:Vpc", True, inputs={"cidrBlock": "10.0.0.0/16"})
    assert AwsFinder().find(state, ask) == UnknownResult("it has no tags to search for")


def test_name_missing_in_the_inputs_is_reported(ask: ProviderCall) -> None:
    state = ResourceState("urn", "aws:iam/role:Role", True, inputs={"namePrefix": "x"})
    answer = AwsFinder().find(state, ask)
    assert answer == UnknownResult("its inputs do not have name, which determine its name")


def test_matching_name_with_foreign_tags_is_not_ours() -> None:
    state = ResourceState("urn", "aws:s3/bucket:Bucket", True, inputs={"tags": {"Name": "a", "team": "b"}})
    assert AwsFinder().matches(state, {"tags": {"Name": "a", "team": "b", "more": "c"}})
    assert not AwsFinder().matches(state, {"tags": {"Name": "a"}})
    assert not AwsFinder().matches(state, {})


def test_only_an_empty_bucket_may_lack_tags() -> None:
    def ask(token: str, args: Properties) -> Properties:
        if args["bucket"] == "absent":
            raise ProviderError("NoSuchBucket")
        return {"keys": ["weights"] if args["bucket"] == "used" else []}

    def answer(name: str) -> object:
        return AwsFinder().find(ResourceState("urn", BUCKET, True, inputs={"bucket": name}), ask)

    assert answer("new") == Candidates(("new",), bare=True)
    assert answer("used") == Candidates(("used",))
    assert answer("absent") == Candidates(("absent",))


@pytest.mark.parametrize(
    ("endpoint", "waits"), [("http://127.0.0.1:4566", False), ("", True), ("https://ec2.amazonaws.com", True)]
)
def test_only_an_eventually_consistent_cloud_is_waited_for(endpoint: str, waits: bool) -> None:
    assert (AwsFinder().visibility_delay_s({"AWS_ENDPOINT_URL": endpoint}) > 0) is waits


def test_injected_delay_of_the_emulator_is_waited_for() -> None:
    env = sandbox_env(daemon.Endpoint("http://127.0.0.1:4566", 1, late_s=3.0))
    assert AwsFinder().visibility_delay_s(env) > 3
    assert AwsFinder().visibility_delay_s({**env, "AWS_ENDPOINT_URL": "https://ec2.amazonaws.com"}) == 20
