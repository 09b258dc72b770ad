"""Check fills in the defaults of the real provider, and refuses impossible inputs with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.lab.aws.provider.config import AwsProviderConfig
from gpufleet.lab.aws.provider.handler import AutoName
from gpufleet.lab.aws.provider.naming import auto_name
from gpufleet.lab.aws.provider.planning import checked_inputs
from gpufleet.lab.aws.provider.registry import handler_for
from gpufleet.lab.aws.provider.wire import UNKNOWN

BUCKET = "aws:s3/bucket:Bucket"
BUDGET = "aws:budgets/budget:Budget"
FILTERED = {
    **{"budgetType": "COST", "timeUnit": "MONTHLY", "limitAmount": "9"},
    "filterExpression": {"tags": {"key": "a"}},
}
ROLE = "aws:iam/role:Role"
VPC = "aws:ec2/vpc:Vpc"
TRUST = '{"Version": "2012-10-17", "Statement": []}'


def check(
    token: str, inputs: dict[str, Any], old: dict[str, Any] | None = None, **config: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    filled, problems = checked_inputs(
        handler_for(token), AwsProviderConfig(**config), inputs, old or {}, "Thing", b"seed"
    )
    return filled, {problem.path: problem.reason for problem in problems}


def test_inputs_have_the_defaults_of_the_real_provider() -> None:
    filled, problems = check(VPC, {"cidrBlock": "10.0.0.0/16"})
    assert problems == {}
    assert filled == {
        "cidrBlock": "10.0.0.0/16",
        "enableDnsSupport": True,
        "instanceTenancy": "default",
        "__defaults": ["enableDnsSupport", "instanceTenancy"],
    }


def test_default_never_overrides_the_program() -> None:
    filled, _ = check(VPC, {"cidrBlock": "10.0.0.0/16", "enableDnsSupport": False})
    assert filled["enableDnsSupport"] is False
    assert "enableDnsSupport" not in filled["__defaults"]


def test_generated_name_is_the_logical_name_and_seven_hex_digits() -> None:
    filled, _ = check(ROLE, {"assumeRolePolicy": TRUST})
    stem, _, digits = filled["name"].rpartition("-")
    assert stem == "Thing"
    assert len(digits) == 7
    assert int(digits, 16) >= 0
    assert "name" in filled["__defaults"]


def test_generated_bucket_name_is_lower_case() -> None:
    assert check(BUCKET, {})[0]["bucket"].startswith("thing-")


def test_generated_name_stays_for_the_life_of_the_resource() -> None:
    first, _ = check(ROLE, {"assumeRolePolicy": TRUST})
    again, _ = checked_inputs(
        handler_for(ROLE), AwsProviderConfig(), {"assumeRolePolicy": TRUST}, first, "Thing", b"another seed"
    )
    assert again["name"] == first["name"]


def test_replacement_gets_a_new_name() -> None:
    one = auto_name(AutoName(), "thing", b"one")
    assert one == auto_name(AutoName(), "thing", b"one")
    assert one != auto_name(AutoName(), "thing", b"two")


def test_generated_name_replaces_a_name_removed_from_the_program() -> None:
    filled, _ = check(ROLE, {"assumeRolePolicy": TRUST}, old={"name": "given", "__defaults": []})
    assert filled["name"] != "given"


def test_long_logical_name_is_truncated_and_keeps_its_digits() -> None:
    name = auto_name(AutoName(max_length=63), "x" * 100, b"seed")
    assert len(name) == 63
    assert name[-8] == "-"


def test_alias_gets_its_prefix() -> None:
    assert check("aws:kms/alias:Alias", {"targetKeyId": "k"})[0]["name"].startswith("alias/Thing-")


def test_default_tags_are_merged_and_tags_of_the_program_win() -> None:
    filled, _ = check(VPC, {"tags": {"team": "mine"}}, default_tags={"team": "theirs", "project": "atlas"})
    assert filled["tags"] == {"team": "mine", "project": "atlas"}


def test_default_tags_are_not_set_on_types_without_tags() -> None:
    route = {"routeTableId": "r", "destinationCidrBlock": "0.0.0.0/0", "gatewayId": "g"}
    assert "tags" not in check("aws:ec2/route:Route", route, default_tags={"a": "1"})[0]


def test_default_tags_are_not_set_on_scaling_groups_with_a_tag_list() -> None:
    group = {"minSize": 0, "maxSize": 1, "launchTemplate": {"id": "lt"}, "vpcZoneIdentifiers": ["s"]}
    filled, problems = check("aws:autoscaling/group:Group", group, default_tags={"a": "1"})
    assert problems == {}
    assert "tags" not in filled


def test_unknown_property_is_refused_with_the_nearest_name() -> None:
    _, problems = check(VPC, {"cidrBlok": "10.0.0.0/16"})
    assert "did you mean 'cidrBlock'?" in problems["cidrBlok"]


def test_unknown_nested_property_is_named_with_its_path() -> None:
    _, problems = check(
        "aws:eks/nodeGroup:NodeGroup",
        {"clusterName": "c", "nodeRoleArn": "r", "subnetIds": ["s"],
         "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0, "maxsize": 1}},
    )  # fmt: skip
    assert list(problems) == ["scalingConfig.maxsize"]


def test_missing_required_property_is_named() -> None:
    _, problems = check("aws:ec2/subnet:Subnet", {"cidrBlock": "10.0.0.0/24"})
    assert problems == {"vpcId": "'vpcId' is required and missing: set it"}


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"cidrBlock": {"a": 1}}, "cidrBlock"),
        ({"enableDnsSupport": "perhaps"}, "enableDnsSupport"),
        ({"ipv4NetmaskLength": "wide"}, "ipv4NetmaskLength"),
        ({"tags": ["a"]}, "tags"),
    ],
)
def test_value_of_the_wrong_type_is_refused(inputs: dict[str, Any], path: str) -> None:
    assert list(check(VPC, inputs)[1]) == [path]


def test_unknown_values_pass_every_check() -> None:
    _, problems = check(
        "aws:eks/cluster:Cluster", {"roleArn": UNKNOWN, "vpcConfig": {"subnetIds": [UNKNOWN, UNKNOWN]}}
    )
    assert problems == {}


@pytest.mark.parametrize(
    ("token", "inputs", "path", "says"),
    [
        ("aws:ec2/route:Route", {"routeTableId": "r", "destinationCidrBlock": "0.0.0.0/0"}, "gatewayId",
        "one target"),
        ("aws:ec2/placementGroup:PlacementGroup", {"strategy": "close"}, "strategy", "known: cluster"),
        ("aws:kms/key:Key", {"deletionWindowInDays": 3}, "deletionWindowInDays", "7 to 30"),
        ("aws:kms/alias:Alias", {"name": "eks", "targetKeyId": "k"}, "name", "alias/"),
        ("aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 31}, "retentionInDays", "30"),
        (BUDGET, FILTERED, "filterExpression", "set metrics, too"),
        (BUDGET, {**FILTERED, "metrics": "Hours", "costTypes": {"useBlended": True}}, "metrics",
        "conflicts with costTypes"),
        (ROLE, {"assumeRolePolicy": "{"}, "assumeRolePolicy", "not a JSON document"),
        (BUCKET, {"versioning": {"enabled": True}}, "versioning", "aws.s3.BucketVersioning"),
        (
            "aws:ec2/launchTemplate:LaunchTemplate",
            {"vpcSecurityGroupIds": ["sg-1"], "networkInterfaces": [{"deviceIndex": 0}]},
            "vpcSecurityGroupIds", "networkInterfaces",
        ),
        (
            "aws:eks/cluster:Cluster",
            {"roleArn": "r", "vpcConfig": {"subnetIds": ["a", "b"], "endpointPublicAccess": False}},
            "vpcConfig", "no endpoint",
        ),
        (
            "aws:eks/nodeGroup:NodeGroup",
            {"clusterName": "c", "nodeRoleArn": "r", "subnetIds": ["s"],
             "scalingConfig": {"minSize": 4, "desiredSize": 1, "maxSize": 2}},
            "scalingConfig", "must ascend",
        ),
        (
            "aws:sqs/queue:Queue", {"sqsManagedSseEnabled": True, "kmsMasterKeyId": "k"},
            "sqsManagedSseEnabled",
            "one of",
        ),
        (
            "aws:ec2/natGateway:NatGateway", {"subnetId": "s"}, "allocationId", "elastic address",
        ),
    ],
)  # fmt: skip
def test_impossible_inputs_are_refused_with_a_remedy(
    token: str, inputs: dict[str, Any], path: str, says: str
) -> None:
    _, problems = check(token, inputs)
    assert says in problems[path]
