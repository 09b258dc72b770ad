from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def key(aws: Any) -> str:
    arn: str = aws("kms").create_key()["KeyMetadata"]["Arn"]
    return arn


@pytest.fixture(scope="module")
def cluster(aws: Any, network: Any, role: str, key: str) -> Any:
    made = aws("eks").create_cluster(
        name="atlas",
        version="1.33",
        roleArn=role,
        resourcesVpcConfig={
            "subnetIds": list(network.subnets),
            "endpointPrivateAccess": True,
            "endpointPublicAccess": False,
        },
        accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
        encryptionConfig=[{"resources": ["secrets"], "provider": {"keyArn": key}}],
        logging={"clusterLogging": [{"types": ["audit", "api"], "enabled": True}]},
        tags={"fleet": "atlas"},
    )["cluster"]
    aws("eks").get_waiter("cluster_active").wait(name="atlas")
    return made


@pytest.fixture(scope="module")
def template(aws: Any) -> str:
    data = {"InstanceType": "p5.48xlarge", "MetadataOptions": {"HttpTokens": "required"}}
    made = aws("ec2").create_launch_template(LaunchTemplateName="nodes", LaunchTemplateData=data)
    made_id: str = made["LaunchTemplate"]["LaunchTemplateId"]
    return made_id


def _described(aws: Any) -> Any:
    return aws("eks").describe_cluster(name="atlas")["cluster"]


def test_a_cluster_tells_all_that_it_was_given_and_what_eks_adds(
    aws: Any, cluster: Any, network: Any, key: str
) -> None:
    found = _described(aws)
    assert found["status"] == "ACTIVE"
    assert found["accessConfig"]["authenticationMode"] == "API"
    assert found["encryptionConfig"] == [{"resources": ["secrets"], "provider": {"keyArn": key}}]
    vpc = found["resourcesVpcConfig"]
    assert (vpc["vpcId"], vpc["endpointPrivateAccess"], vpc["endpointPublicAccess"]) == (
        network.vpc,
        True,
        False,
    )
    assert vpc["publicAccessCidrs"] == []
    on = {t for one in found["logging"]["clusterLogging"] if one["enabled"] for t in one["types"]}
    assert on == {"api", "audit"}
    (group,) = aws("ec2").describe_security_groups(GroupIds=[vpc["clusterSecurityGroupId"]])["SecurityGroups"]
    assert group["VpcId"] == network.vpc
    assert {t["Key"] for t in group["Tags"]} == {"Name", "kubernetes.io/cluster/atlas"}
    assert cluster["identity"]["oidc"]["issuer"] == found["identity"]["oidc"]["issuer"]


def test_a_cluster_that_eks_would_not_make_is_refused(
    aws: Any, network: Any, role: str, key: str, refused: Any
) -> None:
    eks, subnets = aws("eks"), list(network.subnets)

    def make(**network_config: Any) -> None:
        config = {"subnetIds": subnets, **network_config}
        eks.create_cluster(name="never", roleArn=role, resourcesVpcConfig=config)

    with refused("InvalidParameterException"):
        make(subnetIds=subnets[:1])
    with refused("InvalidParameterException"):
        make(subnetIds=["subnet-00000000", *subnets])
    with refused("InvalidParameterException"):
        make(endpointPublicAccess=False, endpointPrivateAccess=False)
    with refused("InvalidParameterException"):
        eks.create_cluster(
            name="never",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": subnets},
            encryptionConfig=[{"resources": ["secrets"], "provider": {"keyArn": key + "0"}}],
        )
    assert "never" not in eks.list_clusters()["clusters"]


def test_cluster_settings_change_one_kind_at_a_time(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    update = eks.update_cluster_config(
        name="atlas", resourcesVpcConfig={"endpointPublicAccess": True, "publicAccessCidrs": ["192.0.2.0/24"]}
    )["update"]
    assert eks.describe_update(name="atlas", updateId=update["id"])["update"]["status"] == "Successful"
    vpc = _described(aws)["resourcesVpcConfig"]
    assert (vpc["publicAccessCidrs"], vpc["endpointPrivateAccess"]) == (["192.0.2.0/24"], True)
    eks.update_cluster_config(
        name="atlas", logging={"clusterLogging": [{"types": ["audit"], "enabled": False}]}
    )
    logging = _described(aws)["logging"]["clusterLogging"]
    assert [one["types"] for one in logging if one["enabled"]] == [["api"]]
    eks.update_cluster_config(name="atlas", upgradePolicy={"supportType": "STANDARD"})
    assert _described(aws)["upgradePolicy"] == {"supportType": "STANDARD"}
    with refused("InvalidParameterException"):
        eks.update_cluster_config(name="atlas", upgradePolicy={"supportType": "EXTENDED"}, logging={})
    with refused("InvalidParameterException"):
        eks.update_cluster_config(name="atlas", accessConfig={"authenticationMode": "CONFIG_MAP"})
    assert update["id"] in eks.list_updates(name="atlas")["updateIds"]
    with refused("ResourceNotFoundException"):
        eks.describe_update(name="atlas", updateId="none")


def test_a_cluster_goes_up_one_minor_version_at_a_time(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    for wrong in ("1.35", "1.32", "1.33"):
        with refused("InvalidParameterException"):
            eks.update_cluster_version(name="atlas", version=wrong)
    eks.update_cluster_version(name="atlas", version="1.34")
    assert _described(aws)["version"] == "1.34"


def test_a_node_group_lives_from_creation_to_deletion(
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


def test_a_capacity_block_node_group_needs_a_template_that_says_so(
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
def test_templates_that_eks_refuses(
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


def test_an_add_on_lives_from_creation_to_deletion(aws: Any, cluster: Any, role: str, refused: Any) -> None:
    eks = aws("eks")
    name = {"clusterName": "atlas", "addonName": "vpc-cni"}
    made = eks.create_addon(
        **name,
        configurationValues='{"enableNetworkPolicy": "true"}',
        podIdentityAssociations=[{"serviceAccount": "aws-node", "roleArn": role}],
        tags={"fleet": "atlas"},
    )["addon"]
    assert made["status"] == "CREATING"
    eks.get_waiter("addon_active").wait(**name)
    found = eks.describe_addon(**name)["addon"]
    assert (found["status"], found["tags"]) == ("ACTIVE", {"fleet": "atlas"})
    assert found["configurationValues"] == '{"enableNetworkPolicy": "true"}'
    assert "serviceAccountRoleArn" not in found
    (association,) = eks.list_pod_identity_associations(clusterName="atlas")["associations"]
    assert found["podIdentityAssociations"] == [association["associationArn"]]
    assert association["ownerArn"] == found["addonArn"]
    with refused("ResourceInUseException"):
        eks.create_addon(**name)
    with refused("InvalidParameterException"):
        eks.create_addon(clusterName="atlas", addonName="no-such-addon")
    with refused("InvalidParameterException"):
        eks.update_addon(**name, addonVersion="latest")
    update = eks.update_addon(**name, addonVersion="v1.99.0-eksbuild.1", resolveConflicts="OVERWRITE")[
        "update"
    ]
    assert eks.describe_update(name="atlas", addonName="vpc-cni", updateId=update["id"])
    found = eks.describe_addon(**name)["addon"]
    assert found["addonVersion"] == "v1.99.0-eksbuild.1"
    assert found["configurationValues"] == '{"enableNetworkPolicy": "true"}'
    assert eks.list_addons(clusterName="atlas")["addons"] == ["vpc-cni"]
    eks.delete_addon(**name)
    eks.get_waiter("addon_deleted").wait(**name)
    assert eks.list_addons(clusterName="atlas")["addons"] == []
    assert eks.list_pod_identity_associations(clusterName="atlas")["associations"] == []


def test_the_versions_of_an_add_on_can_be_asked_for(aws: Any) -> None:
    (addon,) = aws("eks").describe_addon_versions(addonName="coredns", kubernetesVersion="1.34")["addons"]
    version = addon["addonVersions"][0]
    assert version["compatibilities"][0]["defaultVersion"] is True
    answer = aws("eks").describe_addon_configuration(
        addonName="coredns", addonVersion=version["addonVersion"]
    )
    assert answer["configurationSchema"].startswith("{")
    assert aws("eks").describe_addon_versions(addonName="none")["addons"] == []


ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


def test_an_access_entry_lives_from_creation_to_deletion(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    entry = {"clusterName": "atlas", "principalArn": "arn:aws:iam::123456789012:role/admins"}
    made = eks.create_access_entry(**entry, kubernetesGroups=["admins"], tags={"fleet": "atlas"})[
        "accessEntry"
    ]
    assert made["username"] == "arn:aws:sts::123456789012:assumed-role/admins/{{SessionName}}"
    assert eks.describe_access_entry(**entry)["accessEntry"] == made
    eks.update_access_entry(**entry, kubernetesGroups=["viewers"], username="someone")
    found = eks.describe_access_entry(**entry)["accessEntry"]
    assert (found["kubernetesGroups"], found["username"]) == (["viewers"], "someone")
    with refused("ResourceInUseException"):
        eks.create_access_entry(**entry)

    eks.associate_access_policy(**entry, policyArn=ADMIN, accessScope={"type": "cluster"})
    eks.associate_access_policy(
        **entry, policyArn=VIEW, accessScope={"type": "namespace", "namespaces": ["team-a"]}
    )
    policies = eks.list_associated_access_policies(**entry)["associatedAccessPolicies"]
    assert [(one["policyArn"], one["accessScope"]["type"]) for one in policies] == [
        (ADMIN, "cluster"),
        (VIEW, "namespace"),
    ]
    with_admin = eks.list_access_entries(clusterName="atlas", associatedPolicyArn=ADMIN)["accessEntries"]
    assert with_admin == [entry["principalArn"]]
    with refused("ResourceNotFoundException"):
        eks.associate_access_policy(**entry, policyArn=ADMIN + "X", accessScope={"type": "cluster"})
    with refused("InvalidParameterException"):
        eks.associate_access_policy(**entry, policyArn=VIEW, accessScope={"type": "namespace"})
    eks.disassociate_access_policy(**entry, policyArn=ADMIN)
    with refused("ResourceNotFoundException"):
        eks.disassociate_access_policy(**entry, policyArn=ADMIN)
    assert ADMIN in {one["arn"] for one in eks.list_access_policies()["accessPolicies"]}
    eks.delete_access_entry(**entry)
    assert entry["principalArn"] not in eks.list_access_entries(clusterName="atlas")["accessEntries"]
    with refused("ResourceNotFoundException"):
        eks.describe_access_entry(**entry)


def test_access_entries_of_nodes_take_no_groups_and_no_policies(aws: Any, cluster: Any, refused: Any) -> None:
    eks = aws("eks")
    entry = {"clusterName": "atlas", "principalArn": "arn:aws:iam::123456789012:role/self-managed"}
    with refused("InvalidParameterException"):
        eks.create_access_entry(**entry, type="EC2_LINUX", kubernetesGroups=["x"])
    made = eks.create_access_entry(**entry, type="EC2_LINUX")["accessEntry"]
    assert made["kubernetesGroups"] == ["system:nodes"]
    with refused("InvalidRequestException"):
        eks.associate_access_policy(**entry, policyArn=VIEW, accessScope={"type": "cluster"})
    eks.delete_access_entry(**entry)


def test_a_cluster_on_config_maps_takes_no_access_entries_and_a_creator_is_let_in_otherwise(
    aws: Any, network: Any, role: str, refused: Any
) -> None:
    eks = aws("eks")
    for name, config in (("old", None), ("new", {"authenticationMode": "API"})):
        more = {"accessConfig": config} if config else {}
        eks.create_cluster(
            name=name, roleArn=role, resourcesVpcConfig={"subnetIds": list(network.subnets)}, **more
        )
    with refused("InvalidRequestException"):
        eks.create_access_entry(clusterName="old", principalArn=role)
    creator = "arn:aws:iam::123456789012:user/moto"
    assert eks.list_access_entries(clusterName="old")["accessEntries"] == []
    assert eks.list_access_entries(clusterName="new")["accessEntries"] == [creator]
    groups = {eks.describe_cluster(name=n)["cluster"]["identity"]["oidc"]["issuer"] for n in ("old", "new")}
    assert len(groups) == 2, "each cluster has an issuer of its own"
    for name in ("old", "new"):
        eks.delete_cluster(name=name)
    left = aws("ec2").describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])
    names = {one["GroupName"] for one in left["SecurityGroups"]}
    assert not any(name.startswith(("eks-cluster-sg-old", "eks-cluster-sg-new")) for name in names)


def test_a_pod_identity_association_lives_from_creation_to_deletion(
    aws: Any, cluster: Any, role: str, refused: Any
) -> None:
    eks = aws("eks")
    account = {"clusterName": "atlas", "namespace": "kube-system", "serviceAccount": "fsx-csi"}
    made = eks.create_pod_identity_association(**account, roleArn=role, tags={"fleet": "atlas"})[
        "association"
    ]
    name = {"clusterName": "atlas", "associationId": made["associationId"]}
    assert eks.describe_pod_identity_association(**name)["association"] == made
    assert "ownerArn" not in made and "targetRoleArn" not in made
    with refused("ResourceInUseException"):
        eks.create_pod_identity_association(**account, roleArn=role)
    other = role.replace("node", "other")
    eks.update_pod_identity_association(**name, roleArn=other, targetRoleArn=role)
    found = eks.describe_pod_identity_association(**name)["association"]
    assert (found["roleArn"], found["targetRoleArn"]) == (other, role)
    assert found["externalId"]
    listed = eks.list_pod_identity_associations(clusterName="atlas", namespace="kube-system")["associations"]
    assert [one["associationId"] for one in listed] == [made["associationId"]]
    assert eks.list_pod_identity_associations(clusterName="atlas", namespace="x")["associations"] == []
    eks.tag_resource(resourceArn=made["associationArn"], tags={"late": "yes"})
    assert eks.list_tags_for_resource(resourceArn=made["associationArn"])["tags"]["late"] == "yes"
    eks.delete_pod_identity_association(**name)
    with refused("ResourceNotFoundException"):
        eks.describe_pod_identity_association(**name)


def test_secrets_of_a_cluster_are_encrypted_once(
    aws: Any, network: Any, role: str, key: str, refused: Any
) -> None:
    eks = aws("eks")
    eks.create_cluster(name="plain", roleArn=role, resourcesVpcConfig={"subnetIds": list(network.subnets)})
    assert not eks.describe_cluster(name="plain")["cluster"].get("encryptionConfig")
    wanted = [{"resources": ["secrets"], "provider": {"keyArn": key}}]
    eks.associate_encryption_config(clusterName="plain", encryptionConfig=wanted)
    assert eks.describe_cluster(name="plain")["cluster"]["encryptionConfig"] == wanted
    with refused("InvalidRequestException"):
        eks.associate_encryption_config(clusterName="plain", encryptionConfig=wanted)
    eks.delete_cluster(name="plain")
    with refused("ResourceNotFoundException"):
        eks.list_addons(clusterName="plain")


def test_the_nodes_of_a_group_are_instances_that_come_and_go_with_it(
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
