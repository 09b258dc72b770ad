"""Prices of services by usage type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.catalog.usage_prices import USAGES, usage_prices
from tests.unit.catalog.conftest import usage_document

TODAY = dt.date(2026, 11, 21)


def read(*documents: str) -> dict[str, Decimal | None]:
    found = usage_prices(documents, source="account, price list", date=TODAY)
    assert all((price.source, price.date) == ("account, price list", TODAY) for price in found.values())
    return {key: price.amount for key, price in found.items()}


# Usage types, units and prices of AWS's price lists of 2026, as public programs and notes quote them.
@pytest.mark.parametrize(
    ("service", "usage", "usd", "unit", "key", "amount"),
    [
        ("AmazonEC2", "EUN1-NatGateway-Hours", "0.046", "Hrs", "nat-gateway-hour", "0.046"),
        ("AmazonEC2", "USE1-NatGateway-Bytes", "0.045", "GB", "nat-gateway-gb", "0.045"),
        ("AmazonEC2", "EBS:VolumeUsage.gp3", "0.08", "GB-Mo", "ebs-gp3", "0.08"),
        ("AmazonEC2", "APN1-EBS:VolumeP-IOPS.gp3", "0.006", "IOPS-Mo", "ebs-gp3-iops", "0.006"),
        ("AmazonEC2", "APN1-EBS:VolumeP-Throughput.gp3", "49.152", "GiBps-mo", "ebs-gp3-throughput", "0.048"),
        (
            "AmazonEC2",
            "EUC1-EBS:VolumeP-Throughput.gp3",
            "0.0476",
            "MiBps-Mo",
            "ebs-gp3-throughput",
            "0.0476",
        ),
        ("AmazonEC2", "EBS:VolumeP-IOPS.io2", "0.065", "IOPS-Mo", "ebs-io2-iops", "0.065"),
        ("AmazonEC2", "EBS:VolumeP-IOPS.io2.tier2", "0.0455", "IOPS-Mo", "ebs-io2-iops-tier2", "0.0455"),
        (
            "AmazonEC2",
            "APN1-EBS:VolumeP-IOPS.io2.tier3",
            "0.03626",
            "IOPS-Mo",
            "ebs-io2-iops-tier3",
            "0.03626",
        ),
        ("AmazonVPC", "EU-VpcEndpoint-Hours", "0.011", "Hrs", "vpc-endpoint-interface-hour", "0.011"),
        ("AmazonVPC", "VPN-Usage-Hours:ipsec.1", "0.05", "Hrs", "vpn-connection-hour", "0.05"),
        ("AmazonVPC", "EUC1-VPN-Usage-Hours:ipsec.1", "0.05", "Hrs", "vpn-connection-hour", "0.05"),
        ("AmazonVPC", "SAE1-PublicIPv4:InUseAddress", "0.005", "Hrs", "public-ipv4-hour", "0.005"),
        ("AmazonEKS", "EUS2-AmazonEKS-Hours:perCluster", "0.1", "Hrs", "eks-control-plane", "0.1"),
        ("AmazonFSx", "USW2-Storage", "0.14", "GB-Mo", "fsx-lustre-SCRATCH_2", "0.14"),
        ("AmazonFSx", "USW2-Storage.SSD.200", "0.29", "GB-Mo", "fsx-lustre-PERSISTENT_1-200", "0.29"),
        ("AmazonFSx", "USE1-Storage.SSD.125", "0.145", "GB-Mo", "fsx-lustre-PERSISTENT_2-125", "0.145"),
        ("AmazonFSx", "USE1-MetadataIOPS", "0.055", "IOPS-Mo", "fsx-lustre-metadata-iops", "0.055"),
    ],
)
def test_usage_type_of_any_region_has_its_key(
    service: str, usage: str, usd: str, unit: str, key: str, amount: str
) -> None:
    assert read(usage_document(service, usage, usd, unit)) == {key: Decimal(amount)}


@pytest.mark.parametrize(
    ("service", "usage"),
    [
        ("AmazonEC2", "USE1-RegionalNatGateway-Hours"),
        ("AmazonVPC", "USE1-VpcEndpoint-GWLBE-Hours"),
        ("AmazonVPC", "USE1-VpcEndpoint-Resource-Hours"),
        ("AmazonFSx", "EUC1-Storage.SAZ2:SSD"),
        ("AmazonS3", "USE1-Storage"),
        ("AmazonEC2", ""),
    ],
)
def test_other_usage_types_are_skipped(service: str, usage: str) -> None:
    assert read(usage_document(service, usage, "1")) == {}


def test_extended_support_is_the_sum_of_the_hour_and_its_surcharge() -> None:
    hour = usage_document("AmazonEKS", "USE1-AmazonEKS-Hours:perCluster", "0.1")
    surcharge = usage_document("AmazonEKS", "USE1-AmazonEKS-Hours:extendedSupport", "0.5")
    assert read(surcharge, hour)["eks-control-plane-extended"] == Decimal("0.6")
    assert "eks-control-plane-extended" not in read(surcharge)


def test_first_tier_counts_and_a_price_of_0_is_unknown() -> None:
    tiers = (("100000", "0.03"),)
    assert read(usage_document("AmazonEC2", "EBS:VolumeUsage.io2", "0.125", "GB-Mo", tiers=tiers)) == {
        "ebs-io2": Decimal("0.125")
    }
    assert read(usage_document("AmazonEC2", "NatGateway-Hours", "0")) == {}


def test_addresses_of_dns_endpoints_have_their_own_usage_type() -> None:
    """The amount of the other usage type is made up."""
    ordinary = usage_document("AmazonRoute53", "EU-ResolverNetworkInterface", "0.125", "Hrs")
    other = usage_document("AmazonRoute53", "EU-ResolverNetworkInterface-SecurityEnabled", "8", "Hrs")
    assert read(ordinary, other) == {"resolver-endpoint-hour": Decimal("0.125")}


def test_every_usage_has_a_price_in_the_catalog_and_its_unit() -> None:
    catalog = load_catalog()
    tiers = {tier.price_key: tier.prices for tier in catalog.lustre_tiers}
    for key, usage in USAGES.items():
        prices = tiers[key] if key in tiers else catalog.services[key].prices
        assert prices, key
        assert {price.unit for price in prices.values()} <= {usage.unit}, key
