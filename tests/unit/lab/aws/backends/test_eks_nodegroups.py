from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def template(aws: Any) -> str:
    data = {"InstanceType": "p5.48xlarge", "MetadataOptions": {"HttpTokens": "required"}}
    made = aws("ec2").create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    made_id: str = made["LaunchTemplate"]["LaunchTemplateId"]
    return made_id


def test_node_group_is_created_updated_and_deleted(
    aws: Any, cluster: Any, network: Any, role: str, template: str, refused: Any
) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}
    name = {"clusterName": "atlas", "nodegroupName": "pretrain"}
    eks.create_nodegroup(
        **name,
        subnets=list(network.subnets),
        nodeRole=role,
        launchTemplate={"id": template, "version": "1"},
        scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 0},
        amiType="AL2023_x86_64_NVIDIA",
        labels={"gpufleet.dev/group": "pretrain"},
        taints=[taint],
        updateConfig={"maxUnavailable": 2},
        tags={"fleet": "atlas"},
    )
    eks.get_waiter("nodegroup_active").wait(**name)
    found = eks.describe_nodegroup(**name)["nodegroup"]
    assert found["launchTemplate"] == {"id": template, "name": "nodes", "version": "1"}
    assert (found["capacityType"], found["amiType"]) == ("ON_DEMAND", "AL2023_x86_64_NVIDIA")
    assert (found["taints"], found["updateConfig"]) == ([taint], {"maxUnavailable": 2})
    assert found["scalingConfig"] == {"minSize": 0, "maxSize": 4, "desiredSize": 0}
    assert "instanceTypes" not in found and "diskSize" not in found and "remoteAccess" not in found
    entry = eks.describe_access_entry(clusterName="atlas", principalArn=role)["accessEntry"]
    assert entry["type"] == "EC2_LINUX", "EKS lets the role of managed nodes in by itself"

    update = eks.update_nodegroup_config(
        **name,
        scalingConfig={"maxSize": 8},
        labels={"addOrUpdateLabels": {"new": "1"}, "removeLabels": ["gpufleet.dev/group"]},
        taints={"removeTaints": [taint]},
    )["update"]
    assert eks.describe_update(name="atlas", nodegroupName="pretrain", updateId=update["id"])
    found = eks.describe_nodegroup(**name)["nodegroup"]
    assert found["scalingConfig"]["maxSize"] == 8
    assert (found["labels"], found.get("taints", [])) == ({"new": "1"}, [])
    with refused("InvalidParameterException"):
        eks.update_nodegroup_config(**name, scalingConfig={"minSize": 9})

    ec2.create_launch_template_version(
        LaunchTemplateId=template, SourceVersion="1", LaunchTemplateData={"EbsOptimized": True}
    )
    eks.update_nodegroup_version(**name, launchTemplate={"id": template, "version": "2"})
    assert eks.describe_nodegroup(**name)["nodegroup"]["launchTemplate"]["version"] == "2"
    other = ec2.create_launch_template(
        LaunchTemplateName="other", LaunchTemplateData={"InstanceType": "p5.48xlarge"}
    )["LaunchTemplate"]["LaunchTemplateId"]
    with refused("InvalidParameterException"):
        eks.update_nodegroup_version(**name, launchTemplate={"id": other, "version": "1"})

    arn = found["nodegroupArn"]
    eks.tag_resource(resourceArn=arn, tags={"late": "yes"})
    eks.untag_resource(resourceArn=arn, tagKeys=["fleet"])
    assert eks.list_tags_for_resource(resourceArn=arn)["tags"] == {"late": "yes"}
    with refused("ResourceInUseException"):
        eks.delete_cluster(name="atlas")
    eks.delete_nodegroup(**name)
    eks.get_waiter("nodegroup_deleted").wait(**name)
    assert eks.list_nodegroups(clusterName="atlas")["nodegroups"] == []
    with refused("NotFoundException"):
        eks.list_tags_for_resource(resourceArn=arn)


def test_capacity_block_node_group_needs_a_matching_template(
    aws: Any, cluster: Any, network: Any, role: str, template: str, refused: Any
) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    offers = ec2.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge", InstanceCount=2, CapacityDurationHours=24
    )["CapacityBlockOfferings"]
    offer = next(one for one in offers if one["AvailabilityZone"] == "us-east-1a")
    block = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]["CapacityReservationId"]
    right = ec2.create_launch_template(
        LaunchTemplateName="in-a-block",
        LaunchTemplateData={
            "InstanceType": "p5.48xlarge",
            "InstanceMarketOptions": {"MarketType": "capacity-block"},
            "CapacityReservationSpecification": {
                "CapacityReservationTarget": {"CapacityReservationId": block}
            },
        },
    )["LaunchTemplate"]["LaunchTemplateId"]

    def make(name: str, used: str, capacity: str, subnet: str) -> Any:
        return eks.create_nodegroup(
            clusterName="atlas",
            nodegroupName=name,
            nodeRole=role,
            subnets=[subnet],
            capacityType=capacity,
            launchTemplate={"id": used},
            scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
        )["nodegroup"]

    here, there = network.subnets
    with refused("InvalidParameterException"):
        make("wrong", right, "ON_DEMAND", here)
    with refused("InvalidParameterException"):
        make("wrong", template, "CAPACITY_BLOCK", here)
    with refused("InvalidParameterException"):
        make("wrong", right, "CAPACITY_BLOCK", there)
    made = make("block", right, "CAPACITY_BLOCK", here)
    assert made["capacityType"] == "CAPACITY_BLOCK"
    assert eks.list_nodegroups(clusterName="atlas")["nodegroups"] == ["block"]
    eks.delete_nodegroup(clusterName="atlas", nodegroupName="block")


@pytest.mark.parametrize(
    "data",
    [
        {"InstanceType": "p5.48xlarge", "IamInstanceProfile": {"Name": "x"}},
        {"InstanceType": "p5.48xlarge", "InstanceMarketOptions": {"MarketType": "spot"}},
        {"InstanceType": "p5.48xlarge", "Placement": {"GroupName": "absent"}},
        {
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": [{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa-only"}],
        },
        {
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": "subnet-00000000"}],
        },
    ],
    ids=["instance profile", "spot", "unknown placement group", "efa-only primary", "subnet"],
)
def test_invalid_templates_are_refused(
    aws: Any, cluster: Any, network: Any, role: str, refused: Any, data: dict[str, Any]
) -> None:
    ec2 = aws("ec2")
    made = ec2.create_launch_template(LaunchTemplateName="refused", LaunchTemplateData=data)["LaunchTemplate"]
    with refused("InvalidParameterException"):
        aws("eks").create_nodegroup(
            clusterName="atlas",
            nodegroupName="refused",
            nodeRole=role,
            subnets=list(network.subnets),
            launchTemplate={"id": made["LaunchTemplateId"]},
        )
    ec2.delete_launch_template(LaunchTemplateId=made["LaunchTemplateId"])
    assert aws("eks").list_nodegroups(clusterName="atlas")["nodegroups"] == []


def test_nodes_are_instances_that_exist_as_long_as_their_group(
    aws: Any, cluster: Any, network: Any, role: str, refused: Any
) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    ec2.create_placement_group(GroupName="close", Strategy="cluster")
    template = ec2.create_launch_template(
        LaunchTemplateName="close",
        LaunchTemplateData={
            "InstanceType": "p5.48xlarge",
            "Placement": {"GroupName": "close"},
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "fleet", "Value": "atlas"}]}],
        },
    )["LaunchTemplate"]["LaunchTemplateId"]
    name = {"clusterName": "atlas", "nodegroupName": "close"}

    def nodes() -> list[Any]:
        filters = [
            {"Name": "tag:eks:nodegroup-name", "Values": ["close"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        return [i for r in ec2.describe_instances(Filters=filters)["Reservations"] for i in r["Instances"]]

    eks.create_nodegroup(
        **name,
        subnets=[network.subnets[0]],
        nodeRole=role,
        launchTemplate={"id": template},
        amiType="AL2023_x86_64_NVIDIA",
        scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 2},
    )
    first = nodes()
    assert [one["InstanceType"] for one in first] == ["p5.48xlarge"] * 2
    assert {one["Placement"]["GroupName"] for one in first} == {"close"}
    assert all({"Key": "fleet", "Value": "atlas"} in one["Tags"] for one in first)
    (image,) = ec2.describe_images(ImageIds=[first[0]["ImageId"]])["Images"]
    assert "nvidia" in image["Name"]
    assert len(ec2.describe_instance_topology(GroupNames=["close"])["Instances"]) == 2
    with refused("InvalidPlacementGroup.InUse"):
        ec2.delete_placement_group(GroupName="close")

    eks.update_nodegroup_config(**name, scalingConfig={"desiredSize": 3})
    assert len(nodes()) == 3
    ec2.create_launch_template_version(
        LaunchTemplateId=template, SourceVersion="1", LaunchTemplateData={"EbsOptimized": True}
    )
    eks.update_nodegroup_version(**name, launchTemplate={"id": template, "version": "2"})
    rolled = nodes()
    assert len(rolled) == 3
    assert {one["InstanceId"] for one in rolled}.isdisjoint(one["InstanceId"] for one in first)
    eks.delete_nodegroup(**name)
    assert nodes() == []
    ec2.delete_placement_group(GroupName="close")
    assert aws("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []
    left = [one["LaunchTemplateName"] for one in ec2.describe_launch_templates()["LaunchTemplates"]]
    assert not any(one.startswith("eks-") for one in left)


def test_nodes_in_a_block_wait_for_its_start(aws: Any, cluster: Any, network: Any, role: str) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    offers = ec2.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge", InstanceCount=2, CapacityDurationHours=24
    )["CapacityBlockOfferings"]
    offer = next(one for one in offers if one["AvailabilityZone"] == "us-east-1a")
    block = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]["CapacityReservationId"]
    target = {"CapacityReservationTarget": {"CapacityReservationId": block}}
    template = ec2.create_launch_template(
        LaunchTemplateName="waiting",
        LaunchTemplateData={
            "InstanceType": "p5.48xlarge",
            "InstanceMarketOptions": {"MarketType": "capacity-block"},
            "CapacityReservationSpecification": target,
        },
    )["LaunchTemplate"]["LaunchTemplateId"]
    eks.create_nodegroup(
        clusterName="atlas",
        nodegroupName="waiting",
        subnets=[network.subnets[0]],
        nodeRole=role,
        capacityType="CAPACITY_BLOCK",
        launchTemplate={"id": template},
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 2},
    )
    filters = [{"Name": "tag:eks:nodegroup-name", "Values": ["waiting"]}]
    assert ec2.describe_instances(Filters=filters)["Reservations"] == []
    eks.delete_nodegroup(clusterName="atlas", nodegroupName="waiting")


OWN_IMAGE = "ami-000c540e28953ace2"


def template_with(aws: Any, name: str, **data: Any) -> str:
    made = aws("ec2").create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "g6e.2xlarge", **data}
    )
    made_id: str = made["LaunchTemplate"]["LaunchTemplateId"]
    return made_id


def image_of_nodes(aws: Any, group: str) -> set[str]:
    """The images of a group's running nodes."""
    filters = [
        {"Name": "tag:eks:nodegroup-name", "Values": [group]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    found = aws("ec2").describe_instances(Filters=filters)["Reservations"]
    return {instance["ImageId"] for each in found for instance in each["Instances"]}


def test_release_of_the_image_is_of_the_groups_version_of_kubernetes(
    aws: Any, cluster: Any, network: Any, role: str, refused: Any
) -> None:
    eks = aws("eks")
    version = eks.describe_cluster(name="atlas")["cluster"]["version"]
    group = {"clusterName": "atlas", "nodegroupName": "pinned"}
    given = {
        "subnets": list(network.subnets),
        "nodeRole": role,
        "launchTemplate": {"id": template_with(aws, "pinned")},
        "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
    }
    with refused("InvalidParameterException"):
        eks.create_nodegroup(**group, **given, releaseVersion="1.20.3-20260714")
    eks.create_nodegroup(**group, **given, releaseVersion=f"{version}.3-20260625")
    with refused("InvalidParameterException"):
        eks.update_nodegroup_version(**group, releaseVersion="20260714")
    eks.update_nodegroup_config(**group, scalingConfig={"desiredSize": 1})
    older = image_of_nodes(aws, "pinned")
    with refused("InvalidParameterException"):
        eks.update_nodegroup_version(**group, releaseVersion="1.20.4-20260714")
    eks.update_nodegroup_version(**group, releaseVersion=f"{version}.4-20260714")
    name = f"amazon-eks-node-al2023-x86_64-standard-{version}-v20260714"
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/standard/{name}/image_id"
    released = aws("ssm").get_parameter(Name=path)["Parameter"]["Value"]
    assert older != image_of_nodes(aws, "pinned") == {released}
    assert eks.describe_nodegroup(**group)["nodegroup"]["releaseVersion"] == f"{version}.4-20260714"
    eks.delete_nodegroup(**group)


@pytest.mark.parametrize(
    "also",
    [{"amiType": "AL2023_x86_64_NVIDIA"}, {"version": "1.34"}, {"releaseVersion": "1.34.4-20260714"}],
    ids=lambda also: next(iter(also)),
)
def test_image_of_the_template_excludes_settings_of_eks_images(
    aws: Any, cluster: Any, network: Any, role: str, refused: Any, also: dict[str, str]
) -> None:
    template_id = template_with(aws, f"own-{next(iter(also))}", ImageId=OWN_IMAGE)
    with refused("InvalidParameterException"):
        aws("eks").create_nodegroup(
            clusterName="atlas",
            nodegroupName="own",
            nodeRole=role,
            subnets=list(network.subnets),
            launchTemplate={"id": template_id},
            **also,
        )


def test_group_cannot_change_between_an_image_of_its_own_and_one_of_eks(
    aws: Any, cluster: Any, network: Any, role: str, refused: Any
) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    template_id = template_with(aws, "switch")
    group = {"clusterName": "atlas", "nodegroupName": "switch"}
    eks.create_nodegroup(
        **group,
        subnets=list(network.subnets),
        nodeRole=role,
        launchTemplate={"id": template_id},
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
    )
    ec2.create_launch_template_version(
        LaunchTemplateId=template_id, SourceVersion="1", LaunchTemplateData={"ImageId": OWN_IMAGE}
    )
    with refused("InvalidParameterException"):
        eks.update_nodegroup_version(**group, launchTemplate={"id": template_id, "version": "2"})
    eks.delete_nodegroup(**group)


def test_update_without_a_release_takes_the_newest_image_whatever_it_is_for(
    aws: Any, cluster: Any, network: Any, role: str
) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    version = eks.describe_cluster(name="atlas")["cluster"]["version"]
    template_id = template_with(aws, "moves")
    group = {"clusterName": "atlas", "nodegroupName": "moves"}
    eks.create_nodegroup(
        **group,
        subnets=list(network.subnets),
        nodeRole=role,
        launchTemplate={"id": template_id},
        releaseVersion=f"{version}.3-20260625",
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
    )
    ec2.create_launch_template_version(
        LaunchTemplateId=template_id, SourceVersion="1", LaunchTemplateData={"EbsOptimized": True}
    )
    eks.update_nodegroup_version(**group, launchTemplate={"id": template_id, "version": "2"})
    moved = eks.describe_nodegroup(**group)["nodegroup"]["releaseVersion"]
    assert moved != f"{version}.3-20260625"
    eks.delete_nodegroup(**group)


def test_tags_of_a_template_with_an_image_do_not_change_the_image_of_nodes(
    aws: Any, cluster: Any, network: Any, role: str
) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    template_id = template_with(aws, "stays", ImageId=OWN_IMAGE)
    group = {"clusterName": "atlas", "nodegroupName": "stays"}
    eks.create_nodegroup(
        **group,
        subnets=list(network.subnets),
        nodeRole=role,
        amiType="CUSTOM",
        launchTemplate={"id": template_id},
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 1},
    )
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "project", "Value": "other"}]}]
    ec2.create_launch_template_version(
        LaunchTemplateId=template_id, SourceVersion="1", LaunchTemplateData={"TagSpecifications": tags}
    )
    eks.update_nodegroup_version(**group, launchTemplate={"id": template_id, "version": "2"})
    assert image_of_nodes(aws, "stays") == {OWN_IMAGE}
    eks.delete_nodegroup(**group)


def test_scaling_group_has_the_limits_of_its_node_group_and_eks_own_tags(
    aws: Any, cluster: Any, network: Any, role: str, template: str
) -> None:
    eks, scaling = aws("eks"), aws("autoscaling")
    name = {"clusterName": "atlas", "nodegroupName": "scaled"}
    made = eks.create_nodegroup(
        **name,
        subnets=list(network.subnets),
        nodeRole=role,
        launchTemplate={"id": template, "version": "1"},
        scalingConfig={"minSize": 1, "maxSize": 4, "desiredSize": 2},
        tags={"fleet": "atlas"},
    )["nodegroup"]
    (own,) = made["resources"]["autoScalingGroups"]

    def found() -> Any:
        (group,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[own["name"]])[
            "AutoScalingGroups"
        ]
        return group

    assert (found()["MinSize"], found()["DesiredCapacity"], found()["MaxSize"]) == (1, 2, 4)
    # A node group's own tags are not copied.
    assert {tag["Key"]: tag["Value"] for tag in found()["Tags"]} == {
        "eks:cluster-name": "atlas",
        "eks:nodegroup-name": "scaled",
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/atlas": "owned",
        "kubernetes.io/cluster/atlas": "owned",
    }
    eks.update_nodegroup_config(**name, scalingConfig={"minSize": 0, "maxSize": 3})
    assert (found()["MinSize"], found()["MaxSize"]) == (0, 3)
    eks.delete_nodegroup(**name)
