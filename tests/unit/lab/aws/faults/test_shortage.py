"""EC2, Auto Scaling and EKS with a type without capacity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.faults import shortage
from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.lab.two_zones import IMAGE

KIND = "g6.xlarge"
REGION = "us-east-1"


class Account:
    """An emulated account with a subnet in each of two zones."""

    def __init__(self) -> None:
        self.shortages: tuple[Shortage, ...] = ()
        self.ec2, self.scaling = (boto3.client(name, region_name=REGION) for name in ("ec2", "autoscaling"))
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            self.ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone)[
                "Subnet"
            ]["SubnetId"]
            for number, zone in enumerate((f"{REGION}a", f"{REGION}b"))
        ]
        self.template = self.ec2.create_launch_template(
            LaunchTemplateName="nodes", LaunchTemplateData={"ImageId": IMAGE, "InstanceType": KIND}
        )["LaunchTemplate"]["LaunchTemplateId"]

    def group(self) -> list[str]:
        """The zones of the instances of a new Auto Scaling group of two."""
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName="nodes",
            MinSize=0,
            MaxSize=2,
            DesiredCapacity=2,
            VPCZoneIdentifier=",".join(self.subnets),
            LaunchTemplate={"LaunchTemplateId": self.template, "Version": "$Latest"},
        )
        (found,) = self.scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        assert found["VPCZoneIdentifier"] == ",".join(self.subnets)
        return [each["AvailabilityZone"] for each in found["Instances"]]

    def launch(self, subnet: int) -> Any:
        """An instance in a subnet."""
        return self.ec2.run_instances(
            ImageId=IMAGE, InstanceType=KIND, MinCount=1, MaxCount=1, SubnetId=self.subnets[subnet]
        )


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        install("ec2", "autoscaling", "eks")
        made = Account()
        shortage.install(lambda: made.shortages)
        yield made
        shortage.install(tuple)


def test_launch_is_refused_if_the_type_is_short(account: Account) -> None:
    account.shortages = (Shortage(type=KIND, zone=f"{REGION}a"),)
    with pytest.raises(ClientError, match=rf"InsufficientInstanceCapacity.*{KIND}.*\({REGION}a\)"):
        account.launch(0)
    assert account.launch(1)["Instances"]


def test_shortage_ends_with_the_fault(account: Account) -> None:
    account.shortages = (Shortage(type=KIND),)
    with pytest.raises(ClientError):
        account.launch(0)
    account.shortages = ()
    assert account.launch(0)["Instances"]


def test_other_types_are_not_short(account: Account) -> None:
    account.shortages = (Shortage(type="p5.48xlarge"),)
    assert account.launch(0)["Instances"]
    assert len(account.group()) == 2


def test_auto_scaling_group_uses_another_of_its_zones(account: Account) -> None:
    account.shortages = (Shortage(type=KIND, zone=f"{REGION}a"),)
    assert account.group() == [f"{REGION}b"] * 2


def test_auto_scaling_group_stays_empty_if_no_zone_has_capacity(account: Account) -> None:
    account.shortages = (Shortage(type=KIND),)
    assert account.group() == []


def test_auto_scaling_group_launches_when_there_is_capacity(account: Account) -> None:
    account.shortages = (Shortage(type=KIND),)
    account.group()
    assert not shortage.launch_waiting()
    account.shortages = ()
    assert shortage.launch_waiting()
    (found,) = account.scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert len(found["Instances"]) == 2
    assert not shortage.launch_waiting()


def test_failed_launches_are_scaling_activities_of_each_zone(account: Account) -> None:
    account.shortages = (Shortage(type=KIND),)
    account.group()
    found = account.scaling.describe_scaling_activities(AutoScalingGroupName="nodes")["Activities"]
    assert {each["StatusCode"] for each in found} == {"Failed"}
    assert len(found) == 2
    for each, zone in zip(found, "ba", strict=True):
        assert f"({REGION}{zone})" in each["StatusMessage"]
        assert each["StatusMessage"].endswith("Launching EC2 instance failed.")
    page = account.scaling.describe_scaling_activities(MaxRecords=1)
    assert len(page["Activities"]) == 1
    rest = account.scaling.describe_scaling_activities(NextToken=page["NextToken"])["Activities"]
    assert [each["ActivityId"] for each in [*page["Activities"], *rest]] == [
        each["ActivityId"] for each in found
    ]
    assert account.scaling.describe_scaling_activities(AutoScalingGroupName="other")["Activities"] == []
