"""Differences of inputs, and drift."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.lab.aws.provider.compare import differences, document_key, drifted_inputs, project, same
from gpufleet.lab.aws.provider.registry import handler_for
from gpufleet.lab.aws.provider.wire import UNKNOWN

CLUSTER = handler_for("aws:eks/cluster:Cluster")
NODES = handler_for("aws:eks/nodeGroup:NodeGroup")
GROUP = handler_for("aws:ec2/securityGroup:SecurityGroup")
ROLE = handler_for("aws:iam/role:Role")
VPC = handler_for("aws:ec2/vpc:Vpc")


def found(handler: Any, old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    return {change.path: change.kind for change in differences(handler, old, new)}


def test_equal_inputs_have_no_difference() -> None:
    inputs = {"cidrBlock": "10.0.0.0/16", "tags": {"a": "1"}, "__defaults": []}
    assert found(VPC, inputs, {**inputs, "__defaults": ["x"]}) == {}


def test_each_kind_of_difference_is_named_with_its_path() -> None:
    old = {"cidrBlock": "a", "tags": {"kept": "1", "gone": "1"}, "enableDnsSupport": True}
    new = {
        "cidrBlock": "b",
        "tags": {"kept": "1", "new/key": "2"},
        "enableDnsSupport": True,
        "instanceTenancy": "x",
    }
    assert found(VPC, old, new) == {
        "cidrBlock": "update",
        "instanceTenancy": "add",
        "tags.gone": "delete",
        'tags["new/key"]': "add",
    }


def test_nested_difference_is_named_with_its_path() -> None:
    old = {"vpcConfig": {"subnetIds": ["a", "b"], "endpointPublicAccess": False}}
    new = {"vpcConfig": {"subnetIds": ["b", "a"], "endpointPublicAccess": True}}
    assert found(CLUSTER, old, new) == {"vpcConfig.endpointPublicAccess": "update"}


def test_order_matters_in_lists_and_not_in_sets() -> None:
    assert found(NODES, {"subnetIds": ["a", "b"]}, {"subnetIds": ["b", "a"]}) == {}
    assert found(NODES, {"instanceTypes": ["a", "b"]}, {"instanceTypes": ["b", "a"]}) == {
        "instanceTypes[0]": "update",
        "instanceTypes[1]": "update",
    }


def test_set_of_blocks_is_compared_by_content() -> None:
    one = {"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}
    two = {"protocol": "tcp", "fromPort": 1, "toPort": 2, "cidrBlocks": ["10.0.0.0/8"]}
    assert found(GROUP, {"ingress": [one, two]}, {"ingress": [two, one]}) == {}
    assert found(GROUP, {"ingress": [one]}, {"ingress": [two, one]}) == {"ingress[0]": "add"}


def test_numbers_and_booleans_are_compared_by_value() -> None:
    assert same(VPC, "true", True, "enableDnsSupport")
    assert same(VPC, 8, "8", "ipv4NetmaskLength")
    assert not same(VPC, 8, "9", "ipv4NetmaskLength")


def test_json_documents_are_compared_by_value() -> None:
    one = {"Statement": [{"Action": ["a"], "Effect": "Allow"}]}
    other = {"Statement": {"Effect": "Allow", "Action": "a"}}
    assert document_key(json.dumps(one)) == document_key(json.dumps(other, indent=4)) == document_key(one)
    assert found(ROLE, {"assumeRolePolicy": json.dumps(one)}, {"assumeRolePolicy": json.dumps(other)}) == {}
    assert document_key("not json") != document_key(json.dumps(one))


def test_unknown_value_differs_from_any_known_one() -> None:
    assert found(VPC, {"cidrBlock": "a"}, {"cidrBlock": UNKNOWN}) == {"cidrBlock": "update"}


def test_drift_ignores_properties_that_the_program_does_not_set() -> None:
    declared = {"vpcConfig": {"subnetIds": ["a"]}}
    actual = {"vpcConfig": {"subnetIds": ["a"], "endpointPublicAccess": True, "vpcId": "vpc-1"}}
    assert project(CLUSTER, declared["vpcConfig"], actual["vpcConfig"], "vpcConfig") == {"subnetIds": ["a"]}


def test_drift_of_a_map_includes_all_keys() -> None:
    assert project(VPC, {"a": "1"}, {"a": "1", "b": "2"}, "tags") == {"a": "1", "b": "2"}


def test_drift_of_a_set_of_blocks_has_only_declared_fields() -> None:
    declared = [{"key": "a", "effect": "X"}, {"key": "b", "effect": "X"}]
    actual = [{"key": "b", "effect": "X", "value": ""}, {"key": "a", "effect": "Y", "value": ""}]
    assert project(NODES, declared, actual, "taints") == [
        {"key": "a", "effect": "Y"},
        {"key": "b", "effect": "X"},
    ]


def test_deleted_property_leaves_the_inputs() -> None:
    assert drifted_inputs(ROLE, {"description": "d"}, {"description": "d"}, {"description": None}) == {}


def test_property_added_outside_the_program_joins_the_inputs() -> None:
    now = {"enableDnsSupport": False}
    assert drifted_inputs(VPC, {"cidrBlock": "a"}, {"enableDnsSupport": True}, now) == {
        "cidrBlock": "a",
        "enableDnsSupport": False,
    }


def test_defaults_set_by_aws_never_join_the_inputs() -> None:
    before, now = {"enableDnsHostnames": False}, {"enableDnsHostnames": True}
    assert drifted_inputs(VPC, {"cidrBlock": "a"}, before, now) == {"cidrBlock": "a"}


@pytest.mark.parametrize("nothing", [{}, {"__defaults": ["x"]}])
def test_import_reads_every_input_known_to_aws(nothing: dict[str, Any]) -> None:
    now = {"cidrBlock": "10.0.0.0/16", "arn": "arn:x", "tags": {}, "instanceTenancy": "default"}
    assert drifted_inputs(VPC, nothing, {}, now) == {"cidrBlock": "10.0.0.0/16", "instanceTenancy": "default"}
