"""Resource groups of capacity reservations, and launches into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

POOL = [{"Type": "AWS::EC2::CapacityReservationPool"}]
KIND = "g6e.xlarge"
Reserve = Callable[..., str]


@pytest.fixture
def pool(aws: Any, request: pytest.FixtureRequest) -> str:
    """A new group without members."""
    name = request.node.name.replace("[", "-").replace("]", "")[:60]
    return str(aws("resource-groups").create_group(Name=name, Configuration=POOL)["Group"]["GroupArn"])


@pytest.fixture
def reserve(aws: Any, pool: str) -> Reserve:
    """Reserve instances in the group; return the id."""

    def make(count: int, zone: str = "us-east-1a", kind: str = KIND) -> str:
        made = aws("ec2").create_capacity_reservation(
            InstanceType=kind, InstancePlatform="Linux/UNIX", AvailabilityZone=zone, InstanceCount=count
        )["CapacityReservation"]
        answer = aws("resource-groups").group_resources(
            Group=pool, ResourceArns=[made["CapacityReservationArn"]]
        )
        assert answer["Succeeded"] == [made["CapacityReservationArn"]]
        return str(made["CapacityReservationId"])

    return make


def launch(aws: Any, network: Any, pool: str, count: int, *, only: bool = True, zone: int = 0) -> list[str]:
    """Launch instances into the group; return their reservations."""
    specification: dict[str, Any] = {
        "CapacityReservationTarget": {"CapacityReservationResourceGroupArn": pool}
    }
    if only:
        specification["CapacityReservationPreference"] = "capacity-reservations-only"
    ec2 = aws("ec2")
    ids = [
        each["InstanceId"]
        for each in ec2.run_instances(
            ImageId="ami-12345678",
            InstanceType=KIND,
            MinCount=count,
            MaxCount=count,
            SubnetId=network.subnets[zone],
            CapacityReservationSpecification=specification,
        )["Instances"]
    ]
    found = ec2.describe_instances(InstanceIds=ids)["Reservations"]
    return [one.get("CapacityReservationId", "") for each in found for one in each["Instances"]]


def test_members_of_a_group_are_listed_and_removed(aws: Any, pool: str, reserve: Reserve) -> None:
    groups = aws("resource-groups")
    identity = reserve(1)
    (member,) = groups.list_group_resources(Group=pool)["Resources"]
    arn = member["Identifier"]["ResourceArn"]
    assert arn.endswith(f":capacity-reservation/{identity}")
    assert member["Identifier"]["ResourceType"] == "AWS::EC2::CapacityReservation"
    assert groups.get_group_configuration(Group=pool)["GroupConfiguration"]["Configuration"] == POOL
    groups.ungroup_resources(Group=pool, ResourceArns=[arn])
    assert groups.list_group_resources(Group=pool)["Resources"] == []


def test_group_takes_only_reservations_that_exist(aws: Any, pool: str, refused: Any) -> None:
    groups = aws("resource-groups")
    arn = "arn:aws:ec2:us-east-1:123456789012:capacity-reservation/cr-00000000000000000"
    assert [
        each["ResourceArn"] for each in groups.group_resources(Group=pool, ResourceArns=[arn])["Failed"]
    ] == [arn]
    with refused("NotFoundException"):
        groups.list_group_resources(Group="none-of-that-name")


def test_launch_uses_the_reservations_of_its_group_one_after_the_other(
    aws: Any, network: Any, pool: str, reserve: Reserve
) -> None:
    first, second, _ = reserve(1), reserve(2), reserve(4, "us-east-1b")
    assert sorted(launch(aws, network, pool, 3)) == sorted([first, second, second])


def test_launch_beyond_a_group_fails_or_runs_on_demand(
    aws: Any, network: Any, pool: str, reserve: Reserve, refused: Any
) -> None:
    identity = reserve(1)
    reserve(5, kind="g6e.2xlarge")
    with refused("ReservationCapacityExceeded"):
        launch(aws, network, pool, 2)
    with refused("ReservationCapacityExceeded"):
        launch(aws, network, pool, 1, zone=1)
    assert sorted(launch(aws, network, pool, 2, only=False)) == ["", identity]


@pytest.mark.parametrize("preference", ["open", "none"])
def test_target_goes_with_no_other_preference(
    aws: Any, network: Any, pool: str, preference: str, refused: Any
) -> None:
    with refused("InvalidParameterCombination"):
        aws("ec2").run_instances(
            ImageId="ami-12345678",
            InstanceType=KIND,
            MinCount=1,
            MaxCount=1,
            SubnetId=network.subnets[0],
            CapacityReservationSpecification={
                "CapacityReservationPreference": preference,
                "CapacityReservationTarget": {"CapacityReservationResourceGroupArn": pool},
            },
        )


def test_launch_into_a_group_for_other_resources_is_refused(aws: Any, network: Any, refused: Any) -> None:
    other = aws("resource-groups").create_group(
        Name="other-kind", Configuration=[{"Type": "AWS::ResourceGroups::Generic"}]
    )["Group"]["GroupArn"]
    with refused("InvalidParameterValue"):
        launch(aws, network, other, 1)


def test_auto_scaling_group_launches_where_its_resource_group_has_room(
    aws: Any, network: Any, pool: str, reserve: Reserve
) -> None:
    near, far = reserve(1), reserve(2, "us-east-1b")
    name = aws("ec2").create_launch_template(
        LaunchTemplateName="into-a-pool",
        LaunchTemplateData={
            "ImageId": "ami-12345678",
            "InstanceType": KIND,
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationResourceGroupArn": pool},
            },
        },
    )["LaunchTemplate"]["LaunchTemplateName"]
    scaling = aws("autoscaling")
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="pooled",
        MinSize=0,
        MaxSize=4,
        DesiredCapacity=4,
        LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
        VPCZoneIdentifier=",".join(network.subnets),
    )
    (group,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=["pooled"])["AutoScalingGroups"]
    ids = [each["InstanceId"] for each in group["Instances"]]
    found = aws("ec2").describe_instances(InstanceIds=ids)["Reservations"]
    used = sorted(one["CapacityReservationId"] for each in found for one in each["Instances"])
    assert used == sorted([near, far, far])
    activities = scaling.describe_scaling_activities(AutoScalingGroupName="pooled")["Activities"]
    assert {"does not have sufficient compatible" in each["StatusMessage"] for each in activities} == {True}
    scaling.delete_auto_scaling_group(AutoScalingGroupName="pooled", ForceDelete=True)
