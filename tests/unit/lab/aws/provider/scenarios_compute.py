"""Lifecycles of the compute types: templates, capacity, clusters."""

from __future__ import annotations

from typing import Any

from tests.unit.lab.aws.provider.driver import Resource
from tests.unit.lab.aws.provider.scenarios import Inputs, Scenario, drift_tag, retagged
from tests.unit.lab.aws.provider.world import ZONES, World, trust

ROOT = {"volumeType": "gp3", "volumeSize": 40, "encrypted": True, "deleteOnTermination": False}
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


def template(world: World) -> Inputs:
    interfaces = [
        {
            "deviceIndex": 0 if card == 0 else 1, "networkCardIndex": card, "interfaceType": "efa",
            "securityGroups": [world.group.id], "deleteOnTermination": "true",
            "associatePublicIpAddress": "false",
        }
        for card in range(4)
    ]  # fmt: skip
    return {
        "instanceType": "p4d.24xlarge",
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 2,
        },
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"encrypted": "true", "volumeSize": 200, "volumeType": "gp3"}}
        ],
        "networkInterfaces": interfaces,
        "tagSpecifications": [{"resourceType": "instance", "tags": {"Name": "gpu"}}],
        "userData": "IyEvYmluL3NoCg==",
        "updateDefaultVersion": True,
    }


def template_drift(world: World, resource: Resource) -> str:
    world.client("ec2").create_launch_template_version(
        LaunchTemplateId=resource.id, SourceVersion="1", LaunchTemplateData={"UserData": "ZXZpbA=="}
    )
    return "userData"


def instance(world: World) -> Inputs:
    return {
        "ami": "ami-000c540e28953ace2",
        "instanceType": "m7i.large",
        "subnetId": world.quiet_subnet.id,
        "privateIp": "10.0.77.20",
        "vpcSecurityGroupIds": [world.bare_group.id],
        "associatePublicIpAddress": False,
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required"},
        "rootBlockDevice": ROOT,
        "userData": "#cloud-config\n{}\n",
        "tags": {"Name": "server"},
    }


def instance_drift(world: World, resource: Resource) -> str:
    world.client("ec2").modify_instance_attribute(InstanceId=resource.id, Groups=[world.group.id])
    return "vpcSecurityGroupIds"


def reservation_drift(world: World, resource: Resource) -> str:
    world.client("ec2").modify_capacity_reservation(CapacityReservationId=resource.id, InstanceCount=5)
    return "instanceCount"


def placement_drift(world: World, resource: Resource) -> str:
    tag = {"Key": "owner", "Value": "somebody"}
    world.client("ec2").create_tags(Resources=[resource.state["placementGroupId"]], Tags=[tag])
    return "tags"


def cluster(world: World) -> Inputs:
    return {
        "roleArn": world.cluster_role.state["arn"],
        "version": "1.33",
        "vpcConfig": {
            "subnetIds": [subnet.id for subnet in world.subnets],
            "endpointPrivateAccess": True,
            "endpointPublicAccess": False,
        },
        "encryptionConfig": {"provider": {"keyArn": world.key.state["arn"]}, "resources": ["secrets"]},
        "enabledClusterLogTypes": ["api", "audit"],
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
    }


def cluster_drift(world: World, resource: Resource) -> str:
    vpc = {"endpointPublicAccess": True}
    world.client("eks").update_cluster_config(name=resource.id, resourcesVpcConfig=vpc)
    return "vpcConfig"


def node_group(world: World) -> Inputs:
    return {
        "clusterName": world.cluster.id,
        "nodeRoleArn": world.node_role.state["arn"],
        "subnetIds": [world.subnets[0].id],
        "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 4},
        "launchTemplate": {"id": world.template.id, "version": "1"},
        "labels": {"gpu": "a100"},
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
    }


def node_group_drift(world: World, resource: Resource) -> str:
    cluster_name, _, name = resource.id.partition(":")
    scaling = {"minSize": 0, "desiredSize": 0, "maxSize": 9}
    eks = world.client("eks")
    eks.update_nodegroup_config(clusterName=cluster_name, nodegroupName=name, scalingConfig=scaling)
    return "scalingConfig"


def group(world: World) -> Inputs:
    specification = {"launchTemplateId": world.asg_template.id, "version": "1"}
    return {
        "minSize": 0,
        "maxSize": 4,
        "vpcZoneIdentifiers": [subnet.id for subnet in world.subnets],
        "mixedInstancesPolicy": {
            "instancesDistribution": {
                "onDemandBaseCapacity": 0, "onDemandPercentageAboveBaseCapacity": 0,
                "spotAllocationStrategy": "price-capacity-optimized",
            },
            "launchTemplate": {
                "launchTemplateSpecification": specification,
                "overrides": [{"instanceType": "g6e.xlarge"}, {"instanceType": "g6e.2xlarge"}],
            },
        },
        "tags": [{"key": "team", "value": "ml", "propagateAtLaunch": True}],
        "instanceRefresh": {"strategy": "Rolling"},
    }  # fmt: skip


def group_drift(world: World, resource: Resource) -> str:
    world.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName=resource.id, MaxSize=9)
    return "maxSize"


def group_tag(world: World) -> Inputs:
    made = world.make("aws:autoscaling/group:Group", "tagged", **group(world))
    return {
        "autoscalingGroupName": made.id,
        "tag": {"key": "owner", "value": "one", "propagateAtLaunch": False},
    }


def group_tag_drift(world: World, resource: Resource) -> str:
    name, _, key = resource.id.partition(",")
    tag = {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key}
    world.client("autoscaling").create_or_update_tags(
        Tags=[{**tag, "Value": "somebody", "PropagateAtLaunch": False}]
    )
    return "tag"


def role_of(role: str) -> Any:
    return lambda world: {"principalArn": getattr(world, role).state["arn"]}


def access_drift(world: World, resource: Resource) -> str:
    cluster_name, _, principal = resource.id.partition(":")
    world.client("eks").update_access_entry(
        clusterName=cluster_name, principalArn=principal, kubernetesGroups=["somebody"]
    )
    return "kubernetesGroups"


def pod_drift(world: World, resource: Resource) -> str:
    other = world.make("aws:iam/role:Role", "pod-drift", assumeRolePolicy=trust("pods.eks.amazonaws.com"))
    world.client("eks").update_pod_identity_association(
        clusterName=world.cluster.id, associationId=resource.id, roleArn=other.state["arn"]
    )
    return "roleArn"


def policy_association(world: World) -> Inputs:
    principal = world.admin_role.state["arn"]
    if not getattr(world, "_admin_entry", None):
        entry = world.make(
            "aws:eks/accessEntry:AccessEntry", "admin", clusterName=world.cluster.id, principalArn=principal
        )
        world._admin_entry = entry  # type: ignore[attr-defined]
    return {
        "clusterName": world.cluster.id, "principalArn": principal, "policyArn": VIEW,
        "accessScope": {"type": "namespace", "namespaces": ["team-a"]},
    }  # fmt: skip


def share_of(world: World, name: str) -> str:
    """The ARN of a share, made once."""
    made = vars(world).setdefault("_shares", {})
    if name not in made:
        made[name] = world.make("aws:ram/resourceShare:ResourceShare", f"share-{name}").id
    return str(made[name])


def reservation_of(world: World, name: str) -> str:
    """The ARN of a reservation, made once."""
    made = vars(world).setdefault("_reservations", {})
    if name not in made:
        made[name] = world.make(
            "aws:ec2/capacityReservation:CapacityReservation",
            f"shared-{name}",
            availabilityZone=ZONES[0],
            instanceCount=1,
            instancePlatform="Linux/UNIX",
            instanceType="g6.xlarge",
        ).state["arn"]
    return str(made[name])


def share_drift(world: World, resource: Resource) -> str:
    world.client("ram").update_resource_share(resourceShareArn=resource.id, allowExternalPrincipals=True)
    return "allowExternalPrincipals"


COMPUTE = (
    Scenario(
        "aws:ram/resourceShare:ResourceShare",
        lambda w: {"allowExternalPrincipals": False},
        lambda w: {"tags": {"Name": "shared"}, "name": "lent"},
        lambda w: {"permissionArns": ["arn:aws:ram::aws:permission/AWSRAMDefaultPermissionOther"]},
        share_drift,
    ),
    Scenario(
        "aws:ram/resourceAssociation:ResourceAssociation",
        lambda w: {"resourceShareArn": share_of(w, "one"), "resourceArn": reservation_of(w, "one")},
        replace=lambda w: {"resourceArn": reservation_of(w, "two")},
    ),
    Scenario(
        "aws:ram/principalAssociation:PrincipalAssociation",
        lambda w: {"resourceShareArn": share_of(w, "one"), "principal": "222233334444"},
        replace=lambda w: {"principal": "222233335555"},
    ),
    Scenario(
        "aws:ec2/launchTemplate:LaunchTemplate",
        template,
        lambda w: {"userData": "IyEvYmluL2Jhc2gK", "description": "second"},
        lambda w: {"name": "named"},
        template_drift,
    ),
    Scenario(
        "aws:ec2/instance:Instance",
        instance,
        lambda w: {
            "instanceType": "m7i.xlarge", "vpcSecurityGroupIds": [w.other_group.id],
            "rootBlockDevice": {**ROOT, "volumeSize": 50}, "tags": {"Name": "renamed"},
        },
        lambda w: {"privateIp": "10.0.77.21"},
        instance_drift,
    ),
    Scenario(
        "aws:ec2/placementGroup:PlacementGroup",
        lambda w: {"strategy": "cluster"},
        retagged,
        lambda w: {"strategy": "spread"},
        placement_drift,
    ),
    Scenario(
        "aws:ec2/capacityReservation:CapacityReservation",
        lambda w: {
            "availabilityZone": ZONES[0], "instanceCount": 2, "instancePlatform": "Linux/UNIX",
            "instanceType": "p4d.24xlarge", "instanceMatchCriteria": "targeted",
        },
        lambda w: {"instanceCount": 3},
        lambda w: {"availabilityZone": ZONES[1]},
        reservation_drift,
    ),
    Scenario(
        "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
        lambda w: {
            "capacityBlockOfferingId": w.block_offering()["capacityBlockOfferingId"],
            "instancePlatform": "Linux/UNIX",
        },
        retagged,
        lambda w: {"capacityBlockOfferingId": w.block_offering(hours=48)["capacityBlockOfferingId"]},
        drift_tag,
    ),
    Scenario(
        "aws:autoscaling/group:Group",
        group,
        lambda w: {"maxSize": 8, "tags": [{"key": "team", "value": "other", "propagateAtLaunch": False}]},
        lambda w: {"name": "named-group"},
        group_drift,
    ),
    Scenario(
        "aws:autoscaling/tag:Tag",
        group_tag,
        lambda w: {"tag": {"key": "owner", "value": "two", "propagateAtLaunch": False}},
        lambda w: {"tag": {"key": "other", "value": "two", "propagateAtLaunch": False}},
        group_tag_drift,
    ),
    Scenario(
        "aws:eks/cluster:Cluster",
        cluster,
        lambda w: {"enabledClusterLogTypes": ["api", "audit", "scheduler"], "version": "1.34"},
        lambda w: {"roleArn": w.node_role.state["arn"]},
        cluster_drift,
    ),
    Scenario(
        "aws:eks/nodeGroup:NodeGroup",
        node_group,
        lambda w: {
            "labels": {"gpu": "h100"}, "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 4},
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_EXECUTE"}],
        },
        lambda w: {"subnetIds": [w.subnets[1].id]},
        node_group_drift,
    ),
    Scenario(
        "aws:eks/addon:Addon",
        lambda w: {"clusterName": w.cluster.id, "addonName": "vpc-cni",
        "resolveConflictsOnUpdate": "OVERWRITE"},
        lambda w: {"configurationValues": '{"env": {"WARM_ENI_TARGET": "2"}}', "tags": {"Name": "cni"}},
        lambda w: {"addonName": "kube-proxy"},
    ),
    Scenario(
        "aws:eks/accessEntry:AccessEntry",
        lambda w: {"clusterName": w.cluster.id, "principalArn": w.logs_role.state["arn"],
        "kubernetesGroups": ["ops"]},
        lambda w: {"kubernetesGroups": ["ops", "view"]},
        role_of("admin_role"),
        access_drift,
    ),
    Scenario(
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        policy_association,
        replace=lambda w: {"policyArn": ADMIN},
    ),
    Scenario(
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        lambda w: {
            "clusterName": w.cluster.id, "namespace": "kube-system", "serviceAccount": "fsx",
            "roleArn": w.pod_role.state["arn"],
        },
        lambda w: {"tags": {"Name": "fsx"}},
        lambda w: {"serviceAccount": "ebs"},
        pod_drift,
    ),
)  # fmt: skip
