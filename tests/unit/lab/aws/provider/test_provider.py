"""Rules for every type: configuration, secrets, unknown values, imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import provider_pb2

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.provider.wire import UNKNOWN, wrap_map
from tests.unit.lab.aws.provider.driver import Engine, Resource, Server, as_struct
from tests.unit.lab.aws.provider.world import World

TOPIC = "aws:sns/topic:Topic"
URN = Resource(TOPIC, "hush", {}).urn


@pytest.fixture
def fresh() -> Iterator[Engine]:
    """An unconfigured provider."""
    server = Server()
    engine = Engine(server.port)
    yield engine
    engine.close()
    server.stop()


def secret(value: str) -> PropertyValue:
    return PropertyValue(value, is_secret=True)


def test_secrets_stay_secret_from_check_to_state(engine: Engine) -> None:
    given = PropertyValue.marshal_map(
        {"displayName": secret("hush"), "tags": PropertyValue({"a": secret("b")})}
    )
    checked = engine.stub.Check(provider_pb2.CheckRequest(urn=URN, news=given, randomSeed=b"s"))
    inputs = PropertyValue.unmarshal_map(checked.inputs)
    assert inputs["displayName"].is_secret
    assert inputs["tags"].is_secret
    assert not inputs["name"].is_secret
    made = engine.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=checked.inputs))
    state = PropertyValue.unmarshal_map(made.properties)
    try:
        assert state["displayName"].is_secret
        assert state["displayName"].value == "hush"
        assert state["tags"].is_secret
        assert not state["arn"].is_secret
        read = engine.stub.Read(
            provider_pb2.ReadRequest(urn=URN, id=made.id, properties=made.properties, inputs=checked.inputs)
        )
        assert PropertyValue.unmarshal_map(read.inputs)["displayName"].is_secret
        assert PropertyValue.unmarshal_map(read.properties)["displayName"].is_secret
    finally:
        engine.stub.Delete(provider_pb2.DeleteRequest(urn=URN, id=made.id, properties=made.properties))


def test_keys_that_aws_makes_for_a_vpn_are_secret_in_every_answer(engine: Engine, world: World) -> None:
    token = "aws:ec2/vpnConnection:VpnConnection"
    ends = {"customerGatewayId": world.router.id, "vpnGatewayId": world.vpn_gateway.id}
    inputs = PropertyValue.marshal_map(wrap_map({**ends, "type": "ipsec.1"}))
    urn = Resource(token, "keys", {}).urn
    made = engine.stub.Create(provider_pb2.CreateRequest(urn=urn, properties=inputs))
    known = {"urn": urn, "id": made.id}
    try:
        tagged = PropertyValue.marshal_map(wrap_map({**ends, "type": "ipsec.1", "tags": {"a": "b"}}))
        read = engine.stub.Read(provider_pb2.ReadRequest(**known, properties=made.properties, inputs=inputs))
        updated = engine.stub.Update(
            provider_pb2.UpdateRequest(**known, olds=made.properties, old_inputs=inputs, news=tagged)
        )
        imported = engine.stub.Read(provider_pb2.ReadRequest(**known))
        for answer in (made.properties, read.properties, updated.properties, imported.properties):
            found = PropertyValue.unmarshal_map(answer)
            assert {key for key, value in found.items() if value.is_secret} == {
                "customerGatewayConfiguration",
                "tunnel1PresharedKey",
                "tunnel2PresharedKey",
            }
            assert len({found[f"tunnel{number}PresharedKey"].value for number in (1, 2)}) == 2
        taken = PropertyValue.unmarshal_map(imported.inputs)
        assert all(taken[key].is_secret for key in taken if key.endswith("PresharedKey"))
    finally:
        engine.stub.Delete(provider_pb2.DeleteRequest(**known, properties=made.properties))


def test_unknown_inputs_stay_unknown_in_a_preview(engine: Engine) -> None:
    planned = engine.preview(
        "aws:ec2/subnet:Subnet",
        "later",
        {"vpcId": UNKNOWN, "cidrBlock": "10.0.0.0/24", "tags": {"a": UNKNOWN}},
    )
    assert planned["vpcId"] == UNKNOWN
    assert planned["cidrBlock"] == "10.0.0.0/24"
    assert planned["tagsAll"] == UNKNOWN
    assert planned["availabilityZone"] == UNKNOWN


def test_preview_creates_nothing(engine: Engine, world: World) -> None:
    before = world.client("sns").list_topics()["Topics"]
    engine.preview(TOPIC, "never", {})
    assert world.client("sns").list_topics()["Topics"] == before


def test_account_that_is_not_allowed_is_refused(fresh: Engine, endpoint: str) -> None:
    with pytest.raises(grpc.RpcError, match="aws:allowedAccountIds does not allow"):
        fresh.configure(endpoints=[{"ec2": endpoint}], allowedAccountIds=["999999999999"])
    fresh.configure(endpoints=[{"ec2": endpoint}], allowedAccountIds=["123456789012"])
    assert fresh.invoke("aws:index/getRegion:getRegion")["region"] == "us-east-1"


def test_forbidden_account_is_refused(fresh: Engine, endpoint: str) -> None:
    with pytest.raises(grpc.RpcError, match="123456789012"):
        fresh.configure(endpoints=[{"ec2": endpoint}], forbiddenAccountIds=["123456789012"])


def test_unknown_configuration_is_left_out(fresh: Engine, endpoint: str) -> None:
    fresh.configure(region="eu-west-1", endpoints=[{"ec2": endpoint}], defaultTags=UNKNOWN)
    assert fresh.invoke("aws:index/getRegion:getRegion")["region"] == "eu-west-1"


def test_unconfigured_provider_is_reported(fresh: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="not configured"):
        fresh.invoke("aws:index/getCallerIdentity:getCallerIdentity")


def test_emulated_aws_of_the_checkout_starts_without_an_endpoint(
    fresh: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("GPUFLEET_SANDBOX_DIR", str(tmp_path))
    try:
        fresh.configure(region="us-east-1")
        assert daemon.status(tmp_path) is not None
        assert fresh.invoke("aws:index/getCallerIdentity:getCallerIdentity")["accountId"] == "123456789012"
    finally:
        daemon.stop(tmp_path)


def test_changed_configuration_replaces_nothing(engine: Engine) -> None:
    answer = engine.stub.DiffConfig(
        provider_pb2.DiffRequest(olds=as_struct({"region": "a"}), news=as_struct({"region": "b"}))
    )
    assert answer.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert list(answer.replaces) == []
    same = engine.stub.DiffConfig(
        provider_pb2.DiffRequest(olds=as_struct({"region": "a"}), news=as_struct({"region": "a"}))
    )
    assert same.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_import_reads_inputs_that_recreate_the_resource(engine: Engine, world: World) -> None:
    imported = Resource("aws:ec2/subnet:Subnet", "imported", {}, world.subnets[0].id)
    assert engine.refresh(imported)
    wanted: dict[str, Any] = {
        "vpcId": world.vpc.id,
        "cidrBlock": "10.0.0.0/24",
        "availabilityZone": "us-east-1a",
    }
    assert {key: imported.inputs[key] for key in wanted} == wanted
    assert list(engine.diff(imported, wanted).replaces) == []


def test_type_that_needs_more_than_an_id_cannot_be_imported(engine: Engine) -> None:
    lost = Resource("aws:eks/podIdentityAssociation:PodIdentityAssociation", "lost", {}, "a-1")
    with pytest.raises(grpc.RpcError, match="cannot be imported by its id 'a-1' only"):
        engine.refresh(lost)


def test_import_of_a_missing_resource_finds_nothing(engine: Engine) -> None:
    assert not engine.refresh(Resource("aws:ec2/vpc:Vpc", "nothing", {}, "vpc-0123456789abcdef0"))


def test_old_state_without_inputs_is_compared_by_its_outputs(engine: Engine, world: World) -> None:
    bare = Resource(world.vpc.token, "bare", {}, world.vpc.id, world.vpc.state)
    answer = engine.diff(bare, {"cidrBlock": "10.0.0.0/16", "enableDnsHostnames": True})
    assert list(answer.diffs) == []
    assert list(engine.diff(bare, {"cidrBlock": "10.3.0.0/16"}).replaces) == ["cidrBlock"]
