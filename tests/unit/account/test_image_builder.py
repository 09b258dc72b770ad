"""An instance that becomes an image, in an emulated EC2."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.account import image_builder
from gpufleet.account.image_builder import (
    BUILD_TAG,
    BaseImage,
    LaunchPlace,
    Pauses,
    builder,
    builders,
    find_base,
    host_keys,
    make_image,
    place_of,
)
from gpufleet.errors import CloudError, InputError
from gpufleet.lab.aws.backends import install

REGION = "us-east-1"
DLAMI = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260901"
KEY = "ssh-ed25519 AAAA builder"
NAME = "atlas-prod-use1-slurm-20260901-120000"
TAGS = {"gpufleet:fleet": "atlas", "gpufleet:site": "use1"}
PAUSES = Pauses(between=0, instance=3, image=3)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    install()
    with mock_aws():
        yield boto3.Session(region_name=REGION)


@pytest.fixture
def ec2(session: Any) -> Any:
    return session.client("ec2")


@pytest.fixture
def place(ec2: Any) -> LaunchPlace:
    """Where a launch template of nodes with EFA, in a subnet of its own, puts them."""
    vpc = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.40.0.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    card = {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "Groups": [group]}
    made = ec2.create_launch_template(
        LaunchTemplateName="nodes",
        LaunchTemplateData={
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": [card, {**card, "NetworkCardIndex": 1, "DeviceIndex": 1}],
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/sda1",
                    "Ebs": {"Encrypted": True, "VolumeSize": 500, "VolumeType": "gp3", "Iops": 3000},
                }
            ],
        },
    )["LaunchTemplate"]
    return place_of(ec2, made["LaunchTemplateId"], "1", subnet)


def building(ec2: Any, base: BaseImage, place: LaunchPlace) -> AbstractContextManager[dict[str, Any]]:
    return builder(ec2, base, place, instance_type="m7i.large", key=KEY, name=NAME, tags=TAGS, pauses=PAUSES)


def test_base_is_found_by_name_id_and_parameter(session: Any) -> None:
    named = find_base(session, DLAMI)
    assert (named.name, named.architecture, named.root) == (DLAMI, "x86_64", "/dev/sda1")
    assert named.label == f"{named.id} ({DLAMI})"
    session.client("ssm").put_parameter(Name="/golden/gpu", Value=named.id, Type="String")
    assert find_base(session, named.id) == find_base(session, "/golden/gpu") == named


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [
        ("ami-00000000000000000", "0 images in us-east-1"),
        ("no such name", "0 images in us-east-1"),
        ("/no/such/parameter", "there is no SSM parameter '/no/such/parameter' in us-east-1"),
    ],
)
def test_base_that_does_not_exist_is_refused(session: Any, wanted: str, reported: str) -> None:
    with pytest.raises(InputError, match=reported) as caught:
        find_base(session, wanted)
    assert caught.value.remedy


def test_nodes_place_is_taken_without_their_cards_and_sizes(place: LaunchPlace) -> None:
    assert place.subnet.startswith("subnet-")
    assert len(place.security_groups) == 1
    assert place.volume == {"Encrypted": True, "VolumeType": "gp3"}
    assert place.profile == {}


def test_instance_lets_the_key_in_ends_by_itself_and_is_found(
    session: Any, ec2: Any, place: LaunchPlace
) -> None:
    with building(ec2, find_base(session, DLAMI), place) as instance:
        assert instance["State"]["Name"] == "running"
        assert instance["SubnetId"] == place.subnet
        assert [each["GroupId"] for each in instance["SecurityGroups"]] == list(place.security_groups)
        identity = instance["InstanceId"]
        (found,) = builders(ec2, TAGS)
        assert found["InstanceId"] == identity
        assert {"Key": BUILD_TAG, "Value": NAME} in found["Tags"]
        assert builders(ec2, {**TAGS, "gpufleet:site": "other"}) == []

        def attribute(name: str) -> Any:
            answer = ec2.describe_instance_attribute(InstanceId=identity, Attribute=name)
            return answer[name[0].upper() + name[1:]]["Value"]

        config = json.loads(base64.b64decode(attribute("userData")).decode().removeprefix("#cloud-config\n"))
        assert config == {"ssh_authorized_keys": [KEY], "runcmd": [["shutdown", "-h", "+120"]]}
        assert attribute("instanceInitiatedShutdownBehavior") == "terminate"
    assert builders(ec2, TAGS) == []


def test_image_has_tags_and_its_instance_ends_with_the_build(
    session: Any, ec2: Any, place: LaunchPlace
) -> None:
    with building(ec2, find_base(session, DLAMI), place) as instance:
        image = make_image(ec2, instance["InstanceId"], NAME, "nodes", TAGS, PAUSES)
    (found,) = ec2.describe_images(ImageIds=[image])["Images"]
    assert (found["Name"], found["State"], found["Architecture"]) == (NAME, "available", "x86_64")
    wanted = {"Name": NAME, **TAGS}
    assert {each["Key"]: each["Value"] for each in found["Tags"]} == wanted
    snapshot = found["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    (kept,) = ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
    assert {each["Key"]: each["Value"] for each in kept["Tags"]} == wanted
    assert builders(ec2, TAGS) == []


def test_instance_ends_when_a_build_fails(session: Any, ec2: Any, place: LaunchPlace) -> None:
    with pytest.raises(KeyboardInterrupt), building(ec2, find_base(session, DLAMI), place):
        raise KeyboardInterrupt
    assert builders(ec2, TAGS) == []


def test_stop_that_takes_too_long_is_an_error(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)["Instances"][0]
    monkeypatch.setattr(ec2, "stop_instances", lambda **_: None)
    with pytest.raises(CloudError, match=f"{made['InstanceId']} is not stopped: .*Max attempts exceeded"):
        make_image(ec2, made["InstanceId"], NAME, "nodes", TAGS, PAUSES)


def test_host_keys_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(), (), (("ssh-ed25519", "AAAA"),)])
    monkeypatch.setattr(image_builder, "console_keys", lambda *_: next(answers))
    assert host_keys(None, "i-1", PAUSES) == (("ssh-ed25519", "AAAA"),)


def test_instance_without_host_keys_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_builder, "console_keys", lambda *_: ())
    with pytest.raises(CloudError, match="i-1 has printed no SSH host keys after 0 s"):
        host_keys(None, "i-1", Pauses(between=0, instance=0))
