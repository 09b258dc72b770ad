from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def template(aws: Any) -> str:
    data = {"InstanceType": "p4d.24xlarge", "ImageId": "ami-12345678"}
    made = aws("ec2").create_launch_template(LaunchTemplateName="spot", LaunchTemplateData=data)
    found: str = made["LaunchTemplate"]["LaunchTemplateId"]
    return found


@pytest.fixture
def group(aws: Any, network: Any, template: str) -> Iterator[str]:
    scaling = aws("autoscaling")
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="sweep",
        MinSize=0,
        MaxSize=4,
        DesiredCapacity=2,
        CapacityRebalance=True,
        MaxInstanceLifetime=604800,
        DefaultInstanceWarmup=120,
        CapacityReservationSpecification={"CapacityReservationPreference": "none"},
        AvailabilityZoneDistribution={"CapacityDistributionStrategy": "balanced-best-effort"},
        VPCZoneIdentifier=",".join(network.subnets),
        MixedInstancesPolicy={
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "$Latest"},
                "Overrides": [{"InstanceType": "p4d.24xlarge"}, {"InstanceType": "p4de.24xlarge"}],
            },
            "InstancesDistribution": {
                "OnDemandPercentageAboveBaseCapacity": 0,
                "SpotAllocationStrategy": "price-capacity-optimized",
            },
        },
        Tags=[
            {"Key": "fleet", "Value": "atlas", "PropagateAtLaunch": True},
            {"Key": "note", "Value": "group only", "PropagateAtLaunch": False},
        ],
    )
    yield "sweep"
    if scaling.describe_auto_scaling_groups(AutoScalingGroupNames=["sweep"])["AutoScalingGroups"]:
        scaling.delete_auto_scaling_group(AutoScalingGroupName="sweep", ForceDelete=True)


def _described(aws: Any) -> Any:
    answer = aws("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["sweep"])
    return answer["AutoScalingGroups"][0]


def test_group_description_has_all_that_was_set(aws: Any, group: str) -> None:
    found = _described(aws)
    assert (found["MinSize"], found["MaxSize"], found["DesiredCapacity"]) == (0, 4, 2)
    assert (found["CapacityRebalance"], found["MaxInstanceLifetime"]) == (True, 604800)
    assert found["DefaultInstanceWarmup"] == 120
    assert found["CapacityReservationSpecification"] == {"CapacityReservationPreference": "none"}
    assert found["AvailabilityZoneDistribution"] == {"CapacityDistributionStrategy": "balanced-best-effort"}
    policy = found["MixedInstancesPolicy"]
    assert [one["InstanceType"] for one in policy["LaunchTemplate"]["Overrides"]] == [
        "p4d.24xlarge",
        "p4de.24xlarge",
    ]
    assert policy["InstancesDistribution"]["SpotAllocationStrategy"] == "price-capacity-optimized"


def test_only_propagated_tags_reach_the_instances(aws: Any, group: str) -> None:
    ids = [one["InstanceId"] for one in _described(aws)["Instances"]]
    assert len(ids) == 2
    for reservation in aws("ec2").describe_instances(InstanceIds=ids)["Reservations"]:
        for instance in reservation["Instances"]:
            tags = {one["Key"]: one["Value"] for one in instance["Tags"]}
            assert tags["fleet"] == "atlas"
            assert tags["aws:autoscaling:groupName"] == "sweep"
            assert "note" not in tags


def test_update_changes_only_the_given_fields(aws: Any, group: str) -> None:
    aws("autoscaling").update_auto_scaling_group(
        AutoScalingGroupName="sweep", MaxSize=6, CapacityRebalance=False, MaxInstanceLifetime=691200
    )
    found = _described(aws)
    assert (found["MaxSize"], found["CapacityRebalance"], found["MaxInstanceLifetime"]) == (6, False, 691200)
    assert (found["DefaultInstanceWarmup"], found["DesiredCapacity"]) == (120, 2)
    assert len(found["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"]) == 2


def test_refresh_replaces_every_instance(aws: Any, group: str, refused: Any) -> None:
    scaling = aws("autoscaling")
    before = {one["InstanceId"] for one in _described(aws)["Instances"]}
    started = scaling.start_instance_refresh(AutoScalingGroupName="sweep")["InstanceRefreshId"]
    (refresh,) = scaling.describe_instance_refreshes(AutoScalingGroupName="sweep")["InstanceRefreshes"]
    assert (refresh["InstanceRefreshId"], refresh["Status"]) == (started, "Successful")
    after = {one["InstanceId"] for one in _described(aws)["Instances"]}
    assert len(after) == 2
    assert before.isdisjoint(after)
    with refused("ActiveInstanceRefreshNotFound"):
        scaling.cancel_instance_refresh(AutoScalingGroupName="sweep")


def test_group_with_instances_is_deleted_only_with_force(aws: Any, group: str, refused: Any) -> None:
    scaling = aws("autoscaling")
    with refused("ResourceInUse"):
        scaling.delete_auto_scaling_group(AutoScalingGroupName="sweep")
    scaling.update_auto_scaling_group(AutoScalingGroupName="sweep", MaxSize=0, DesiredCapacity=0)
    scaling.delete_auto_scaling_group(AutoScalingGroupName="sweep")
    groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=["sweep"])["AutoScalingGroups"]
    assert groups == []
    assert aws("ec2").describe_network_interfaces()["NetworkInterfaces"] == []


def test_group_with_an_unusable_template_is_refused(
    aws: Any, network: Any, template: str, refused: Any
) -> None:
    scaling, ec2 = aws("autoscaling"), aws("ec2")
    bad = ec2.create_launch_template(
        LaunchTemplateName="bad",
        LaunchTemplateData={
            "ImageId": "ami-12345678",
            "InstanceType": "p4d.24xlarge",
            "NetworkInterfaces": [{"NetworkCardIndex": 9, "DeviceIndex": 0, "InterfaceType": "efa-only"}],
        },
    )["LaunchTemplate"]["LaunchTemplateId"]

    def make(used: str, **sizes: int) -> None:
        scaling.create_auto_scaling_group(
            AutoScalingGroupName="refused",
            LaunchTemplate={"LaunchTemplateId": used},
            VPCZoneIdentifier=network.subnets[0],
            **{"MinSize": 0, "MaxSize": 1, **sizes},
        )

    with refused("ValidationError"):
        make(bad)
    with refused("ValidationError"):
        make(template, MinSize=3, MaxSize=2)
    with refused("ValidationError"):
        make(template, MaxSize=2, DesiredCapacity=3)
    with refused("ValidationError"):
        scaling.update_auto_scaling_group(AutoScalingGroupName="refused", MaxSize=1)
    assert scaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []
