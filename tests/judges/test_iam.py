"""Every IAM policy that gpufleet makes says what AWS's Service Authorization Reference knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.account.backend_policies import policies as backend_policies
from gpufleet.account.backend_settings import BackendSettings
from tests.judges.fleets import Built
from tests.judges.iam import dependent_actions, judge, known_actions
from tests.unit.stacks.moto_mocks import simulated_actions

DOCUMENTED = "kms:Describe*: never sets kms:EncryptionContext:aws:logs:arn"
"""AWS documents this key policy itself (CloudWatch Logs User Guide, "Encrypt log data")."""

UNNEEDED = {
    "billing:GetBillingViewData",  # of a budget on a billing view
    "ecs:ListClusters", "ecs:ListContainerInstances", "ecs:ListServices", "ecs:ListTaskDefinitions",
    "ecs:ListTasks",  # of flow logs with fields of ECS
    "iam:CreateServiceLinkedRole",  # asked for by service, where a role is missing
    "lambda:PassCapacityProvider",  # of a function on instances of the account
}  # fmt: skip
"""Actions that others depend on with options that gpufleet never uses."""


def test_policies_of_a_fleet_can_all_match(built: Built) -> None:
    found = [
        (f"{each.type} {each.name}", json.loads(value))
        for each in built.made
        for value in each.inputs.values()
        if isinstance(value, str) and value.startswith("{") and '"Statement"' in value
    ]
    assert found
    wrong = [f"{name}: {each}" for name, policy in found for each in judge(policy) if each != DOCUMENTED]
    assert wrong == []


def test_preflight_asks_for_the_action_of_every_call_and_for_those_it_depends_on(built: Built) -> None:
    asked = simulated_actions(built.plan)
    assert sorted(built.actions - asked) == []
    private_names = any(site.interface_endpoints for site in built.plan.cloud)
    unneeded = UNNEEDED | (set() if private_names else {"route53:AssociateVPCWithHostedZone"})
    missing = {each: sorted(dependent_actions(each) - unneeded - asked) for each in asked}
    assert {each: found for each, found in missing.items() if found} == {}
    assert sorted(each for each in asked if each not in known_actions(each)) == []


def test_policies_for_the_state_can_all_match() -> None:
    settings = BackendSettings("atlas-prod", "123456789012", "aws", "us-east-1", "atlas-state", "alias/atlas")
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    for name, policy in backend_policies(settings, key, "gpufleet", "prod").items():
        assert judge(policy) == [], name


def allow(action: str, *resources: str, **condition: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": [action], "Resource": list(resources), "Condition": condition}
    return {"Version": "2012-10-17", "Statement": [statement]}


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        (allow("ec2:LaunchInstances", "*"), "ec2:LaunchInstances: no such action"),
        (
            allow("ec2:CreateFleet", "arn:aws:ec2:us-east-1:123456789012:fleet/*"),
            "ec2:CreateFleet: no instance among arn:aws:ec2:us-east-1:123456789012:fleet/*",
        ),
        (
            allow("ec2:DescribeInstances", "arn:aws:ec2:us-east-1:123456789012:instance/*"),
            "ec2:DescribeInstances: knows no resource but *",
        ),
        (
            allow("ec2:CreateFleet", "*", ArnEquals={"ec2:LaunchTemplate": "x"}),
            "ec2:CreateFleet: never sets ec2:LaunchTemplate",
        ),
        (
            allow("s3:GetObject", "arn:aws:s3:::bucket"),
            "s3:GetObject: no accesspointobject, object among arn:aws:s3:::bucket",
        ),
    ],
)
def test_right_that_can_never_match_is_named(policy: dict[str, Any], wrong: str) -> None:
    assert judge(policy) == [wrong]
