"""Resources as AWS shows them, read with boto3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from gpufleet.lab.aws.provider.clients import Clients
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.registry import handler_for
from tests.unit.lab.aws.provider.driver import Engine, Resource
from tests.unit.lab.aws.provider.scenarios_compute import cluster, node_group, template
from tests.unit.lab.aws.provider.scenarios_network import S3
from tests.unit.lab.aws.provider.world import REGION, World

Make = Callable[..., Resource]


@pytest.fixture
def make(engine: Engine) -> Iterator[Make]:
    """Create resources and delete them at the end, in reverse order."""
    made: list[Resource] = []

    def one(token: str, **inputs: Any) -> Resource:
        made.append(engine.create(token, "detail", inputs))
        return made[-1]

    yield one
    for resource in reversed(made):
        engine.delete(resource)


def template_data(world: World, resource: Resource, version: str = "$Latest") -> dict[str, Any]:
    found = world.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=resource.id, Versions=[version]
    )
    data: dict[str, Any] = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def test_launch_template_requires_imdsv2_and_encrypts_its_volumes(make: Make, world: World) -> None:
    data = template_data(world, make("aws:ec2/launchTemplate:LaunchTemplate", **template(world)))
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert [item["Ebs"]["Encrypted"] for item in data["BlockDeviceMappings"]] == [True]


def test_launch_template_has_one_efa_interface_per_card(make: Make, world: World) -> None:
    data = template_data(world, make("aws:ec2/launchTemplate:LaunchTemplate", **template(world)))
    shown = [
        (item["NetworkCardIndex"], item["DeviceIndex"], item["InterfaceType"], item["Groups"])
        for item in data["NetworkInterfaces"]
    ]
    group = [world.group.id]
    assert shown == [(0, 0, "efa", group), (1, 1, "efa", group), (2, 1, "efa", group), (3, 1, "efa", group)]
    assert not any(item.get("AssociatePublicIpAddress") for item in data["NetworkInterfaces"])


def test_launch_template_targets_a_capacity_block_without_a_placement_group(
    make: Make, world: World, engine: Engine
) -> None:
    offering = world.block_offering()["capacityBlockOfferingId"]
    block = make(
        "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
        capacityBlockOfferingId=offering,
        instancePlatform="Linux/UNIX",
    )
    data = template_data(
        world,
        make(
            "aws:ec2/launchTemplate:LaunchTemplate",
            instanceType="p5.48xlarge",
            instanceMarketOptions={"marketType": "capacity-block"},
            capacityReservationSpecification={
                "capacityReservationTarget": {"capacityReservationId": block.id}
            },
        ),
    )
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": block.id}
    assert "Placement" not in data
    assert block.state["reservationType"] == "capacity-block"


def test_changed_launch_template_gets_a_new_default_version(make: Make, world: World, engine: Engine) -> None:
    resource = make("aws:ec2/launchTemplate:LaunchTemplate", **template(world))
    assert (resource.state["latestVersion"], resource.state["defaultVersion"]) == (1, 1)
    engine.update(resource, {**template(world), "userData": "c2Vjb25k"})
    assert (resource.state["latestVersion"], resource.state["defaultVersion"]) == (2, 2)
    assert template_data(world, resource, "$Default")["UserData"] == "c2Vjb25k"
    assert template_data(world, resource, "1")["UserData"] != "c2Vjb25k"


def test_tag_change_creates_no_version(make: Make, world: World, engine: Engine) -> None:
    resource = make("aws:ec2/launchTemplate:LaunchTemplate", **template(world))
    planned = engine.update(resource, {**template(world), "tags": {"a": "b"}}, preview=True)
    assert planned["latestVersion"] == 1
    engine.update(resource, {**template(world), "tags": {"a": "b"}})
    assert resource.state["latestVersion"] == 1


def test_security_group_without_egress_blocks_outbound_traffic(make: Make, world: World) -> None:
    group = make("aws:ec2/securityGroup:SecurityGroup", vpcId=world.vpc.id)
    shown = world.client("ec2").describe_security_groups(GroupIds=[group.id])["SecurityGroups"][0]
    assert shown["IpPermissionsEgress"] == []
    assert shown["IpPermissions"] == []
    assert shown["Description"] == "Managed by Pulumi"


def test_efa_group_refers_to_itself_for_all_traffic_in_both_directions(world: World) -> None:
    shown = world.client("ec2").describe_security_groups(GroupIds=[world.group.id])["SecurityGroups"][0]
    for direction in ("IpPermissions", "IpPermissionsEgress"):
        (rule,) = shown[direction]
        assert rule["IpProtocol"] == "-1"
        assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [world.group.id]
        assert rule["IpRanges"] == []


def test_gateway_endpoint_has_a_route_in_each_of_its_tables(make: Make, world: World, engine: Engine) -> None:
    one, two = world.table.id, world.other_table.id
    inputs = {"vpcId": world.vpc.id, "serviceName": S3, "routeTableIds": [one]}
    endpoint = make("aws:ec2/vpcEndpoint:VpcEndpoint", **inputs)
    assert (routes_of(world, one, endpoint), routes_of(world, two, endpoint)) == (1, 0)
    engine.update(endpoint, {**inputs, "routeTableIds": [two]})
    assert (routes_of(world, one, endpoint), routes_of(world, two, endpoint)) == (0, 1)


def routes_of(world: World, table: str, endpoint: Resource) -> int:
    found = world.client("ec2").describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
    return len([route for route in found if route.get("GatewayId") == endpoint.id])


def test_cluster_is_private_encrypted_and_logged(make: Make, world: World) -> None:
    resource = make("aws:eks/cluster:Cluster", **cluster(world))
    shown = world.client("eks").describe_cluster(name=resource.id)["cluster"]
    assert shown["resourcesVpcConfig"]["endpointPublicAccess"] is False
    assert shown["resourcesVpcConfig"]["endpointPrivateAccess"] is True
    assert shown["encryptionConfig"][0]["provider"]["keyArn"] == world.key.state["arn"]
    logged = [set(item["types"]) for item in shown["logging"]["clusterLogging"] if item["enabled"]]
    assert logged == [{"api", "audit"}]
    assert resource.state["identities"][0]["oidcs"][0]["issuer"].startswith("https://")
    assert resource.state["certificateAuthority"]["data"]


def test_node_group_has_labels_taints_and_template(make: Make, world: World) -> None:
    resource = make("aws:eks/nodeGroup:NodeGroup", **node_group(world))
    cluster_name, _, name = resource.id.partition(":")
    shown = world.client("eks").describe_nodegroup(clusterName=cluster_name, nodegroupName=name)["nodegroup"]
    assert shown["labels"] == {"gpu": "a100"}
    assert shown["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    assert shown["launchTemplate"]["id"] == world.template.id
    assert shown["scalingConfig"] == {"minSize": 0, "maxSize": 4, "desiredSize": 0}


def test_node_group_follows_its_launch_template_in_place(make: Make, world: World, engine: Engine) -> None:
    plain = make("aws:ec2/launchTemplate:LaunchTemplate", instanceType="p4d.24xlarge")
    inputs = {**node_group(world), "launchTemplate": {"id": plain.id, "version": "1"}}
    resource = make("aws:eks/nodeGroup:NodeGroup", **inputs)
    engine.update(plain, {"instanceType": "p4d.24xlarge", "userData": "c2Vjb25k"})
    wanted = {**inputs, "launchTemplate": {"id": plain.id, "version": "2"}}
    assert list(engine.diff(resource, wanted).replaces) == []
    engine.update(resource, wanted)
    assert resource.state["launchTemplate"]["version"] == "2"


def test_removed_labels_and_taints_are_deleted(make: Make, world: World, engine: Engine) -> None:
    inputs = {**node_group(world), "labels": {"gpu": "a100", "old": "1"}}
    resource = make("aws:eks/nodeGroup:NodeGroup", **inputs)
    engine.update(resource, {**inputs, "labels": {"gpu": "a100"}, "taints": []})
    cluster_name, _, name = resource.id.partition(":")
    shown = world.client("eks").describe_nodegroup(clusterName=cluster_name, nodegroupName=name)["nodegroup"]
    assert shown["labels"] == {"gpu": "a100"}
    assert not shown.get("taints")


def test_bucket_is_private_and_encrypted(make: Make, world: World) -> None:
    bucket = make("aws:s3/bucket:Bucket")
    switches = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    make(
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        bucket=bucket.id,
        **dict.fromkeys(switches, True),
    )
    default = {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": world.key.state["arn"]}
    make(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        bucket=bucket.id,
        rules=[{"applyServerSideEncryptionByDefault": default, "bucketKeyEnabled": True}],
    )
    s3 = world.client("s3")
    block = s3.get_public_access_block(Bucket=bucket.id)["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True}
    (rule,) = s3.get_bucket_encryption(Bucket=bucket.id)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == world.key.state["arn"]
    assert rule["BucketKeyEnabled"] is True


def test_bucket_with_objects_is_deleted_only_with_force_destroy(engine: Engine, world: World) -> None:
    bucket = engine.create("aws:s3/bucket:Bucket", "full", {})
    world.client("s3").put_object(Bucket=bucket.id, Key="checkpoint", Body=b"weights")
    with pytest.raises(Exception, match="BucketNotEmpty"):
        engine.delete(bucket)
    assert world.client("s3").get_object(Bucket=bucket.id, Key="checkpoint")["Body"].read() == b"weights"
    engine.update(bucket, {"forceDestroy": True})
    engine.delete(bucket)
    assert not engine.refresh(bucket)


def test_file_system_is_encrypted_and_linked_to_its_bucket(make: Make, world: World) -> None:
    shown = world.client("fsx").describe_file_systems(FileSystemIds=[world.file_system.id])["FileSystems"][0]
    assert shown["LustreConfiguration"]["PerUnitStorageThroughput"] == 125
    assert shown["StorageCapacity"] == 1200
    events = ["NEW", "CHANGED", "DELETED"]
    link = make(
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        fileSystemId=world.file_system.id,
        fileSystemPath="/linked",
        dataRepositoryPath=f"s3://{world.bucket.id}/data",
        s3={"autoImportPolicy": {"events": events}, "autoExportPolicy": {"events": events}},
    )
    found = world.client("fsx").describe_data_repository_associations(AssociationIds=[link.id])
    (association,) = found["Associations"]
    assert association["DataRepositoryPath"] == f"s3://{world.bucket.id}/data"
    assert association["S3"]["AutoExportPolicy"]["Events"] == events


def test_budget_alerts_at_each_threshold(make: Make, world: World) -> None:
    alerts = [
        {
            "comparisonOperator": "GREATER_THAN", "notificationType": "ACTUAL", "threshold": threshold,
            "thresholdType": "PERCENTAGE", "subscriberSnsTopicArns": [world.topic.id],
        }
        for threshold in (50, 80, 100)
    ]  # fmt: skip
    budget = make(
        "aws:budgets/budget:Budget", budgetType="COST", timeUnit="MONTHLY", limitAmount="250000",
        limitUnit="USD",
        notifications=alerts,
    )  # fmt: skip
    account, _, name = budget.id.partition(":")
    client = world.client("budgets")
    shown = client.describe_notifications_for_budget(AccountId=account, BudgetName=name)["Notifications"]
    assert sorted(item["Threshold"] for item in shown) == [50, 80, 100]
    limit = client.describe_budget(AccountId=account, BudgetName=name)["Budget"]["BudgetLimit"]
    assert (float(limit["Amount"]), limit["Unit"]) == (250000, "USD")


def test_key_pending_deletion_counts_as_deleted(engine: Engine, world: World) -> None:
    key = engine.create("aws:kms/key:Key", "short", {"deletionWindowInDays": 7})
    engine.delete(key)
    assert world.client("kms").describe_key(KeyId=key.id)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    assert not engine.refresh(key)


def test_resources_are_in_the_region_of_their_region_property(engine: Engine, world: World) -> None:
    topic = engine.create("aws:sns/topic:Topic", "west", {"region": "us-west-2"})
    try:
        assert topic.id.split(":")[3] == "us-west-2"
        assert topic.state["region"] == "us-west-2"
        arns = [item["TopicArn"] for item in world.client("sns").list_topics()["Topics"]]
        assert topic.id not in arns
        assert list(engine.diff(topic, {"region": "us-west-2"}).diffs) == []
        assert list(engine.diff(topic, {}).replaces) == ["region"]
    finally:
        engine.delete(topic)


def test_region_of_the_provider_may_be_given_or_not(engine: Engine, world: World) -> None:
    assert list(engine.diff(world.topic, {"region": "us-east-1"}).diffs) == []


def test_default_tags_reach_aws(engine: Engine, world: World) -> None:
    vpc = world.client("ec2").describe_vpcs(VpcIds=[world.vpc.id])["Vpcs"][0]
    assert {"Key": "team", "Value": "ml-platform"} in vpc["Tags"]
    assert world.vpc.state["tagsAll"] == {"team": "ml-platform"}


def test_policy_may_be_an_object(make: Make, world: World) -> None:
    policy = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}},
    ]}  # fmt: skip
    role = make("aws:iam/role:Role", assumeRolePolicy=policy)
    shown = world.client("iam").get_role(RoleName=role.id)["Role"]["AssumeRolePolicyDocument"]
    assert shown == policy
    assert json.loads(role.state["assumeRolePolicy"]) == policy


def test_update_without_a_difference_completes_an_unfinished_creation(engine: Engine, world: World) -> None:
    bucket = engine.create("aws:s3/bucket:Bucket", "undone", {"bucket": "undone-bucket", "tags": {"a": "b"}})
    world.client("s3").delete_bucket_tagging(Bucket="undone-bucket")
    # State after an interrupted creation: its inputs, and hardly an output.
    bucket.state = {"bucket": "undone-bucket", "id": "undone-bucket"}
    engine.update(bucket, dict(bucket.inputs))
    tags = world.client("s3").get_bucket_tagging(Bucket="undone-bucket")["TagSet"]
    assert {"Key": "a", "Value": "b"} in tags
    engine.delete(bucket)


def test_update_of_a_complete_immutable_resource_does_nothing(engine: Engine, world: World) -> None:
    inputs = {"role": world.node_role.id, "policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"}
    attached = engine.create("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "attached", inputs)
    engine.update(attached, dict(attached.inputs))
    engine.delete(attached)


def test_new_rule_is_read_from_the_answer_of_its_creation(
    make: Make, world: World, engine: Engine, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(side_effect=AssertionError("the rule was described"))
    group = make("aws:ec2/securityGroup:SecurityGroup", vpcId=world.vpc.id)
    handler = handler_for("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    inputs = {
        "securityGroupId": group.id,
        "ipProtocol": "tcp",
        "fromPort": 22,
        "toPort": 22,
        "cidrIpv4": "10.0.0.0/8",
        "description": "ssh",
        "tags": {"team": "ml"},
    }
    aws = Aws(clients, REGION)
    with monkeypatch.context() as patched:
        patched.setattr(aws.client("ec2"), "describe_security_group_rules", read)
        rid = handler.create(aws, inputs)
        made = handler.read(aws, rid, inputs)
    # Later, and in another request, AWS is asked: the rule may have changed.
    assert made == handler.read(aws, rid, inputs) == handler.read(Aws(clients, REGION), rid, inputs)
    assert made is not None
    assert (made["cidrIpv4"], made["description"], made["tags"]) == ("10.0.0.0/8", "ssh", {"team": "ml"})
    handler.delete(aws, rid, inputs)
