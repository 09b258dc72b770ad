"""An emulated account with a launch template and a subnet in each of two zones."""

from __future__ import annotations

from collections.abc import Mapping

import boto3

from gpufleet.lab.aws.faults.plan import Shortage

REGION, KIND, IMAGE = "us-east-1", "g6.xlarge", "ami-12c6146b"
ZONES = (f"{REGION}a", f"{REGION}b")


class TwoZones:
    """The account, and its present shortages. `tags` are those of launched instances."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        self.shortages: tuple[Shortage, ...] = ()
        self.ec2 = boto3.client("ec2", region_name=REGION)
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            self.ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone)[
                "Subnet"
            ]["SubnetId"]
            for number, zone in enumerate(ZONES)
        ]
        reported = [{"Key": key, "Value": value} for key, value in tags.items()]
        self.template = self.ec2.create_launch_template(
            LaunchTemplateName="nodes",
            LaunchTemplateData={
                "ImageId": IMAGE,
                "InstanceType": KIND,
                "TagSpecifications": [{"ResourceType": "instance", "Tags": reported}],
            },
        )["LaunchTemplate"]["LaunchTemplateId"]
