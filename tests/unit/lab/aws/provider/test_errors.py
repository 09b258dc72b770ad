"""Errors are one line with AWS's code and message, resource and remedy; created resources are kept."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2, status_pb2

from gpufleet.lab.aws.provider import clients as clients_module
from gpufleet.lab.aws.provider.errors import PartialCreateError, explain, is_missing, keep_on_failure
from gpufleet.lab.aws.provider.registry import handler_for
from gpufleet.lab.protocol import one_line
from tests.unit.lab.aws.provider.driver import CheckError, Engine, Resource, as_struct
from tests.unit.lab.aws.provider.scenarios_compute import node_group
from tests.unit.lab.aws.provider.world import World

SUBNET = "aws:ec2/subnet:Subnet"


def refused(call: Any, *arguments: Any) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    details = str(caught.value.details())
    assert "\n" not in details
    assert "Traceback" not in details
    assert "File " not in details
    return details


def test_aws_error_has_action_type_resource_code_message_and_remedy(engine: Engine, world: World) -> None:
    inputs = {"vpcId": world.vpc.id, "cidrBlock": "192.168.0.0/24"}
    details = refused(engine.create, SUBNET, "outside", inputs)
    assert details.startswith(f"creating {SUBNET} outside: InvalidSubnet.Range: ")
    assert "192.168.0.0/24" in details
    assert details.endswith("; correct the inputs and run up again")


def test_name_collision_has_a_remedy(engine: Engine, world: World) -> None:
    details = refused(
        engine.create, "aws:ec2/placementGroup:PlacementGroup", "twice",
        {"name": engine.create("aws:ec2/placementGroup:PlacementGroup", "once", {"strategy": "cluster"}).id,
         "strategy": "cluster"},
    )  # fmt: skip
    assert "Duplicate" in details
    assert details.endswith("; choose another name, or delete what is there")


def test_botocore_validates_every_parameter(engine: Engine) -> None:
    details = refused(engine.create, "aws:cloudwatch/logGroup:LogGroup", "nameless", {"name": ""})
    assert "the AWS API rejects the parameters: Invalid length for parameter logGroupName" in details
    assert details.endswith("; correct the property in the message")


def test_property_missing_in_the_operation_is_named(engine: Engine, world: World) -> None:
    inputs = {"rule": world.rule.id, "arn": world.queue.state["arn"], "redshiftTarget": {"database": "d"}}
    made = engine.create("aws:cloudwatch/eventTarget:EventTarget", "redshift", inputs)
    engine.delete(made)
    parameters = {"redshiftTarget": {"database": "d", "nonsense": 1}}
    with pytest.raises(CheckError, match=r"redshiftTarget\.nonsense"):
        engine.create("aws:cloudwatch/eventTarget:EventTarget", "redshift", {**inputs, **parameters})


def test_check_refuses_an_unsupported_type_by_name(engine: Engine) -> None:
    with pytest.raises(CheckError, match="does not have the type aws:rds/instance:Instance"):
        engine.check("aws:rds/instance:Instance", "db", {})


def test_unsupported_function_is_refused_by_name(engine: Engine) -> None:
    details = refused(lambda: engine.invoke("aws:rds/getInstance:getInstance"))
    assert "does not have the function aws:rds/getInstance:getInstance" in details


def test_resource_that_never_becomes_ready_is_kept_with_its_id(engine: Engine, world: World) -> None:
    role = world.make("aws:iam/role:Role", "half", assumeRolePolicy=TRUST)
    name = "arn:aws:iam::aws:policy/NoSuchPolicyAtAll"
    inputs = engine.check(
        "aws:iam/role:Role", "partial", {"assumeRolePolicy": TRUST, "managedPolicyArns": [name]}
    )
    request = provider_pb2.CreateRequest(urn=Resource("aws:iam/role:Role", "partial", {}).urn)
    request.properties.CopyFrom(as_struct(inputs))
    with pytest.raises(grpc.RpcError) as caught:
        engine.stub.Create(request)
    detail = init_failure(caught.value)
    assert detail.id == inputs["name"]
    assert detail.properties.fields["name"].string_value == inputs["name"]
    assert detail.inputs.fields["name"].string_value == inputs["name"]
    assert "is kept in the state" in detail.reasons[0]
    assert world.client("iam").get_role(RoleName=detail.id)["Role"]["RoleName"] == detail.id
    left = Resource("aws:iam/role:Role", "partial", inputs, detail.id, {"name": detail.id})
    engine.delete(left)
    engine.delete(role)


TRUST = '{"Version": "2012-10-17", "Statement": []}'


def init_failure(error: Any) -> Any:
    metadata = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    return detail


def test_missing_parent_is_not_reported_as_a_deletion(engine: Engine, world: World) -> None:
    group = engine.create("aws:eks/nodeGroup:NodeGroup", "stays", node_group(world))
    try:
        elsewhere = Resource(group.token, group.name, group.inputs, f"nowhere:{group.name}", group.state)
        engine.delete(elsewhere)
        assert engine.refresh(group)
    finally:
        engine.delete(group)


def test_unreachable_endpoint_is_reported_with_the_start_command() -> None:
    nowhere = clients_module.Clients("http://127.0.0.1:9")
    with pytest.raises(Exception, match="Could not connect") as caught:
        nowhere.get("sts", "us-east-1").get_caller_identity()
    assert "sandbox" in one_line(explain(caught.value, "aws:ec2/vpc:Vpc v", "reading"))


def test_provider_bug_is_reported_as_such() -> None:
    assert "error of the provider" in one_line(explain(KeyError("x"), "aws:ec2/vpc:Vpc v", "reading"))


def test_partial_creation_keeps_its_id_through_every_wrapper() -> None:
    with pytest.raises(PartialCreateError) as caught, keep_on_failure("vpc-1"):
        raise TimeoutError("not available")
    wrapped = explain(caught.value, "aws:ec2/vpc:Vpc v", "creating")
    assert isinstance(wrapped, PartialCreateError)
    assert wrapped.resource_id == "vpc-1"


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("InvalidVpcID.NotFound", True), ("NoSuchEntity", True), ("NoSuchBucket", True),
        ("ResourceNotFoundException", True), ("InvalidPlacementGroup.Unknown", True),
        ("UnknownMonitorException", True), ("UnknownOperationException", False), ("DependencyViolation",
        False),
        ("InvalidParameterValue", False),
    ],
)  # fmt: skip
def test_not_found_codes_count_as_deleted(code: str, missing: bool) -> None:
    from botocore.exceptions import ClientError

    assert is_missing(ClientError({"Error": {"Code": code, "Message": "m"}}, "Op")) is missing


def test_type_that_only_replaces_refuses_an_update() -> None:
    handler = handler_for("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    with pytest.raises(NotImplementedError, match="policyArn"):
        handler.update(None, "id", {}, {}, frozenset({"policyArn"}))  # type: ignore[arg-type]
