"""`gpufleet adopt`: a fleet file of a Slurm or an account, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from gpufleet.account.reading import NotCheckedError
from tests.unit.cli.conftest import Gpufleet
from tests.unit.stacks.moto_mocks import emulated_aws

TAGS = ("--tag", "team=ml", "--tag", "cost-center=cc-1", "--tag", "project=atlas")
CONF = """\
ClusterName=dc1
SlurmctldHost=ctl01
NodeName=dgx[01-04] Gres=gpu:h100:8
PartitionName=gpu Nodes=ALL Default=YES MaxTime=2-0
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "slurm.conf").write_text(CONF)
    return folder


@pytest.fixture
def account() -> Iterator[None]:
    with emulated_aws():
        yield


def test_slurm_becomes_a_valid_environment(gpufleet: Gpufleet, workplace: Path, slurm: Path) -> None:
    answer = gpufleet("adopt", "dc", "--slurm", str(slurm), *TAGS)
    assert answer.code == 0
    assert (
        "wrote stacks/dc/fleet.yaml" in answer.out and "dc1: slurm.conf has 8 GPUs of type h100" in answer.out
    )
    assert gpufleet("validate", "dc").code == 0
    # What cannot be taken over has no list.
    assert sorted(path.name for path in (workplace / "stacks" / "dc").iterdir()) == ["fleet.yaml"]


def test_json_has_every_remark(gpufleet: Gpufleet, slurm: Path) -> None:
    found = gpufleet("adopt", "dc", "--slurm", str(slurm), *TAGS, "--json").json
    assert found["sites"] == ["dc1"] and found["imports"] == 0
    assert {each["subject"] for each in found["remarks"]} == {"dc1"}


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ((), "there is nothing to read"),
        (("--slurm", "/nonexistent"), "has no slurm.conf"),
        (("--slurm", "SLURM", "--tag", "team"), "'team' is no tag"),
        (("--slurm", "SLURM", "--fleet", "Big Fleet"), "no name for the fleet"),
    ],
)
def test_what_cannot_be_read_writes_nothing(
    gpufleet: Gpufleet, workplace: Path, slurm: Path, words: tuple[str, ...], reported: str
) -> None:
    answer = gpufleet("adopt", "dc", *(str(slurm) if word == "SLURM" else word for word in words))
    assert answer.code == 2 and reported in answer.err
    assert not (workplace / "stacks" / "dc").exists()


def test_existing_environment_is_refused(gpufleet: Gpufleet, slurm: Path) -> None:
    answer = gpufleet("adopt", "dev", "--slurm", str(slurm))
    assert answer.code == 2 and "is there already" in answer.err


@pytest.mark.usefixtures("account")
def test_networks_with_nodes_become_sites_and_unused_reservations_are_named(
    gpufleet: Gpufleet, workplace: Path
) -> None:
    ec2 = boto3.client("ec2", region_name="us-east-1")
    network = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    zone = "us-east-1a"
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.40.9.0/24", AvailabilityZone=zone)["Subnet"]
    ec2.create_launch_template(
        LaunchTemplateName="old",
        LaunchTemplateData={
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa", "NetworkCardIndex": 0}],
            "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 500}}],
        },
    )
    boto3.client("autoscaling", region_name="us-east-1").create_auto_scaling_group(
        AutoScalingGroupName="Old Training_1",
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=0,
        VPCZoneIdentifier=subnet["SubnetId"],
        LaunchTemplate={"LaunchTemplateName": "old", "Version": "$Latest"},
    )
    ec2.create_capacity_reservation(
        InstanceType="g6.xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone=zone, InstanceCount=3
    )
    found = gpufleet("adopt", "found", "--region", "us-east-1", *TAGS, "--json").json
    assert found["sites"] == ["use1"] and found["imports"] == 1
    reported = "\n".join(f"{each['subject']}: {each['text']}" for each in found["remarks"])
    assert (
        "old-training-1: its launch template has 1 network interfaces; p5.48xlarge has 33 with EFA"
        in reported
    )
    assert "old-training-1: its nodes accept version 1 of the metadata service" in reported
    assert "old-training-1: its root volumes are not encrypted" in reported
    assert "10.40.9.0/24: the fleet cuts the network into" in reported
    assert "3 x g6.xlarge in us-east-1a are reserved and paid for" in reported
    plan = gpufleet("plan", "found", "--json").json
    assert 0 < plan["cost"]["monthly"]["high"] <= plan["budget"]["monthly"]
    (group,) = plan["node_groups"]
    assert (group["name"], group["capacity"]["max"], group["volume"]["size_gib"]) == (
        "old-training-1",
        2,
        500,
    )
    assert len(group["network_interfaces"]) == 33


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("preference", [None, "capacity-reservations-only"])
def test_group_that_launches_into_a_resource_group_keeps_it(
    gpufleet: Gpufleet, workplace: Path, preference: str | None
) -> None:
    made = boto3.client("resource-groups", region_name="us-east-1").create_group(
        Name="pool", Configuration=[{"Type": "AWS::EC2::CapacityReservationPool"}]
    )
    arn = made["Group"]["GroupArn"]
    ec2 = boto3.client("ec2", region_name="us-east-1")
    network = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    zone = "us-east-1a"
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.40.9.0/24", AvailabilityZone=zone)["Subnet"]
    target: dict[str, Any] = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn}}
    ec2.create_launch_template(
        LaunchTemplateName="pooled",
        LaunchTemplateData={
            "InstanceType": "g6.xlarge",
            "CapacityReservationSpecification": target
            | ({"CapacityReservationPreference": preference} if preference else {}),
        },
    )
    boto3.client("autoscaling", region_name="us-east-1").create_auto_scaling_group(
        AutoScalingGroupName="pooled",
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=0,
        VPCZoneIdentifier=subnet["SubnetId"],
        LaunchTemplate={"LaunchTemplateName": "pooled", "Version": "$Latest"},
    )
    ec2.create_capacity_reservation(
        InstanceType="g6.xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone=zone, InstanceCount=3
    )
    found = gpufleet("adopt", "found", "--region", "us-east-1", *TAGS, "--json").json
    reported = "\n".join(f"{each['subject']}: {each['text']}" for each in found["remarks"])
    assert ("pooled: it buys on demand when" in reported) is (preference is None)
    assert f"no group launches into them, unless they are in {arn}" in reported
    (group,) = gpufleet("plan", "found", "--json").json["node_groups"]
    assert group["capacity"]["reservation_group"] == arn
    assert group["capacity"]["max"] == 2


@pytest.mark.usefixtures("account")
def test_region_without_nodes_is_named(gpufleet: Gpufleet, workplace: Path) -> None:
    answer = gpufleet("adopt", "found", "--region", "us-east-1")
    assert answer.code == 2 and "no node group and no file system was found in us-east-1" in answer.err
    assert not (workplace / "stacks" / "found").exists()


@pytest.mark.usefixtures("account")
def test_refused_call_writes_nothing(
    gpufleet: Gpufleet, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise NotCheckedError("EKS: ListClusters is refused (AccessDeniedException)")

    monkeypatch.setattr("gpufleet.adopt.account.read_region", refused)
    answer = gpufleet("adopt", "found", "--region", "us-east-1")
    assert answer.code == 4 and "EKS: ListClusters is refused" in answer.err
    assert not (workplace / "stacks" / "found").exists()


@pytest.mark.usefixtures("account")
def test_answer_of_aws_that_stops_the_reading_is_reported(gpufleet: Gpufleet, workplace: Path) -> None:
    """Here: a group whose launch template is deleted."""
    ec2 = boto3.client("ec2", region_name="us-east-1")
    network = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.40.9.0/24")["Subnet"]["SubnetId"]
    ec2.create_launch_template(LaunchTemplateName="gone", LaunchTemplateData={"InstanceType": "g6.xlarge"})
    boto3.client("autoscaling", region_name="us-east-1").create_auto_scaling_group(
        AutoScalingGroupName="gone",
        MinSize=0,
        MaxSize=2,
        VPCZoneIdentifier=subnet,
        LaunchTemplate={"LaunchTemplateName": "gone", "Version": "$Latest"},
    )
    ec2.delete_launch_template(LaunchTemplateName="gone")
    answer = gpufleet("adopt", "found", "--region", "us-east-1")
    assert answer.code == 4
    assert (
        "us-east-1 cannot be read: DescribeLaunchTemplateVersions answers InvalidLaunchTemplate" in answer.err
    )
    assert "leave out --region us-east-1; nothing was written" in answer.err
    assert not (workplace / "stacks" / "found").exists()
