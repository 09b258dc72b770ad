"""Tags of an EC2 resource are those that moto's own search finds."""

from __future__ import annotations

import boto3
from moto import mock_aws
from moto.ec2.models import ec2_backends

from gpufleet.lab.aws.backends import install_service


@mock_aws
def test_tags_of_a_resource_are_those_that_a_search_finds() -> None:
    install_service("ec2")
    client = boto3.client("ec2", region_name="us-east-1")
    made = [client.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"] for number in range(3)]
    client.create_tags(Resources=made[:2], Tags=[{"Key": "Name", "Value": "a"}, {"Key": "b", "Value": ""}])
    ((_, backends),) = ec2_backends.items()
    backend = backends["us-east-1"]
    for name, count in zip(made, (2, 2, 0), strict=True):
        found = backend.vpcs[name].get_tags()
        assert found == backend.describe_tags(filters={"resource-id": [name]})
        assert len(found) == count
