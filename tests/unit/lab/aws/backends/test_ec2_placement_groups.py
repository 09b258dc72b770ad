from __future__ import annotations

from typing import Any

import pytest


def test_group_is_described_as_created_and_gone_after_deletion(aws: Any, refused: Any, tags: Any) -> None:
    ec2 = aws("ec2")
    made = ec2.create_placement_group(
        GroupName="train", Strategy="cluster", TagSpecifications=tags("placement-group", fleet="atlas")
    )["PlacementGroup"]
    assert made["GroupArn"] == "arn:aws:ec2:us-east-1:123456789012:placement-group/train"
    assert made["Strategy"] == "cluster"
    assert "PartitionCount" not in made and "SpreadLevel" not in made
    assert ec2.describe_placement_groups(GroupNames=["train"])["PlacementGroups"] == [made]
    assert ec2.describe_placement_groups(GroupIds=[made["GroupId"]])["PlacementGroups"] == [made]
    assert aws("ec2", "us-west-2").describe_placement_groups()["PlacementGroups"] == []
    with refused("InvalidPlacementGroup.Duplicate"):
        ec2.create_placement_group(GroupName="train", Strategy="cluster")
    ec2.delete_placement_group(GroupName="train")
    with refused("InvalidPlacementGroup.Unknown"):
        ec2.describe_placement_groups(GroupNames=["train"])
    with refused("InvalidPlacementGroup.Unknown"):
        ec2.delete_placement_group(GroupName="train")
    assert ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [made["GroupId"]]}])["Tags"] == []


def test_tags_of_a_group_change_with_the_common_tag_operations(aws: Any) -> None:
    ec2 = aws("ec2")
    group = ec2.create_placement_group(GroupName="tagged", Strategy="spread")["PlacementGroup"]["GroupId"]
    ec2.create_tags(Resources=[group], Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    ec2.delete_tags(Resources=[group], Tags=[{"Key": "a"}])
    (found,) = ec2.describe_placement_groups(Filters=[{"Name": "tag:b", "Values": ["2"]}])["PlacementGroups"]
    assert found["Tags"] == [{"Key": "b", "Value": "2"}]
    assert found["SpreadLevel"] == "rack"
    assert (
        ec2.describe_placement_groups(Filters=[{"Name": "tag:a", "Values": ["*"]}])["PlacementGroups"] == []
    )
    ec2.delete_placement_group(GroupName="tagged")


def test_only_partition_groups_have_partitions(aws: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    made = ec2.create_placement_group(GroupName="parts", Strategy="partition", PartitionCount=7)
    assert made["PlacementGroup"]["PartitionCount"] == 7
    with refused("InvalidParameterCombination"):
        ec2.create_placement_group(GroupName="x", Strategy="cluster", PartitionCount=2)
    with refused("InvalidParameterValue"):
        ec2.create_placement_group(GroupName="x", Strategy="partition", PartitionCount=8)
    filters = [{"Name": "strategy", "Values": ["partition"]}]
    assert [g["GroupName"] for g in ec2.describe_placement_groups(Filters=filters)["PlacementGroups"]] == [
        "parts"
    ]
    with refused("InvalidParameterValue"):
        ec2.describe_placement_groups(Filters=[{"Name": "no-such-filter", "Values": ["x"]}])
    ec2.delete_placement_group(GroupName="parts")


@pytest.mark.parametrize("through", ["instances", "scaling group"])
def test_group_with_instances_is_not_deleted(aws: Any, refused: Any, network: Any, through: str) -> None:
    ec2, scaling = aws("ec2"), aws("autoscaling")
    name = f"used-by-{through.replace(' ', '-')}"
    ec2.create_placement_group(GroupName=name, Strategy="cluster")
    template = ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={
            "ImageId": "ami-12345678",
            "InstanceType": "p5.48xlarge",
            "Placement": {"GroupName": name},
        },
    )["LaunchTemplate"]["LaunchTemplateId"]
    if through == "instances":
        launched = ec2.run_instances(
            LaunchTemplate={"LaunchTemplateId": template},
            MinCount=1,
            MaxCount=2,
            SubnetId=network.subnets[0],
        )["Instances"]
        assert [one["Placement"]["GroupName"] for one in launched] == [name, name]
        with refused("InvalidPlacementGroup.InUse"):
            ec2.delete_placement_group(GroupName=name)
        ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in launched])
    else:
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=1,
            MaxSize=1,
            LaunchTemplate={"LaunchTemplateId": template},
            VPCZoneIdentifier=network.subnets[0],
        )
        with refused("InvalidPlacementGroup.InUse"):
            ec2.delete_placement_group(GroupName=name)
        with refused("ResourceInUse"):
            scaling.delete_auto_scaling_group(AutoScalingGroupName=name)
        scaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
    ec2.delete_placement_group(GroupName=name)
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
    ec2.delete_launch_template(LaunchTemplateId=template)
