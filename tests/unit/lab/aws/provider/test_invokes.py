"""The functions of pulumi_aws that the sandbox answers."""

from __future__ import annotations

import base64

import grpc
import pytest

from gpufleet.lab.aws.credentials import ACCOUNT_ID
from gpufleet.lab.aws.provider import schema
from gpufleet.lab.aws.provider.invokes import _FUNCTIONS
from gpufleet.lab.aws.provider.schema.tokens import FUNCTIONS
from tests.unit.lab.aws.provider.driver import Engine
from tests.unit.lab.aws.provider.world import World
from tests.unit.lab.two_zones import IMAGE


def test_every_function_in_the_table_is_served() -> None:
    assert set(_FUNCTIONS) == set(FUNCTIONS)


def test_caller_identity_and_region_are_returned(engine: Engine) -> None:
    identity = engine.invoke("aws:index/getCallerIdentity:getCallerIdentity")
    assert identity["accountId"] == identity["id"] == ACCOUNT_ID
    assert identity["arn"].startswith("arn:aws:")
    region = engine.invoke("aws:index/getRegion:getRegion")
    assert (region["region"], region["name"], region["description"]) == (
        "us-east-1", "us-east-1", "US East (N. Virginia)",
    )  # fmt: skip
    assert engine.invoke("aws:index/getRegion:getRegion", region="eu-west-1")["region"] == "eu-west-1"
    partition = engine.invoke("aws:index/getPartition:getPartition")
    assert (partition["partition"], partition["dnsSuffix"]) == ("aws", "amazonaws.com")


def test_unknown_region_is_refused(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="no region 'us-nowhere-1'"):
        engine.invoke("aws:index/getRegion:getRegion", region="us-nowhere-1")


def test_zones_are_sorted_and_can_be_excluded(engine: Engine) -> None:
    token = "aws:index/getAvailabilityZones:getAvailabilityZones"
    found = engine.invoke(token, state="available")
    assert found["names"] == sorted(found["names"])
    assert found["names"][:2] == ["us-east-1a", "us-east-1b"]
    assert len(found["zoneIds"]) == len(found["names"])
    without = engine.invoke(token, excludeNames=["us-east-1a"])
    assert "us-east-1a" not in without["names"]
    assert engine.invoke(token, region="us-west-2")["names"][0] == "us-west-2a"


def test_image_is_found_by_owner_and_name(engine: Engine, world: World) -> None:
    image = world.client("ec2").describe_images(Owners=["amazon"])["Images"][0]
    found = engine.invoke(
        "aws:ec2/getAmi:getAmi", mostRecent=True, owners=["amazon"],
        filters=[{"name": "image-id", "values": [image["ImageId"]]}],
    )  # fmt: skip
    assert found["id"] == found["imageId"] == image["ImageId"]
    assert found["arn"] == f"arn:aws:ec2:us-east-1::image/{image['ImageId']}"
    assert set(found) <= schema.function("aws:ec2/getAmi:getAmi").outputs


def test_several_images_need_most_recent(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="mostRecent"):
        engine.invoke("aws:ec2/getAmi:getAmi", owners=["amazon"])


def test_missing_image_lists_what_to_check(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="check owners and filters"):
        engine.invoke("aws:ec2/getAmi:getAmi", filters=[{"name": "name", "values": ["no-such-image"]}])


def test_cheapest_capacity_block_is_offered(engine: Engine, world: World) -> None:
    found = world.block_offering(hours=48)
    assert found["instanceType"] == "p5.48xlarge"
    assert found["capacityDurationHours"] == 48
    assert float(found["upfrontFee"]) > 0
    offers = world.client("ec2").describe_capacity_block_offerings(
        InstanceType="p5.48xlarge", InstanceCount=1, CapacityDurationHours=48
    )["CapacityBlockOfferings"]
    assert float(found["upfrontFee"]) == min(float(offer["UpfrontFee"]) for offer in offers)


def test_capacity_block_without_an_offering_is_refused(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        engine.invoke(
            "aws:ec2/getCapacityBlockOffering:getCapacityBlockOffering", instanceType="t3.micro",
            instanceCount=1,
            capacityDurationHours=24,
        )  # fmt: skip
    assert "t3.micro" in caught.value.details() or "Capacity Block" in caught.value.details()


def test_instance_types_are_listed_by_zone(engine: Engine) -> None:
    found = engine.invoke(
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings",
        locationType="availability-zone",
        filters=[{"name": "instance-type", "values": ["p4d.24xlarge"]}],
    )
    assert set(found["instanceTypes"]) == {"p4d.24xlarge"}
    assert set(found["locationTypes"]) == {"availability-zone"}
    assert len(found["locations"]) == len(found["instanceTypes"])


def test_vpc_and_its_subnets_are_found(engine: Engine, world: World) -> None:
    made = {subnet.id for subnet in world.subnets}
    vpc = engine.invoke("aws:ec2/getVpc:getVpc", id=world.vpc.id)
    assert vpc["cidrBlock"] == "10.0.0.0/16"
    assert vpc["enableDnsHostnames"] is True
    assert vpc["mainRouteTableId"] == world.vpc.state["mainRouteTableId"]
    subnets = engine.invoke(
        "aws:ec2/getSubnets:getSubnets", filters=[{"name": "vpc-id", "values": [world.vpc.id]}]
    )
    assert made <= set(subnets["ids"])


def test_instances_are_found_by_their_tags(engine: Engine, world: World) -> None:
    token = "aws:ec2/getInstances:getInstances"
    tags = {"fleet": "found-by-tag"}
    assert engine.invoke(token, instanceTags=tags)["ids"] == []
    ec2 = world.client("ec2")
    specification = {"ResourceType": "instance", "Tags": [{"Key": "fleet", "Value": "found-by-tag"}]}
    made = ec2.run_instances(
        ImageId=IMAGE,
        MinCount=1,
        MaxCount=1,
        InstanceType="g6e.xlarge",
        SubnetId=world.subnets[0].id,
        TagSpecifications=[specification],
    )["Instances"][0]
    try:
        found = engine.invoke(token, instanceTags=tags, instanceStateNames=["pending", "running"])
        assert (found["ids"], found["privateIps"]) == ([made["InstanceId"]], [made["PrivateIpAddress"]])
        assert engine.invoke(token, instanceTags=tags, instanceStateNames=["stopped"])["ids"] == []
    finally:
        ec2.terminate_instances(InstanceIds=[made["InstanceId"]])


def test_several_matching_vpcs_are_refused(engine: Engine, world: World) -> None:
    assert world.vpc.id != world.other_vpc.id
    with pytest.raises(grpc.RpcError, match="narrow id, tags or filters"):
        engine.invoke("aws:ec2/getVpc:getVpc", state="available")


def test_parameter_is_read(engine: Engine, world: World) -> None:
    world.client("ssm").put_parameter(Name="/fleet/ami", Value="ami-1", Type="String")
    found = engine.invoke("aws:ssm/getParameter:getParameter", name="/fleet/ami")
    assert (found["value"], found["insecureValue"], found["type"]) == ("ami-1", "ami-1", "String")
    world.client("ssm").put_parameter(Name="/fleet/secret", Value="hush", Type="SecureString")
    assert "insecureValue" not in engine.invoke("aws:ssm/getParameter:getParameter", name="/fleet/secret")


def test_cluster_token_has_the_format_of_eks(engine: Engine) -> None:
    found = engine.invoke("aws:eks/getClusterAuth:getClusterAuth", name="atlas")
    prefix, _, encoded = found["token"].partition(".")
    assert prefix == "k8s-aws-v1"
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    assert "Action=GetCallerIdentity" in url
    assert "x-k8s-aws-id" in url
    assert "X-Amz-Expires=60" in url


def test_unknown_arguments_are_refused(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="'regoin' is not a property"):
        engine.invoke("aws:index/getAvailabilityZones:getAvailabilityZones", regoin="x")


def test_results_repeat_the_arguments_under_declared_names(engine: Engine) -> None:
    token = "aws:index/getAvailabilityZones:getAvailabilityZones"
    found = engine.invoke(token, state="available")
    assert found["state"] == "available"
    assert set(found) <= schema.function(token).outputs


def test_object_keys_of_a_bucket_are_listed_up_to_the_limit(engine: Engine, world: World) -> None:
    bucket = engine.create(
        "aws:s3/bucket:Bucket", "filled", {"bucket": "filled-bucket", "forceDestroy": True}
    )
    assert engine.invoke("aws:s3/getObjects:getObjects", bucket="filled-bucket")["keys"] == []
    s3 = world.client("s3")
    for key in ("a", "b/c"):
        s3.put_object(Bucket="filled-bucket", Key=key, Body=b"x")
    assert engine.invoke("aws:s3/getObjects:getObjects", bucket="filled-bucket")["keys"] == ["a", "b/c"]
    assert engine.invoke("aws:s3/getObjects:getObjects", bucket="filled-bucket", maxKeys=1)["keys"] == ["a"]
    engine.delete(bucket)
