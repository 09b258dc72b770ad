"""Quotas: what a fleet needs at maximum, what others use, and the request."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from gpufleet.account.needs import region_needs
from gpufleet.account.quota_table import vcpu_quota
from gpufleet.account.quotas import quota_needs
from gpufleet.catalog import load_catalog
from tests.unit.lab.two_zones import IMAGE

from .conftest import OWN_TAGS, REGION, Account, check, fleet, group, only

G = "L-DB2E81BA"
LUSTRE = {
    "name": "scratch",
    "lustre": {"capacity": "4.8 TiB", "throughput": "250 MB/s/TiB", "zone": "us-east-1a"},
}


def needs(*groups: dict[str, Any], **site: Any) -> dict[str, tuple[int, int]]:
    """Code -> what the fleet needs now and at maximum."""
    (region,) = region_needs(fleet(*groups, **site))
    return {need.quota.code: (need.now, need.most) for need in quota_needs(region, load_catalog())}


@pytest.mark.parametrize(
    ("kind", "market", "code"),
    [
        ("p5.48xlarge", "on-demand", "L-417A185B"),
        ("p6-b200.48xlarge", "on-demand", "L-417A185B"),
        ("g6e.2xlarge", "on-demand", "L-DB2E81BA"),
        ("gr6.4xlarge", "on-demand", "L-DB2E81BA"),
        ("m7i.large", "on-demand", "L-1216C47A"),
        ("trn1.32xlarge", "on-demand", "L-2C3B7624"),
        ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ("p5en.48xlarge", "spot", "L-C4BD4855"),
        ("g6.xlarge", "spot", "L-3819A6DF"),
        ("c7i.large", "spot", "L-34B43A08"),
    ],
)
def test_type_counts_for_the_quota_of_its_family_and_market(kind: str, market: str, code: str) -> None:
    quota = vcpu_quota(kind, market)
    assert quota is not None
    assert quota.code == code


@pytest.mark.parametrize(
    ("kind", "market"), [("p6-b200.48xlarge", "spot"), ("dl1.24xlarge", "on-demand"), ("x2idn.large", "spot")]
)
def test_family_without_a_known_quota_has_none(kind: str, market: str) -> None:
    assert vcpu_quota(kind, market) is None


def test_group_needs_the_vcpus_of_all_its_nodes() -> None:
    assert needs(group("g6.xlarge"))[G] == (8, 16)
    two = [group("g6.xlarge"), group("g6.2xlarge", name="more")]
    assert needs(*two)[G] == (8 + 16, 16 + 32)


def test_group_of_several_types_needs_the_largest() -> None:
    assert needs(group(instance_types=["g6.xlarge", "g6.4xlarge"]))[G] == (32, 64)


def test_spot_group_with_a_fallback_needs_both_quotas_at_maximum() -> None:
    spot = {"spot": {"min": 0, "max": 4, "desired": 1, "on_shortage": ["on-demand"]}}
    found = needs(group("g6.xlarge", capacity=spot))
    assert found["L-3819A6DF"] == (4, 16)
    assert found[G] == (0, 16)
    alone = {"spot": {"min": 0, "max": 4}}
    assert G not in needs(group("g6.xlarge", capacity=alone))


def test_capacity_blocks_and_named_reservations_need_no_vcpus() -> None:
    block = {"reserved": {"capacity_block": {"nodes": 2, "duration": "1 d", "start": "in 14 d"}}}
    identity = {"id": "cr-0123456789abcdef0", "instance_type": "p5.48xlarge", "zone": "us-east-1a"}
    held = {"reserved": {"odcr": {"nodes": 2, **identity}}}
    for capacity in (block, held):
        assert "L-417A185B" not in needs(group("p5.48xlarge", zones=["us-east-1a"], capacity=capacity))
    made = {"reserved": {"odcr": {"nodes": 2, "zone": "us-east-1a"}}}
    assert needs(group("p5.48xlarge", zones=["us-east-1a"], capacity=made))["L-417A185B"] == (384, 384)


def test_site_needs_its_network_file_systems_and_cluster() -> None:
    found = needs(group(), storage=[LUSTRE], network={"cidr": "10.40.0.0/16", "nat": "per-zone"})
    assert found["L-F678F1CE"] == (1, 1)
    assert found["L-0263D0A3"] == (2, 2)
    assert found["L-FD6F2F22"] == (1, 1)
    assert found["L-8F1B9C74"] == (4800, 4800)
    assert "L-1194D53C" not in found
    cluster = needs(group(), scheduler="kubernetes")
    assert cluster["L-1194D53C"] == (1, 1)
    assert cluster["L-6D54EA21"] == (2, 2)
    assert cluster["L-BD136A63"][1] >= 4


def test_node_pools_of_karpenter_and_nodes_of_others_are_in_no_managed_node_group() -> None:
    karpenter = {"private_cidrs": ["10.60.0.0/24"], "autoscaler": {"kind": "karpenter"}}
    spot = {"spot": {"min": 0, "max": 1000, "on_shortage": ["on-demand"]}}
    pool = group("g6.xlarge", capacity=spot)
    found = needs(pool, scheduler="kubernetes", kubernetes=karpenter)
    managed = needs(pool, scheduler="kubernetes")
    assert (found["L-6D54EA21"], managed["L-6D54EA21"]) == ((1, 1), (3, 3))
    assert found["L-BD136A63"][1] < 1000 == managed["L-BD136A63"][1]
    assert found[G] == managed[G]
    odcr = {"nodes": 2, "zone": "us-east-1a", "shared_nodes": 9, "share_with": ["1" * 12]}
    reserved = group("p5.48xlarge", zones=["us-east-1a"], capacity={"reserved": {"odcr": odcr}})
    shared = needs(reserved, scheduler="kubernetes")
    assert shared["L-BD136A63"][1] < 9


VPN = {"cidr": "10.40.0.0/16", "vpn": {"gateway": "203.0.113.7", "networks": ["10.60.0.0/22"]}}
VPN_CODES = ("L-3E6EC3A3", "L-7029FAB6", "L-4FB7FF5D")


def test_vpn_needs_a_connection_and_both_gateways() -> None:
    found = needs(group(), network=VPN)
    assert [found[code] for code in VPN_CODES] == [(1, 1)] * 3
    assert not set(VPN_CODES) & set(needs(group()))


def test_vpn_resources_of_others_count_until_they_are_deleted(account: Account) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    for address in ("198.51.100.1", "198.51.100.2"):
        customer = ec2.create_customer_gateway(Type="ipsec.1", IpAddress=address, BgpAsn=65001)
        gateway = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    ends = {"CustomerGatewayId": customer["CustomerGateway"]["CustomerGatewayId"], "VpnGatewayId": gateway}
    made = ec2.create_vpn_connection(Type="ipsec.1", **ends)["VpnConnection"]["VpnConnectionId"]
    ec2.delete_vpn_connection(VpnConnectionId=made)
    assert [each["State"] for each in ec2.describe_vpn_connections()["VpnConnections"]] == ["deleted"]
    ec2.create_vpn_connection(Type="ipsec.1", **ends)
    ec2.create_tags(Resources=[gateway], Tags=OWN_TAGS)
    found = check(account.preflight(fleet(group(), network=VPN)), "quotas")
    used = {fact["code"]: fact["used_by_others"] for fact in found.facts}
    assert [used[code] for code in VPN_CODES] == [1, 1, 2]


def test_quota_below_the_present_need_is_an_error_with_its_request(account: Account) -> None:
    account.quota(G, 4)
    found = only(account.preflight(fleet(group())), "quota")
    assert found.severity == "error"
    assert "Running On-Demand G and VT instances (L-DB2E81BA) is 4 in us-east-1" in found.message
    assert "use1/nodes need 16 vCPUs at maximum, 8 of them now" in found.message
    assert found.request == (
        "aws service-quotas request-service-quota-increase --region us-east-1 --service-code ec2 "
        "--quota-code L-DB2E81BA --desired-value 16"
    )
    assert found.path == ("cloud", 0, "node_groups", 0)


@pytest.mark.parametrize(("value", "status"), [(15, "missing"), (16, "pass")])
def test_quota_below_the_maximum_only_is_a_warning(account: Account, value: int, status: str) -> None:
    account.quota(G, value)
    found = account.preflight(fleet(group()))
    assert found.status == status
    assert [each.severity for each in found.findings] == (["warning"] if status == "missing" else [])


def launch(kind: str, count: int, tags: list[dict[str, str]] | None = None) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    marks = [{"ResourceType": "instance", "Tags": tags}] if tags else []
    ec2.run_instances(
        ImageId=IMAGE, InstanceType=kind, MinCount=count, MaxCount=count, TagSpecifications=marks
    )


def test_instances_of_others_use_the_quota_and_those_of_the_fleet_do_not(account: Account) -> None:
    account.quota(G, 20)
    launch("g6.xlarge", 1, OWN_TAGS)
    launch("m5.large", 3)
    assert account.preflight(fleet(group())).status == "pass"
    launch("g6.xlarge", 2)
    found = only(account.preflight(fleet(group())), "quota")
    assert "others use 8" in found.message
    assert "--desired-value 24" in found.request


def test_unused_reservation_of_others_uses_the_quota(account: Account) -> None:
    account.quota(G, 20)
    ec2 = boto3.client("ec2", region_name=REGION)
    held = {"InstanceType": "g6.xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-east-1a"}
    ec2.create_capacity_reservation(InstanceCount=2, **held)
    assert "others use 8" in only(account.preflight(fleet(group())), "quota").message


def test_networks_addresses_clusters_and_file_systems_of_others_count(account: Account) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    ec2.allocate_address(Domain="vpc")
    vpcs = len(ec2.describe_vpcs()["Vpcs"])
    network = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    own = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    ec2.create_tags(Resources=[own], Tags=OWN_TAGS)
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    boto3.client("fsx", region_name=REGION).create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=2400,
        SubnetIds=[subnet],
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    )
    found = check(account.preflight(fleet(group(), storage=[LUSTRE])), "quotas")
    used = {fact["code"]: fact["used_by_others"] for fact in found.facts}
    assert used["L-0263D0A3"] == 1
    assert used["L-F678F1CE"] == vpcs + 1
    assert used["L-FD6F2F22"] == 1
    assert used["L-8F1B9C74"] == 2400


def test_quota_without_an_applied_value_has_the_default(account: Account) -> None:
    account.refused = {"service-quotas:GetServiceQuota": "NoSuchResourceException"}
    found = account.preflight(fleet(group()))
    assert {each.value for each in found.findings} == {0.0}
    assert check(found, "quotas").unchecked == ()


def test_quota_that_the_region_lacks_is_not_checked(account: Account) -> None:
    account.refused = {
        "service-quotas:GetServiceQuota": "NoSuchResourceException",
        "service-quotas:GetAWSDefaultServiceQuota": "NoSuchResourceException",
    }
    assert check(account.preflight(fleet(group())), "quotas").status == "not-checked"


def test_type_without_a_known_quota_is_not_checked(account: Account) -> None:
    spot = {"spot": {"min": 0, "max": 1}}
    found = check(account.preflight(fleet(group("p6-b200.48xlarge", capacity=spot))), "quotas")
    assert any("no spot quota of p6-b200.48xlarge is known" in each for each in found.unchecked)


def test_dns_endpoints_count_against_their_quota(account: Account) -> None:
    dns = {"forward": [{"domain": "corp.example", "servers": ["10.60.0.53"]}], "inbound": True}
    assert needs(group(), network=VPN | {"dns": dns})["L-4A669CC0"] == (2, 2)
    assert needs(group(), network=VPN | {"dns": {"inbound": True}})["L-4A669CC0"] == (1, 1)
    assert "L-4A669CC0" not in needs(group(), network=VPN)
    endpoints = [{"Name": "atlas-prod-use1-dns-inbound"}, {"Name": "hall"}, {}]
    account.answers["route53resolver:ListResolverEndpoints"] = lambda _: {"ResolverEndpoints": endpoints}
    found = check(account.preflight(fleet(group(), network=VPN | {"dns": dns})), "quotas")
    (fact,) = [each for each in found.facts if each["code"] == "L-4A669CC0"]
    assert (fact["applied"], fact["used_by_others"], fact["needed_now"]) == (4, 2, 2)
