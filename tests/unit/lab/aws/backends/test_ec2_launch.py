from __future__ import annotations

from typing import Any

import pytest

from gpufleet.catalog import efa_layout, load_catalog


def _interfaces(name: str) -> list[dict[str, Any]]:
    return [
        {
            "NetworkCardIndex": one.network_card_index,
            "DeviceIndex": one.device_index,
            "InterfaceType": one.interface_type,
        }
        for one in efa_layout(load_catalog().instances[name])
    ]


@pytest.fixture(scope="module")
def launch(aws: Any, network: Any) -> Any:
    def run(name: str, interfaces: list[dict[str, Any]], count: int = 1, **more: Any) -> Any:
        first, *rest = interfaces
        placed = [{**first, "SubnetId": network.subnets[0]}, *rest]
        return aws("ec2").run_instances(
            ImageId="ami-12345678",
            InstanceType=name,
            MinCount=count,
            MaxCount=count,
            NetworkInterfaces=placed,
            **more,
        )["Instances"]

    return run


FULL = {
    "ImageId": "ami-12345678",
    "InstanceType": "p5.48xlarge",
    "UserData": "aGVsbG8=",
    "EbsOptimized": True,
    "KeyName": "key",
    "IamInstanceProfile": {"Arn": "arn:aws:iam::123456789012:instance-profile/node"},
    "BlockDeviceMappings": [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "VolumeSize": 500,
                "VolumeType": "gp3",
                "Iops": 6000,
                "Throughput": 500,
                "Encrypted": True,
                "KmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/1",
                "DeleteOnTermination": True,
            },
        }
    ],
    "NetworkInterfaces": [
        {
            "NetworkCardIndex": 0,
            "DeviceIndex": 0,
            "InterfaceType": "interface",
            "Groups": ["sg-1"],
            "DeleteOnTermination": True,
            "AssociatePublicIpAddress": False,
        },
        {"NetworkCardIndex": 0, "DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": ["sg-1"]},
        {"NetworkCardIndex": 31, "DeviceIndex": 0, "InterfaceType": "efa-only", "Groups": ["sg-1"]},
    ],
    "Placement": {"GroupName": "train", "Tenancy": "default"},
    "CapacityReservationSpecification": {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-00000000000000000"},
    },
    "InstanceMarketOptions": {"MarketType": "capacity-block"},
    "MetadataOptions": {
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
        "HttpEndpoint": "enabled",
        "InstanceMetadataTags": "enabled",
    },
    "Monitoring": {"Enabled": True},
    "CpuOptions": {"CoreCount": 96, "ThreadsPerCore": 1},
    "TagSpecifications": [
        {"ResourceType": "instance", "Tags": [{"Key": "fleet", "Value": "atlas"}]},
        {"ResourceType": "volume", "Tags": [{"Key": "fleet", "Value": "atlas"}]},
    ],
}


def test_every_field_of_a_launch_template_round_trips(aws: Any, tags: Any) -> None:
    ec2 = aws("ec2")
    made = ec2.create_launch_template(
        LaunchTemplateName="full",
        LaunchTemplateData=FULL,
        TagSpecifications=tags("launch-template", owner="gpufleet"),
        VersionDescription="first",
    )["LaunchTemplate"]
    (version,) = ec2.describe_launch_template_versions(
        LaunchTemplateId=made["LaunchTemplateId"], Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    assert version["LaunchTemplateData"] == FULL, "the template's own tags must not get into its data"
    assert (version["VersionDescription"], version["DefaultVersion"]) == ("first", True)
    assert made["Tags"] == [{"Key": "owner", "Value": "gpufleet"}]


def test_launch_template_has_versions_and_a_default(aws: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    template = {
        "LaunchTemplateId": ec2.create_launch_template(
            LaunchTemplateName="versions",
            LaunchTemplateData={"InstanceType": "p5.48xlarge", "ImageId": "ami-12345678"},
        )["LaunchTemplate"]["LaunchTemplateId"]
    }
    second = ec2.create_launch_template_version(
        **template, SourceVersion="1", LaunchTemplateData={"InstanceType": "p4d.24xlarge"}
    )["LaunchTemplateVersion"]
    assert second["LaunchTemplateData"] == {"InstanceType": "p4d.24xlarge", "ImageId": "ami-12345678"}
    assert (second["VersionNumber"], second["DefaultVersion"]) == (2, False)
    ec2.create_launch_template_version(**template, LaunchTemplateData={"InstanceType": "g6e.xlarge"})
    ec2.modify_launch_template(**template, DefaultVersion="2")
    (found,) = ec2.describe_launch_templates(LaunchTemplateNames=["versions"])["LaunchTemplates"]
    assert (found["DefaultVersionNumber"], found["LatestVersionNumber"]) == (2, 3)
    asked = {"$Default": 2, "$Latest": 3, "1": 1}
    for name, number in asked.items():
        answer = ec2.describe_launch_template_versions(**template, Versions=[name])["LaunchTemplateVersions"]
        assert [one["VersionNumber"] for one in answer] == [number]
    every = ec2.describe_launch_template_versions(**template)["LaunchTemplateVersions"]
    assert [one["VersionNumber"] for one in every] == [1, 2, 3]
    with refused("InvalidLaunchTemplateId.VersionNotFound"):
        ec2.describe_launch_template_versions(**template, Versions=["9"])
    ec2.create_tags(Resources=[template["LaunchTemplateId"]], Tags=[{"Key": "late", "Value": "yes"}])
    filters = [{"Name": "tag:late", "Values": ["yes"]}]
    assert len(ec2.describe_launch_templates(Filters=filters)["LaunchTemplates"]) == 1
    ec2.delete_launch_template(**template)
    assert ec2.describe_launch_templates(Filters=filters)["LaunchTemplates"] == []
    with refused("InvalidLaunchTemplateName.NotFoundException"):
        ec2.describe_launch_templates(LaunchTemplateNames=["versions"])


def test_invalid_name_creates_no_launch_template(aws: Any, refused: Any) -> None:
    with refused("InvalidLaunchTemplateName.MalformedException"):
        aws("ec2").create_launch_template(
            LaunchTemplateName="with space", LaunchTemplateData={"InstanceType": "p5.48xlarge"}
        )


EFA_TYPES = [
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
    "p6-b300.48xlarge",
    "g6e.48xlarge",
]


@pytest.mark.parametrize("name", EFA_TYPES)
def test_catalog_layout_of_each_type_launches(aws: Any, launch: Any, name: str) -> None:
    launched = launch(name, _interfaces(name))
    assert [one["InstanceType"] for one in launched] == [name]
    aws("ec2").terminate_instances(InstanceIds=[launched[0]["InstanceId"]])


def test_efa_only_primary_interface_is_refused(launch: Any, refused: Any) -> None:
    with refused("InvalidParameterCombination"):
        launch("p5.48xlarge", [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "efa-only"}])


def test_too_many_efa_interfaces_are_refused(launch: Any, refused: Any) -> None:
    extra = {"NetworkCardIndex": 0, "DeviceIndex": 1, "InterfaceType": "efa-only"}
    with refused("AttachmentLimitExceeded"):
        launch("g6e.12xlarge", [{**extra, "DeviceIndex": 0, "InterfaceType": "efa"}, extra])


def test_efa_on_a_type_without_it_is_refused(launch: Any, refused: Any) -> None:
    with refused("InvalidParameterCombination"):
        launch("g6e.xlarge", [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "efa"}])


def test_efa_on_the_first_card_of_p6_b300_is_refused(launch: Any, refused: Any) -> None:
    with refused("InvalidParameterCombination"):
        launch("p6-b300.48xlarge", [*_interfaces("p6-b300.48xlarge")[:1], _on(0, 1)])


def test_card_index_beyond_the_type_is_refused(launch: Any, refused: Any) -> None:
    with refused("InvalidParameterValue"):
        launch("p4d.24xlarge", [*_interfaces("p4d.24xlarge"), _on(4, 0)])


def test_public_address_with_several_interfaces_is_refused(launch: Any, refused: Any) -> None:
    first, *rest = _interfaces("p5.48xlarge")
    with refused("InvalidParameterCombination"):
        launch("p5.48xlarge", [{**first, "AssociatePublicIpAddress": True}, *rest])


def _on(card: int, device: int) -> dict[str, Any]:
    return {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": "efa-only"}


def test_launch_into_a_block_with_a_placement_group_is_refused(aws: Any, refused: Any) -> None:
    ec2 = aws("ec2")
    ec2.create_placement_group(GroupName="not-with-a-block", Strategy="cluster")
    offer = ec2.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge", InstanceCount=1, CapacityDurationHours=24
    )["CapacityBlockOfferings"][0]
    block = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]["CapacityReservationId"]
    wanted = {
        "ImageId": "ami-12345678",
        "InstanceType": "p5.48xlarge",
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
    }
    target = {"CapacityReservationTarget": {"CapacityReservationId": block}}
    with refused("InvalidParameterCombination"):
        ec2.run_instances(
            **wanted,
            Placement={"GroupName": "not-with-a-block"},
            CapacityReservationSpecification=target,
        )
    with refused("MissingParameter"):
        ec2.run_instances(**wanted)
    with refused("InvalidParameterCombination"):
        ec2.run_instances(
            **{**wanted, "InstanceMarketOptions": {"MarketType": "spot"}},
            CapacityReservationSpecification=target,
        )


def test_requested_number_of_instances_is_launched_and_deleted_with_interfaces(aws: Any, launch: Any) -> None:
    ec2 = aws("ec2")
    before = {one["NetworkInterfaceId"] for one in ec2.describe_network_interfaces()["NetworkInterfaces"]}
    launched = launch("g6e.48xlarge", _interfaces("g6e.48xlarge")[:1], count=3)
    assert len(launched) == 3
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in launched])
    after = {one["NetworkInterfaceId"] for one in ec2.describe_network_interfaces()["NetworkInterfaces"]}
    assert after == before


@pytest.mark.parametrize("device", ["/dev/xvda", "/dev/sda1"])
def test_instance_has_the_volumes_of_its_template_and_they_are_deleted_with_it(
    aws: Any, network: Any, device: str
) -> None:
    ec2, ssm = aws("ec2"), aws("ssm")
    name = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    if device == "/dev/sda1":
        name = "/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/hvm/ebs-gp2/ami-id"
    template = ec2.create_launch_template(
        LaunchTemplateName=f"volumes{device.replace('/', '-')}",
        LaunchTemplateData={
            "ImageId": ssm.get_parameter(Name=name)["Parameter"]["Value"],
            "InstanceType": "g6e.xlarge",
            "BlockDeviceMappings": [{"DeviceName": device, "Ebs": {"VolumeSize": 200, "VolumeType": "gp3"}}],
        },
    )["LaunchTemplate"]["LaunchTemplateId"]
    before = {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]}
    (instance,) = ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": template}, MinCount=1, MaxCount=1, SubnetId=network.subnets[0]
    )["Instances"]
    (volume,) = [one for one in ec2.describe_volumes()["Volumes"] if one["VolumeId"] not in before]
    assert (volume["Size"], volume["VolumeType"]) == (200, "gp3")
    assert volume["Attachments"][0]["Device"] == device == instance["RootDeviceName"]
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    assert {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]} == before


def test_topology_groups_instances_by_zone_group_and_leaf(aws: Any, network: Any, refused: Any) -> None:
    ec2 = aws("ec2", "us-east-1")
    ec2.create_placement_group(GroupName="one-rail", Strategy="cluster")
    ids = []
    for subnet, count in ((network.subnets[0], 5), (network.subnets[1], 1)):
        launched = ec2.run_instances(
            ImageId="ami-12345678",
            InstanceType="p5.48xlarge",
            MinCount=count,
            MaxCount=count,
            SubnetId=subnet,
            Placement={"GroupName": "one-rail"},
        )["Instances"]
        ids += [one["InstanceId"] for one in launched]
    plain = ec2.run_instances(
        ImageId="ami-12345678", InstanceType="t3.micro", MinCount=1, MaxCount=1, SubnetId=network.subnets[0]
    )["Instances"][0]["InstanceId"]
    found = {one["InstanceId"]: one for one in ec2.describe_instance_topology(InstanceIds=ids)["Instances"]}
    assert set(found) == set(ids)
    nodes = [found[one]["NetworkNodes"] for one in ids]
    assert all(len(one) == 3 and all(node.startswith("nn-") for node in one) for one in nodes)
    assert nodes[0] == nodes[1] == nodes[2] == nodes[3]
    assert nodes[4][:2] == nodes[0][:2] and nodes[4][2] != nodes[0][2]
    assert nodes[5][0] != nodes[0][0], "another zone shares nothing"
    assert {found[one]["GroupName"] for one in ids} == {"one-rail"}
    with refused("InvalidInstanceID.NotFound"):
        ec2.describe_instance_topology(InstanceIds=[plain])
    filters = [{"Name": "availability-zone", "Values": ["us-east-1b"]}]
    answers = ec2.describe_instance_topology(InstanceIds=ids, Filters=filters)["Instances"]
    assert [one["InstanceId"] for one in answers] == ids[5:]
    ec2.terminate_instances(InstanceIds=[*ids, plain])


def test_images_of_a_region_are_created_when_one_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from moto import mock_aws
    from moto.ec2.models import ec2_backends

    from gpufleet.lab.aws.backends import install

    install("ec2")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        backend = ec2_backends["123456789012"]["eu-west-3"]
        few = len(backend.amis)
        ec2 = boto3.client("ec2", region_name="eu-west-3")
        assert ec2.describe_images(Owners=["self"])["Images"] == []
        own = ec2.register_image(Name="own")["ImageId"]
        (known, mine) = ec2.describe_images(ImageIds=["ami-12c6146b", own])["Images"]
        assert {known["ImageId"], mine["ImageId"]} == {"ami-12c6146b", own}
        assert len(backend.amis) == few + 1 < 100
        names = [{"Name": "name", "Values": ["al2023-ami-2023*"]}]
        assert ec2.describe_images(Owners=["amazon"], Filters=names)["Images"]
        assert own in backend.amis and len(backend.amis) > 1000


@pytest.mark.parametrize(
    "wanted", [["ami-12345678"], ["ami-0000000000000000f"], ["ami-1234*"], ["ami-12345678", "ami-none"]]
)
def test_images_by_id_are_those_that_motos_own_filter_finds(wanted: list[str]) -> None:
    from moto.ec2.models import ec2_backends

    from gpufleet.lab.aws.backends import ec2_images

    backend = ec2_backends["123456789012"]["us-east-1"]
    filters = {"image-id": wanted}
    assert backend.describe_images(filters=filters) == ec2_images._describe(backend, filters=filters)
