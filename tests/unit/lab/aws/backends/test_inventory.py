from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.inventory import BOUND, InventoryResource, ec2, list_resources, regional, worldwide

FLEET = {"fleet": "atlas"}
TAGS = [{"Key": "fleet", "Value": "atlas"}]


def test_unused_account_is_empty(endpoint: Any) -> None:
    assert list_resources(endpoint, ["us-east-1", "us-west-2"]) == []


def test_reading_creates_nothing(endpoint: Any, aws: Any) -> None:
    aws("ec2").describe_images()
    name = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    aws("ssm").get_parameter(Name=name)
    aws("iam").get_policy(PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    volume = aws("ec2").create_volume(AvailabilityZone="us-east-1a", Size=1, Encrypted=True)["VolumeId"]
    aws("ec2").delete_volume(VolumeId=volume)
    assert aws("kms").list_keys()["Keys"], "the key that AWS keeps for volumes"
    assert list_resources(endpoint, ["us-east-1"]) == []


def test_resources_are_listed_with_their_tags_and_filtered_by_them(
    endpoint: Any, aws: Any, tags: Any
) -> None:
    client = aws("ec2")
    mine = client.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags("vpc", **FLEET, env="dev"))
    other = client.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    vpc = mine["Vpc"]["VpcId"]
    aws("s3").create_bucket(Bucket="atlas-data")
    aws("s3").put_bucket_tagging(Bucket="atlas-data", Tagging={"TagSet": TAGS})
    aws("sns").create_topic(Name="alerts", Tags=TAGS)
    found = list_resources(endpoint, ["us-east-1"], FLEET)
    assert [(one.service, one.region) for one in found] == [
        ("ec2:vpc", "us-east-1"),
        ("s3:bucket", ""),
        ("sns:topic", "us-east-1"),
    ]
    service, found_id, found_tags = found[0]
    assert (service, found_id, found_tags) == ("ec2:vpc", vpc, {**FLEET, "env": "dev"})
    assert list_resources(endpoint, ["us-west-2"], FLEET) == [found[1]]
    assert list_resources(endpoint, ["us-east-1"], {**FLEET, "env": "prod"}) == []
    assert InventoryResource("ec2:vpc", other, {}, "us-east-1") in list_resources(endpoint.url, ["us-east-1"])
    client.delete_vpc(VpcId=vpc)
    client.delete_vpc(VpcId=other)
    aws("s3").delete_bucket(Bucket="atlas-data")
    aws("sns").delete_topic(TopicArn="arn:aws:sns:us-east-1:123456789012:alerts")
    assert list_resources(endpoint, ["us-east-1"]) == []


def test_ended_resources_that_are_still_visible_are_not_listed(endpoint: Any, aws: Any) -> None:
    client = aws("ec2")
    subnet = client.describe_subnets()["Subnets"][0]["SubnetId"]
    instance = client.run_instances(ImageId="ami-12345678", MinCount=1, MaxCount=1, SubnetId=subnet)
    reservation = client.create_capacity_reservation(
        InstanceType="p5.48xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=1,
    )["CapacityReservation"]["CapacityReservationId"]
    key = aws("kms").create_key()["KeyMetadata"]["KeyId"]
    services = {one.service for one in list_resources(endpoint, ["us-east-1"])}
    assert {"ec2:instance", "ec2:capacity-reservation", "kms:key", "ec2:network-interface"} <= services
    client.terminate_instances(InstanceIds=[instance["Instances"][0]["InstanceId"]])
    client.cancel_capacity_reservation(CapacityReservationId=reservation)
    aws("kms").schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    assert client.describe_instances()["Reservations"]
    assert list_resources(endpoint, ["us-east-1"]) == []


def test_capacity_block_is_listed_as_not_deletable(endpoint: Any, aws: Any) -> None:
    client = aws("ec2", "us-west-2")
    offer = client.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge", InstanceCount=1, CapacityDurationHours=24
    )["CapacityBlockOfferings"][0]
    client.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )
    found = list_resources(endpoint, ["us-west-2"])
    assert [one.service for one in found] == ["ec2:capacity-block"]
    assert [one for one in found if one.service not in BOUND] == []


def test_no_service_is_listed_twice() -> None:
    names = [name for name, _ in [*ec2.LISTERS, *regional.LISTERS, *worldwide.LISTERS]]
    assert len(names) == len(set(names))
