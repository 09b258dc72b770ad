"""The sandbox environment created in moto: the resulting account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pulumi
import pulumi_aws as aws
import pytest

from gpufleet.adopt.account import read_region
from gpufleet.adopt.cloud import cloud_sites
from gpufleet.adopt.document import fleet_document
from gpufleet.adopt.remarks import AdoptedSite
from gpufleet.catalog import load_catalog
from gpufleet.checks import validate
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import price_plan
from gpufleet.spec.load import load_fleet
from gpufleet.stacks.nodes import running_nodes
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import Recording, record
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws, recorded_actions, simulated_actions

ROOT = Path(__file__).resolve().parents[3]

actions: set[str] = set()
"""The IAM actions of the calls that created the stack."""


@pytest.fixture(scope="module")
def plan() -> FleetPlan:
    return build_plan(load_fleet("sandbox", root=ROOT).spec, load_catalog())


@pytest.fixture(scope="module")
def made(plan: FleetPlan) -> Iterator[Recording]:
    """The registered resources, while the account exists."""
    with emulated_aws():
        with recorded_actions() as found:
            made = record(
                lambda: build_fleet(plan, StackSettings("sandbox", "sandbox", False, None, {}, {})),
                MotoMocks(),
            )
        actions.clear()
        actions.update(found)
        yield made


@pytest.fixture(scope="module")
def ec2(made: Recording) -> Any:
    return boto3.client("ec2", region_name="us-east-1")


def template(ec2: Any, name: str) -> Any:
    """The launch template data of a node group, by the group's Name tag."""
    (found,) = [
        t
        for t in ec2.describe_launch_templates()["LaunchTemplates"]
        if {"Key": "Name", "Value": f"atlas-sandbox-use1-{name}"} in t["Tags"]
    ]
    versions = ec2.describe_launch_template_versions(
        LaunchTemplateId=found["LaunchTemplateId"], Versions=["$Default"]
    )
    return versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]


@pytest.mark.usefixtures("made")
def test_preflight_simulates_the_action_of_every_call_that_creates_the_stack(plan: FleetPlan) -> None:
    assert len(actions) > 80
    assert sorted(actions - simulated_actions(plan)) == []


def test_every_launch_template_requires_imdsv2_and_encrypts_its_volume(ec2: Any) -> None:
    # EKS makes copies of the templates that it launches from: ours are those with our names.
    templates = [
        t
        for t in ec2.describe_launch_templates()["LaunchTemplates"]
        if t["LaunchTemplateName"].startswith("atlas-")
    ]
    assert len(templates) == 6
    for one in templates:
        (version,) = ec2.describe_launch_template_versions(
            LaunchTemplateId=one["LaunchTemplateId"], Versions=["$Default"]
        )["LaunchTemplateVersions"]
        data = version["LaunchTemplateData"]
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


def test_block_group_targets_the_bought_block_without_a_placement_group(ec2: Any) -> None:
    blocks = [
        r
        for r in ec2.describe_capacity_reservations()["CapacityReservations"]
        if r.get("ReservationType") == "capacity-block"
    ]
    assert [b["TotalInstanceCount"] for b in blocks] == [2]
    data = template(ec2, "pretrain")
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target["CapacityReservationId"] == blocks[0]["CapacityReservationId"]
    assert data["InstanceMarketOptions"]["MarketType"] == "capacity-block"
    assert "Placement" not in data


def test_subnets_of_the_block_group_are_in_the_zone_of_the_block(ec2: Any, made: Recording) -> None:
    eks = boto3.client("eks", region_name="us-east-1")
    names = eks.list_nodegroups(clusterName="atlas-sandbox-use1")["nodegroups"]
    (name,) = [n for n in names if n.startswith("atlas-sandbox-use1-pretrain")]
    group = eks.describe_nodegroup(clusterName="atlas-sandbox-use1", nodegroupName=name)["nodegroup"]
    subnets = ec2.describe_subnets(SubnetIds=group["subnets"])["Subnets"]
    assert {s["AvailabilityZone"] for s in subnets} == {"us-east-1a"}
    assert group["capacityType"] == "CAPACITY_BLOCK"


def test_nodes_of_the_block_group_start_and_stop_with_the_block(ec2: Any, made: Recording) -> None:
    (block,) = [
        r
        for r in ec2.describe_capacity_reservations()["CapacityReservations"]
        if r.get("ReservationType") == "capacity-block"
    ]
    scaling = boto3.client("autoscaling", region_name="us-east-1")
    actions = {
        a["ScheduledActionName"].rpartition("-")[2]: a
        for a in scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    }
    assert actions["start"]["StartTime"] == block["StartDate"]
    assert actions["start"]["DesiredCapacity"] == 2
    assert (block["EndDate"] - actions["stop"]["StartTime"]).total_seconds() == 45 * 60
    assert actions["stop"]["DesiredCapacity"] == 0
    assert all(a["AutoScalingGroupName"].startswith("eks-") for a in actions.values())


def test_pretraining_node_has_32_efa_devices_on_as_many_cards(ec2: Any, plan: FleetPlan) -> None:
    interfaces = template(ec2, "pretrain")["NetworkInterfaces"]
    efa = [i for i in interfaces if i["InterfaceType"] in ("efa", "efa-only")]
    assert len({i["NetworkCardIndex"] for i in efa}) == len(efa) == 32
    assert [
        i["InterfaceType"] for i in interfaces if (i["NetworkCardIndex"], i["DeviceIndex"]) == (0, 0)
    ] == ["interface"]
    assert not any(i.get("AssociatePublicIpAddress") for i in interfaces)


def test_efa_group_allows_traffic_only_between_its_members(ec2: Any) -> None:
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "tag:Name", "Values": ["atlas-sandbox-use1-efa"]}]
    )["SecurityGroups"]
    for permissions in (group["IpPermissions"], group["IpPermissionsEgress"]):
        (permission,) = permissions
        assert permission["IpProtocol"] == "-1"
        assert [p["GroupId"] for p in permission["UserIdGroupPairs"]] == [group["GroupId"]]
        assert not permission["IpRanges"]
        assert not permission["Ipv6Ranges"]


def test_no_security_group_is_open_to_the_world(ec2: Any) -> None:
    checked = 0
    for region in ("us-east-1", "us-west-2"):
        client = boto3.client("ec2", region_name=region)
        for group in client.describe_security_groups(
            Filters=[{"Name": "tag:gpufleet:fleet", "Values": ["atlas"]}]
        )["SecurityGroups"]:
            for permission in group["IpPermissions"]:
                assert "0.0.0.0/0" not in [r["CidrIp"] for r in permission["IpRanges"]]
                assert not permission["Ipv6Ranges"]
            checked += 1
    assert checked >= 8


def test_slurm_group_launches_its_node_with_the_fleet_tags(made: Recording, plan: FleetPlan) -> None:
    client = boto3.client("ec2", region_name="us-west-2")
    reservations = client.describe_instances(
        Filters=[{"Name": "tag:gpufleet:node-group", "Values": ["burst"]}]
    )["Reservations"]
    (instance,) = [i for r in reservations for i in r["Instances"]]
    tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
    assert dict(plan.tags).items() <= tags.items()
    assert "PublicIpAddress" not in instance


def test_running_nodes_are_listed_for_the_inventory(made: Recording) -> None:
    group = made.one("aws:autoscaling/group:Group")
    (name,) = made.outputs[made.one("NodeGroup", "atlas-sandbox-usw2-burst").urn]["groupNames"]
    seen: list[Any] = []

    def program() -> None:
        provider = aws.Provider("west", region="us-west-2")
        names = [pulumi.Output.from_input(name)]
        running_nodes("usw2", "burst", names, provider).apply(seen.append)

    record(program, MotoMocks())
    ((node,),) = seen
    assert group.inputs["desiredCapacity"] == 1
    assert (node["site"], node["node_group"], node["user"]) == ("usw2", "burst", "ubuntu")
    assert node["address"].startswith("10.11.")
    assert node["name"] == "ip-" + node["address"].replace(".", "-")


def test_buckets_are_private_encrypted_and_require_tls(made: Recording) -> None:
    s3 = boto3.client("s3", region_name="us-east-1")
    names = [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert sorted(names) == ["atlas-sandbox-artifacts", "atlas-sandbox-datasets"]
    for name in names:
        block = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
        assert set(block.values()) == {True}
        (rule,) = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
        assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
        (statement,) = json.loads(s3.get_bucket_policy(Bucket=name)["Policy"])["Statement"]
        assert statement["Effect"] == "Deny"


def test_cluster_is_private_and_encrypts_its_secrets(made: Recording) -> None:
    cluster = boto3.client("eks", region_name="us-east-1").describe_cluster(name="atlas-sandbox-use1")[
        "cluster"
    ]
    assert cluster["resourcesVpcConfig"]["endpointPublicAccess"] is False
    assert cluster["resourcesVpcConfig"]["endpointPrivateAccess"] is True
    assert cluster["encryptionConfig"][0]["resources"] == ["secrets"]


def test_budget_is_that_of_the_fleet_file(made: Recording, plan: FleetPlan) -> None:
    budgets = boto3.client("budgets", region_name="us-east-1").describe_budgets(AccountId="123456789012")
    (budget,) = budgets["Budgets"]
    assert budget["BudgetName"] == "atlas-sandbox-budget"
    racks = price_plan(plan, load_catalog()).by("site")["lab"].expected
    assert racks > 1000
    # AWS counts only what AWS charges.
    assert float(budget["BudgetLimit"]["Amount"]) == float(int(plan.budget.monthly - racks))


def test_every_key_is_rotated(made: Recording) -> None:
    checked = 0
    for region in ("us-east-1", "us-west-2"):
        kms = boto3.client("kms", region_name=region)
        for key in kms.list_keys()["Keys"]:
            tags = {t["TagKey"] for t in kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]}
            if "gpufleet:fleet" in tags:
                assert kms.get_key_rotation_status(KeyId=key["KeyId"])["KeyRotationEnabled"]
                checked += 1
    assert checked == 9


@pytest.fixture(scope="module")
def adopted(made: Recording) -> list[AdoptedSite]:
    """The sites that `gpufleet adopt` reads in the account."""

    def client(service: str, region: str) -> Any:
        return boto3.client(service, region_name=region)

    sites: list[AdoptedSite] = []
    for region in ("us-east-1", "us-west-2"):
        found, others = cloud_sites(read_region(region, client), load_catalog(), "atlas", "found")
        assert others == []
        sites += found
    return sites


def test_adopted_fleet_file_plans_what_the_account_has(
    plan: FleetPlan, adopted: list[AdoptedSite], tmp_path: Path
) -> None:
    tags = {"team": "ml", "cost-center": "cc-1", "project": "atlas"}
    text = fleet_document(
        "atlas", "found", adopted, (), budget="90000 USD", tags=tags, channel=plan.software_channel
    )
    file = tmp_path / "stacks" / "found" / "fleet.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    again = validate(str(file), root=tmp_path).plan

    def shape(found: FleetPlan) -> list[Any]:
        return [
            (
                *(group.site, group.name, group.instance_types, group.efa, group.network_interfaces),
                *(group.zones, group.placement_group, group.taints, group.volume, group.team),
                *(group.capacity.kind, group.capacity.min, group.capacity.max, group.capacity.desired),
                getattr(group.capacity, "on_demand_fallback", False),
            )
            for group in sorted(found.node_groups, key=lambda group: (group.site, group.name))
        ]

    assert shape(again) == shape(plan)
    for old, new in zip(plan.cloud, again.cloud, strict=True):
        assert (old.site, old.region, old.zones, old.cidr, old.nat, old.scheduler, old.subnets) == (
            *(new.site, new.region, new.zones, new.cidr, new.nat, new.scheduler, new.subnets),
        )
        assert {(item.name, item.deployment, item.capacity_gib, item.throughput) for item in old.lustre} == {
            (item.name, item.deployment, item.capacity_gib, item.throughput) for item in new.lustre
        }


def test_adopted_network_and_its_subnets_are_taken_over_under_the_names_of_the_stack(
    made: Recording, adopted: list[AdoptedSite]
) -> None:
    taken = {
        (each.type, each.name.replace("-found-", "-sandbox-")) for site in adopted for each in site.imports
    }
    networks = ("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet")
    assert taken == {(each.type, each.name) for each in made.resources if each.type in networks}
