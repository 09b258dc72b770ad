"""An emulated account with a network, and groups in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from gpufleet.adopt.account import RegionFacts, read_region
from gpufleet.adopt.cloud import cloud_sites
from gpufleet.adopt.remarks import AdoptedSite
from gpufleet.catalog import load_catalog
from tests.unit.stacks.moto_mocks import emulated_aws

REGION = "us-east-1"
Group = Callable[..., None]
"""Makes an Auto Scaling group of this name, with a launch template of the given data or other sources."""


def client(service: str, region: str = REGION) -> Any:
    return boto3.client(service, region_name=region)


def read() -> RegionFacts:
    return read_region(REGION, client)


def adopted() -> AdoptedSite:
    """The only site of the region."""
    (site,), _ = cloud_sites(read(), load_catalog(), "atlas", "found")
    return site


def remarks_on(site: AdoptedSite, subject: str) -> list[str]:
    return [each.text for each in site.remarks if each.subject == subject]


@pytest.fixture
def account() -> Iterator[None]:
    with emulated_aws():
        yield


@pytest.fixture
def subnets(account: None) -> list[str]:
    """Subnets of a network in two zones."""
    ec2 = client("ec2")
    network = ec2.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    return [
        ec2.create_subnet(
            VpcId=network, CidrBlock=f"10.40.{number}.0/24", AvailabilityZone=f"{REGION}{zone}"
        )["Subnet"]["SubnetId"]
        for number, zone in enumerate("ab")
    ]


@pytest.fixture
def group(subnets: list[str]) -> Group:
    def make(name: str, data: dict[str, Any] | None = None, **source: Any) -> None:
        if data is not None:
            client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
            source = {"LaunchTemplate": {"LaunchTemplateName": name, "Version": "$Latest"}}
        client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=2,
            DesiredCapacity=0,
            VPCZoneIdentifier=subnets[0],
            **source,
        )

    return make
