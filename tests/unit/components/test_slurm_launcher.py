"""SlurmLauncher: what controllers may do, and how nodes get their key."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from gpufleet.components.slurm_launcher import NO_KEY, SlurmLauncher, SlurmLauncherArgs
from tests.unit.components.recording import Recording, record

SHORTEST_KEY = 32
"""Of munge (munged(8)): nodes wait until the parameter holds one."""

TEMPLATE = "arn:aws:ec2:us-east-1:123456789012:launch-template/lt-1"
TAGS = {"gpufleet:fleet": "atlas", "gpufleet:site": "use1"}
SPOT_ROLE = "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
BASE = SlurmLauncherArgs(
    identity="arn:aws:iam::123456789012:role/dc1-controllers",
    network="10.60.0.0/24",
    launch_template_arns=[TEMPLATE],
    node_role_arn="arn:aws:iam::123456789012:role/nodes",
    node_role_name="nodes",
    security_group_id="sg-nodes",
    own_tags=TAGS,
    parameter="/gpufleet/atlas/prod/use1/munge-key",
    key_name="atlas-prod-use1-munge",
    tags={"team": "ml"},
)


@pytest.fixture(scope="module")
def launcher() -> Recording:
    return record(lambda: SlurmLauncher("atlas-prod-use1", BASE))


def statements(launcher: Recording, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(launcher.one("RolePolicy", name).inputs["policy"])["Statement"]
    return found


def of_action(
    launcher: Recording, action: str, name: str = "atlas-prod-use1-launcher"
) -> list[dict[str, Any]]:
    return [each for each in statements(launcher, name) if action in each["Action"]]


def kinds(statement: dict[str, Any]) -> set[str]:
    return {each.rsplit(":", 1)[1].split("/")[0] for each in statement["Resource"]}


def test_only_the_controllers_identity_assumes_the_role(launcher: Recording) -> None:
    (trust,) = json.loads(launcher.one("Role").inputs["assumeRolePolicy"])["Statement"]
    assert trust == {"Effect": "Allow", "Principal": {"AWS": BASE.identity}, "Action": "sts:AssumeRole"}


def test_instances_are_launched_from_the_templates_and_as_these_say(launcher: Recording) -> None:
    requested, made, given = of_action(launcher, "ec2:RunInstances")
    assert kinds(requested) == {"launch-template", "spot-instances-request"}
    assert TEMPLATE in requested["Resource"]
    by_template = {"ArnEquals": {"ec2:LaunchTemplate": [TEMPLATE]}}
    # Controllers say the subnet: EC2 does not count it as the template's.
    assert made["Condition"] == by_template
    assert kinds(made) == {"instance", "volume", "network-interface", "subnet", "snapshot"}
    assert given["Condition"] == {**by_template, "Bool": {"ec2:IsLaunchTemplateResource": "true"}}
    assert {"image", "security-group", "capacity-reservation"} < kinds(given)
    (fleet,) = of_action(launcher, "ec2:CreateFleet")
    assert fleet["Resource"][0] == TEMPLATE
    assert {"fleet", "instance"} < kinds(fleet)


def test_spot_instances_bring_the_right_to_make_their_linked_role(launcher: Recording) -> None:
    assert of_action(launcher, "iam:CreateServiceLinkedRole") == []
    spot = record(lambda: SlurmLauncher("atlas-prod-use1", dataclasses.replace(BASE, spot=True)))
    (made,) = of_action(spot, "iam:CreateServiceLinkedRole")
    assert made["Resource"] == [SPOT_ROLE]
    assert made["Condition"] == {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}


def test_only_own_instances_are_named_and_terminated(launcher: Recording) -> None:
    ours = {f"aws:ResourceTag/{key}": value for key, value in TAGS.items()}
    (ended,) = of_action(launcher, "ec2:TerminateInstances")
    # Servers of the site have the same tags, and no node group.
    a_node = {"aws:ResourceTag/gpufleet:node-group": "false"}
    assert ended["Condition"] == {"StringEquals": ours, "Null": a_node}
    at_launch, named = of_action(launcher, "ec2:CreateTags")
    assert at_launch["Condition"] == {"StringEquals": {"ec2:CreateAction": ["RunInstances", "CreateFleet"]}}
    assert named["Condition"] == {
        "StringEquals": ours,
        "Null": a_node,
        "ForAllValues:StringEquals": {"aws:TagKeys": ["gpufleet:slurm-node"]},
    }


def test_only_the_role_of_nodes_is_passed_and_only_to_ec2(launcher: Recording) -> None:
    (passed,) = of_action(launcher, "iam:PassRole")
    assert passed["Resource"] == [BASE.node_role_arn]
    assert passed["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_munge_key_is_encrypted_with_a_key_of_its_own_that_nodes_only_read(launcher: Recording) -> None:
    parameter = launcher.one("Parameter")
    assert parameter.inputs["type"] == "SecureString"
    assert parameter.inputs["name"] == BASE.parameter
    assert len(NO_KEY) < SHORTEST_KEY and "value" in parameter.ignore_changes
    key = f"arn:aws:mock:us-east-1:123456789012:Key/{BASE.key_name}"
    read, decrypt = statements(launcher, BASE.key_name)
    assert read["Action"] == ["ssm:GetParameter"]
    assert decrypt == {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": [key]}


def test_slurmd_is_open_to_the_controllers_network_only(launcher: Recording) -> None:
    inward = launcher.one("SecurityGroupIngressRule").inputs
    assert (inward["cidrIpv4"], inward["fromPort"], inward["toPort"]) == ("10.60.0.0/24", 6818, 6818)
    outward = launcher.one("SecurityGroupEgressRule").inputs
    assert (outward["cidrIpv4"], outward["fromPort"], outward["toPort"]) == ("10.60.0.0/24", 1024, 65535)


def test_everything_that_can_be_tagged_is(launcher: Recording) -> None:
    for kind in ("Role", "Parameter", "Key", "SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        assert launcher.one(kind).inputs["tags"]["team"] == "ml", kind


def test_a_site_without_node_groups_may_launch_nothing() -> None:
    made = record(lambda: SlurmLauncher("s", dataclasses.replace(BASE, launch_template_arns=[])))
    assert not of_action(made, "ec2:RunInstances", "s-launcher")
    assert of_action(made, "ec2:TerminateInstances", "s-launcher")
