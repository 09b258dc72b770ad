"""The conversion of Pulumi's resources to a Terraform plan."""

from __future__ import annotations

import pytest

from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from tests.judges.terraform_plan import terraform_plan, terraform_type


def resource(kind: str, name: str, props: dict[str, object], **refers: tuple[str, ...]) -> Resource:
    return Resource(kind, name, f"urn:{name}", props, props, property_dependencies=refers)


def values(*resources: Resource) -> list[dict[str, object]]:
    plan = terraform_plan(Stack(resources))
    return [each["values"] for each in plan["planned_values"]["root_module"]["resources"]]


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("aws:kms/key:Key", "aws_kms_key"),
        ("aws:ec2/launchTemplate:LaunchTemplate", "aws_launch_template"),
        ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "aws_vpc_security_group_ingress_rule"),
        ("aws:ec2/capacityReservation:CapacityReservation", "aws_ec2_capacity_reservation"),
        ("aws:fsx/lustreFileSystem:LustreFileSystem", "aws_fsx_lustre_file_system"),
        ("aws:costexplorer/anomalyMonitor:AnomalyMonitor", "aws_ce_anomaly_monitor"),
        ("aws:ebs/volume:Volume", "aws_ebs_volume"),
        ("aws:cloudwatch/logGroup:LogGroup", "aws_cloudwatch_log_group"),
    ],
)
def test_types_have_their_terraform_names(token: str, kind: str) -> None:
    assert terraform_type(token) == kind


def test_blocks_are_lists_with_singular_names_and_maps_keep_their_keys() -> None:
    (rules,) = values(
        resource(
            "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
            "a",
            {"rules": [{"abortIncompleteMultipartUpload": {"daysAfterInitiation": 7}}]},
        )
    )
    assert rules == {"rule": [{"abort_incomplete_multipart_upload": [{"days_after_initiation": 7}]}]}
    (template,) = values(
        resource(
            "aws:ec2/launchTemplate:LaunchTemplate",
            "b",
            {"networkInterfaces": [{"deviceIndex": 0}], "tags": {"costCenter": "cc-1"}},
        )
    )
    assert template == {"network_interfaces": [{"device_index": 0}], "tags": {"costCenter": "cc-1"}}


def test_unknown_value_is_left_out_marked_and_refers_to_its_source() -> None:
    key = resource("aws:kms/key:Key", "key", {})
    group = resource(
        "aws:cloudwatch/logGroup:LogGroup",
        "logs",
        {"kmsKeyId": UNKNOWN, "retentionInDays": 30},
        kmsKeyId=("urn:key",),
    )
    plan = terraform_plan(Stack([key, group]))
    root = plan["planned_values"]["root_module"]["resources"][1]
    assert root["values"] == {"retention_in_days": 30}
    assert plan["resource_changes"][1]["change"]["after_unknown"]["kms_key_id"] is True
    expressions = plan["configuration"]["root_module"]["resources"][1]["expressions"]
    assert expressions == {"kms_key_id": {"references": ["aws_kms_key.key.id", "aws_kms_key.key"]}}


def test_reference_in_a_block_is_at_the_place_of_its_value() -> None:
    group = resource("aws:ec2/securityGroup:SecurityGroup", "group", {"id": "sg-1"})
    template = resource(
        "aws:ec2/launchTemplate:LaunchTemplate",
        "template",
        {"networkInterfaces": [{"securityGroups": ["sg-1"], "interfaceType": "efa"}]},
        networkInterfaces=("urn:group",),
    )
    expressions = terraform_plan(Stack([group, template]))["configuration"]["root_module"]["resources"][1][
        "expressions"
    ]
    refers = {"references": ["aws_security_group.group.id", "aws_security_group.group"]}
    assert expressions == {"network_interfaces": [{"security_groups": refers}]}


def test_resources_of_the_same_type_and_name_have_different_addresses() -> None:
    first = Resource("aws:kms/key:Key", "a", "urn:1", {}, {})
    second = Resource("aws:kms/key:Key", "a", "urn:2", {}, {})
    changes = terraform_plan(Stack([first, second]))["resource_changes"]
    assert [each["address"] for each in changes] == ["aws_kms_key.a", "aws_kms_key.a_2"]


def test_components_and_resources_of_other_providers_are_left_out() -> None:
    assert (
        values(
            resource("gpufleet:storage:Bucket", "a", {}), resource("kubernetes:core/v1:Namespace", "b", {})
        )
        == []
    )
