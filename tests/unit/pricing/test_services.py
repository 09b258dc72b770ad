"""Storage, control planes, gateways, addresses and keys; regions; and types without a price."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policy import examples
from gpufleet.pricing import price_stack
from gpufleet.pricing.by_use import TRAFFIC
from gpufleet.pricing.lustre import BACKUPS
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import CLUSTER, LUSTRE, VOLUME
from tests.unit.pricing.stacks import CATALOG, amounts, cost, scaling_group, template, why_unknown

NAT = "aws:ec2/natGateway:NatGateway"
EIP = "aws:ec2/eip:Eip"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
VPN = "aws:ec2/vpnConnection:VpnConnection"
RESOLVER = "aws:route53/resolverEndpoint:ResolverEndpoint"
KEY = "aws:kms/key:Key"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"


def one(kind: str, region: str = "us-east-1", **props: Any) -> dict[str, Any]:
    return {"type": kind, "name": "one", "region": region, "props": props}


@pytest.mark.parametrize(
    ("described", "monthly"),
    [
        (one(NAT), "32.85"),
        (one(EIP), "3.65"),
        (one(EIP, region="eu-west-1"), "3.65"),
        (one(KEY, region="ap-south-1"), "1"),
        (one(ENDPOINT, vpcEndpointType="Interface", subnetIds=["a", "b"]), "14.60"),
        (one(ENDPOINT, vpcEndpointType="Interface", subnetIds=[UNKNOWN, UNKNOWN]), "14.60"),
        (one(VPN, staticRoutesOnly=True), "43.80"),
        (one(VPN, enableAcceleration=False), "43.80"),
        (one(CLUSTER, upgradePolicy={"supportType": "STANDARD"}), "73"),
        (one(CLUSTER, upgradePolicy={"supportType": "STANDARD"}, version="latest"), "73"),
        (one(EIP, publicIpv4Pool=""), "3.65"),
        (one(EIP, publicIpv4Pool="amazon"), "3.65"),
        (one(EIP, publicIpv4Pool=UNKNOWN), "3.65"),
        (one(ENDPOINT, vpcEndpointType="Interface", subnetConfigurations=[{}, {}]), "14.60"),
        (one(ENDPOINT, vpcEndpointType="Interface", subnetIds=["a"], subnetConfigurations=[{}, {}]), "7.30"),
        (one(VOLUME, size=100, type="gp3"), "8"),
        (one(VOLUME, size=100, type="io2", iops=1000), "77.5"),
        (one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=1200), "168"),
        (
            one(LUSTRE, deploymentType="PERSISTENT_2", perUnitStorageThroughput=125, storageCapacity=2400),
            "348",
        ),
    ],
)
def test_monthly_services_have_their_price(described: dict[str, Any], monthly: str) -> None:
    found = cost(described)
    (line,) = found.lines
    assert (line.minimum, line.expected, line.maximum) == (Decimal(monthly),) * 3
    assert line.source
    assert line.basis


@pytest.mark.parametrize(("zones", "what"), [(1, "in 1 zone"), (2, "in 2 zones")])
def test_line_of_an_endpoint_says_in_how_many_zones_it_is(zones: int, what: str) -> None:
    found = cost(one(ENDPOINT, vpcEndpointType="Interface", subnetIds=["a", "b"][:zones]))
    assert [line.what for line in found.lines] == [f"VPC interface endpoint {what}"]


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (one(NAT, region="us-gov-west-1"), "NAT gateway in us-gov-west-1"),
        (one(NAT, availabilityMode="regional"), "regional"),
        (one(VPN, enableAcceleration=True), "accelerated VPN"),
        (one(VPN, region="us-gov-west-1"), "VPN connection in us-gov-west-1"),
        (one(RESOLVER, ipAddresses=UNKNOWN), "ipAddresses"),
        (one(ENDPOINT, vpcEndpointType="Interface", subnetIds=UNKNOWN), "subnetIds"),
        (one(ENDPOINT, vpcEndpointType="Interface"), "number of its zones is not known"),
        (one(ENDPOINT, vpcEndpointType=UNKNOWN), "vpcEndpointType"),
        (one(ENDPOINT, vpcEndpointType="GatewayLoadBalancer"), "GatewayLoadBalancer"),
        (one(VOLUME, size=UNKNOWN, type="gp3"), "size"),
        (one(VOLUME, snapshotId="snap-1", type="gp3"), "snapshot"),
        (one(VOLUME, size=10), "gp2"),
        (one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=UNKNOWN), "storageCapacity"),
        (one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=0), "of 0"),
        (one(LUSTRE, deploymentType="PERSISTENT_2", storageCapacity=1200), "throughput"),
        (one(LUSTRE, storageCapacity=1200), "SCRATCH_1"),
        (
            one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=1200, throughputCapacity=4000),
            "throughput capacity",
        ),
        (one("aws:eks/addon:Addon"), "the add-on not set"),
        (one("kubernetes:apps/v1:Deployment", spec=UNKNOWN), "volumeClaimTemplate"),
        (
            one(LUSTRE, deploymentType="PERSISTENT_1", storageCapacity=6000, storageType="HDD"),
            "storage type HDD",
        ),
        (
            one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=1200)
            | {"options": {"ignoreChanges": ["storageCapacity"]}},
            "are ignored",
        ),
        (one(CLUSTER, controlPlaneScalingConfig={"tier": "tier-xl"}), "tier-xl"),
        (one("aws:eks/addon:Addon", addonName="kubecost_kubecost"), "vendor"),
        (one("aws:eks/addon:Addon", addonName=UNKNOWN), "addonName"),
        (one("aws:rds/instance:Instance"), "aws:rds/instance:Instance"),
        (one("aws:sagemaker/endpoint:Endpoint"), "aws:sagemaker/endpoint:Endpoint"),
        (one("aws:ec2/dedicatedHost:DedicatedHost"), "DedicatedHost"),
        (one("kubernetes:karpenter.sh/v1:NodePool"), "Karpenter"),
        (one("kubernetes:core/v1:Service", spec={"type": "LoadBalancer"}), "load balancer"),
        (one("kubernetes:core/v1:Service", spec=UNKNOWN), "load balancer"),
        (one("kubernetes:core/v1:ServicePatch", spec={"type": "LoadBalancer"}), "load balancer"),
        (one("kubernetes:networking.k8s.io/v1:Ingress"), "load balancer"),
        (one("kubernetes:networking.k8s.io/v1beta1:IngressPatch"), "load balancer"),
        (one("kubernetes:extensions/v1beta1:Ingress"), "load balancer"),
        (one("kubernetes:gateway.networking.k8s.io/v1:Gateway"), "load balancer"),
        (one("kubernetes:karpenter.sh/v1:NodePoolPatch"), "Karpenter"),
        (one(CLAIM, spec={"resources": {"requests": {"storage": "64Ti"}}}), "a claim creates a volume"),
        (one(CLAIM, spec=UNKNOWN), "a claim creates a volume"),
        (one(CLAIM, spec={"storageClassName": "fast", "volumeName": UNKNOWN}), "a claim creates a volume"),
        (one("kubernetes:apps/v1:StatefulSet", spec={"volumeClaimTemplates": [{}]}), "volumeClaimTemplate"),
        (
            one("kubernetes:apps/v1:StatefulSet", spec={"volumeClaimTemplates": UNKNOWN}),
            "volumeClaimTemplate",
        ),
        (
            one(
                "kubernetes:batch/v1:CronJob",
                spec={"jobTemplate": {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}},
            ),
            "volumeClaimTemplate",
        ),
    ],
)
def test_service_without_a_price_is_unknown_with_a_reason(described: dict[str, Any], reason: str) -> None:
    assert reason in why_unknown(cost(described))


@pytest.mark.parametrize(
    "described",
    [
        one("aws:ec2/vpc:Vpc"),
        one("aws:iam/role:Role"),
        one("aws:budgets/budget:Budget"),
        one(ENDPOINT, vpcEndpointType="Gateway"),
        one(ENDPOINT),
        one("random:index/randomPet:RandomPet", spec=UNKNOWN),
        one(CLAIM, spec={"storageClassName": ""}),
        one(CLAIM, spec={"volumeName": "shared"}),
        one("kubernetes:apps/v1:DaemonSet", spec={"template": {"spec": {"hostname": "node"}}}),
        one(EIP, publicIpv4Pool="ipv4pool-ec2-012345"),
        one("aws:eks/addon:Addon", addonName="coredns"),
        one("kubernetes:core/v1:Service", spec={"type": "ClusterIP"}),
        one("kubernetes:core/v1:ServicePatch", spec={"ports": []}),
        one("kubernetes:apps/v1:DaemonSet", spec={"template": {"spec": {"volumes": [{"hostPath": {}}]}}}),
        one(CLAIM, spec={"storageClassName": "", "volumeName": "shared"}),
        one("kubernetes:core/v1:Namespace"),
        one("kubernetes:core/v1:Service", spec={"type": "ClusterIP"}),
        one("gpufleet:network:Network"),
        one("pulumi:pulumi:Stack"),
    ],
)
def test_free_service_has_no_line(described: dict[str, Any]) -> None:
    assert cost(described).lines == ()


def test_usage_based_service_is_described_once() -> None:
    found = cost(one("aws:s3/bucket:Bucket"), one("aws:s3/bucketV2:BucketV2") | {"name": "two"})
    assert found.lines == ()
    assert found.not_counted == ("objects in S3 buckets, and requests to them",)


@pytest.mark.parametrize(("days", "left_out"), [(None, False), (0, False), (7, True)])
def test_backups_of_a_file_system_are_paid_by_use(days: int | None, left_out: bool) -> None:
    scratch = {"deploymentType": "SCRATCH_2", "storageCapacity": 1200, "throughputCapacity": 0}
    found = cost(one(LUSTRE, automaticBackupRetentionDays=days, **scratch))
    assert (BACKUPS in found.not_counted) is left_out
    assert TRAFFIC in found.not_counted
    assert found.total.expected == 168


def test_resources_of_other_packages_are_unknown_and_components_are_not() -> None:
    provider = examples.resource({"type": "aws:ec2/vpc:Vpc"}).provider
    foreign = replace(examples.resource(one("gcp:compute/instance:Instance")), provider=provider)
    found = price_stack(examples.stack([]).__class__([foreign]), CATALOG)
    assert "package gcp" in why_unknown(found)
    assert cost(one("awsx:ec2:Vpc")).lines == ()


def test_extended_support_costs_more_unless_the_cluster_disables_it() -> None:
    allowed = amounts(cost(one(CLUSTER, version="1.35")), "control-plane")
    assert allowed == (Decimal("73.00"), Decimal("73.00"), Decimal("438.00"))
    for current in ({}, {"version": "1.34"}):
        assert amounts(cost(one(CLUSTER, **current)), "control-plane") == allowed
    for version in ("1.33", "1.21"):
        assert amounts(cost(one(CLUSTER, version=version)), "control-plane")[1] == Decimal("438.00")
    unknown = replace(CATALOG, locks={})
    (line,) = price_stack(examples.stack([one(CLUSTER, version="1.21")]), unknown).lines
    assert line.expected == Decimal("73.00")


def test_cost_of_nodes_of_eks_auto_mode_is_unknown() -> None:
    found = cost(one(CLUSTER, computeConfig={"enabled": True}, upgradePolicy={"supportType": "STANDARD"}))
    assert "Auto Mode" in why_unknown(found)


def test_metadata_iops_above_those_included_cost() -> None:
    metadata = {"mode": "USER_PROVISIONED", "iops": 6000}
    found = cost(
        one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=1200, metadataConfiguration=metadata)
    )
    capacity, iops = found.lines
    assert capacity.expected == 168
    # 0.055 USD comes from a weak source: it counts with the margin of an estimate.
    assert iops.expected == 4500 * Decimal("0.055") * Decimal("1.35") == iops.maximum > iops.minimum
    assert iops.estimated
    included = {"mode": "USER_PROVISIONED", "iops": 1500}
    found = cost(
        one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=1200, metadataConfiguration=included)
    )
    assert found.total.expected == 168
    automatic = {"mode": "AUTOMATIC", "iops": 6000}
    found = cost(
        one(LUSTRE, deploymentType="SCRATCH_2", storageCapacity=1200, metadataConfiguration=automatic)
    )
    assert found.total.expected == 168


@pytest.mark.parametrize(
    ("region", "own", "known"),
    [
        ("us-east-1", "us-gov-west-1", False),
        ("us-gov-west-1", "us-east-1", True),
        ("us-east-1", UNKNOWN, False),
    ],
)
def test_region_of_a_resource_overrides_its_provider(region: str, own: Any, known: bool) -> None:
    (line,) = cost(one(NAT, region=region, **{}) | {"props": {"region": own}}).lines
    assert line.known is known


def test_default_region_counts_and_without_one_the_cost_is_unknown() -> None:
    bare = replace(examples.resource(one(NAT)), provider=None)
    stack = examples.stack([]).__class__([bare])
    assert price_stack(stack, CATALOG, default_region="us-east-1").unknown == ()
    assert "region" in why_unknown(price_stack(stack, CATALOG))


def test_catalog_price_of_zero_is_unknown() -> None:
    service = CATALOG.services["nat-gateway-hour"]
    price = service.prices["us-east-1"].model_copy(update={"amount": Decimal(0)})
    free = service.model_copy(update={"prices": {"us-east-1": price}})
    catalog = replace(CATALOG, services={**CATALOG.services, "nat-gateway-hour": free})
    assert "price of 0" in why_unknown(price_stack(examples.stack([one(NAT)]), catalog))


@pytest.mark.parametrize(
    "described",
    [
        (template(blockDeviceMappings=7), scaling_group()),
        (template(networkInterfaces=7), scaling_group()),
        (one(VOLUME, size=[1], type="gp3"),),
        (template(), scaling_group(mixedInstancesPolicy="all")),
    ],
)
def test_malformed_inputs_are_unknown(described: tuple[dict[str, Any], ...]) -> None:
    assert cost(*described).unknown != ()


def test_lines_are_in_the_same_order_however_resources_were_registered() -> None:
    described = [one(NAT) | {"name": f"nat-{number}"} for number in range(3)] + [one(KEY)]
    found = [price_stack(examples.stack(each), CATALOG).lines for each in (described, described[::-1])]
    assert found[0] == found[1]
