# mypy: ignore-errors
# Another environment runs this one, with other libraries.
"""The validators of aws-parallelcluster over generated clusters, run by a Python that has it.

`python parallelcluster_peer.py <queues> <rounds>` prints JSON: `parse`, `schema` and `validate`, each a
list of seconds. The clients that its validators use for AWS are replaced by immediate
responses, so AWS costs no time; a request without a prepared response, or a verdict against the
cluster, ends the run, so that no partial run is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import ClassVar

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

import yaml
from pcluster.aws import aws_api
from pcluster.aws.aws_resources import ImageInfo, InstanceTypeInfo
from pcluster.config.common import ValidatorContext
from pcluster.schemas.cluster_schema import ClusterSchema

SUBNET = "subnet-0123456789abcdef0"
HEAD = """\
Region: us-east-1
Image: {Os: ubuntu2204}
Tags:
  - {Key: team, Value: bench}
  - {Key: cost-center, Value: cc-1}
  - {Key: project, Value: bench}
HeadNode:
  InstanceType: c6i.4xlarge
  Networking: {SubnetId: subnet-0123456789abcdef0}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
"""
QUEUE = """\
    - Name: group-%04d
      CapacityType: ONDEMAND
      Networking: {SubnetIds: [subnet-0123456789abcdef0]}
      ComputeResources:
        - Name: nodes
          Instances: [{InstanceType: g6e.2xlarge}]
          MinCount: 0
          MaxCount: 4
"""


TYPES = {
    "c6i.4xlarge": {"vcpus": 16, "memory": 32768, "gpus": []},
    "g6e.2xlarge": {"vcpus": 8, "memory": 65536, "gpus": [{"Manufacturer": "NVIDIA", "Count": 1}]},
}
IMAGE = {
    "ImageId": "ami-0123456789abcdef0",
    "Name": "image",
    "Architecture": "x86_64",
    "State": "available",
    "CreationDate": "2026-01-01T00:00:00.000Z",
    "Tags": [],
    "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 40, "SnapshotId": "snap-1"}}],
}


class SilentClient:
    """A client without responses that records its calls."""

    asked: ClassVar[list[str]] = []

    def __getattr__(self, name):
        self.asked.append(f"{type(self).__name__}.{name}")
        raise AttributeError(name)


class Ec2(SilentClient):
    """The EC2 requests of the validators for these clusters."""

    def __init__(self):
        self._types = {name: InstanceTypeInfo(_type_data(name, **known)) for name, known in TYPES.items()}

    def list_instance_types(self):
        return list(TYPES)

    def describe_capacity_reservations(self, _ids):
        return []

    def get_instance_type_info(self, name):
        return self._types[name]

    def get_supported_architectures(self, _name):
        return ["x86_64"]

    def get_subnet_avail_zone(self, _subnet):
        return "us-east-1a"

    def get_subnets_az_mapping(self, subnets):
        return dict.fromkeys(subnets, "us-east-1a")

    def get_subnet_vpc(self, _subnet):
        return "vpc-0123456789abcdef0"

    def get_subnet_cidr(self, _subnet):
        return "10.0.0.0/16"

    def describe_subnets(self, subnets):
        return [
            {"SubnetId": subnet, "VpcId": "vpc-1", "AvailableIpAddressCount": 60000} for subnet in subnets
        ]

    def is_subnet_public(self, _subnet):
        return False

    def is_enable_dns_support(self, _vpc):
        return True

    def is_enable_dns_hostnames(self, _vpc):
        return True

    def get_official_image_id(self, *_args, **_more):
        return IMAGE["ImageId"]

    def describe_image(self, *_args, **_more):
        return ImageInfo(IMAGE)

    def get_supported_az_for_instance_types(self, names):
        return dict.fromkeys(names, ("us-east-1a",))

    def get_supported_az_for_instance_type(self, _name):
        return ("us-east-1a",)

    def run_instances(self, **_more):
        return None


def _type_data(name, vcpus, memory, gpus):
    return {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "VCpuInfo": {"DefaultVCpus": vcpus, "DefaultCores": vcpus // 2, "DefaultThreadsPerCore": 2},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "MemoryInfo": {"SizeInMiB": memory},
        "NetworkInfo": {
            "EfaSupported": False,
            "MaximumNetworkCards": 1,
            "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 4}],
        },
        "GpuInfo": {"Gpus": gpus},
        "EbsInfo": {"EbsOptimizedSupport": "default"},
        "InstanceStorageSupported": False,
    }


def answer_at_once():
    """Replace AWS by the prepared responses."""
    api = aws_api.AWSApi()
    for name in vars(api):
        if name.startswith("_"):
            setattr(api, name, type(name, (SilentClient,), {})())
    api._ec2 = Ec2()
    aws_api.AWSApi._instance = api


def main(queues, rounds):
    """Parse, load into the schema, validate: each timed separately, after a warm-up run."""
    answer_at_once()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    text = HEAD + "".join(QUEUE % index for index in range(queues))
    took = {"parse": [], "schema": [], "validate": []}
    for _ in range(rounds + 1):
        times = [time.perf_counter()]
        parsed = yaml.safe_load(text)
        times.append(time.perf_counter())
        config = ClusterSchema(cluster_name="bench").load(parsed)
        times.append(time.perf_counter())
        verdicts = config.validate(context=ValidatorContext())
        times.append(time.perf_counter())
        wrong = [f"{item.validator_type}: {item.message}" for item in verdicts if item.level.name == "ERROR"]
        wrong += [f"no answer to {question}" for question in SilentClient.asked]
        if wrong:
            sys.exit("\n".join(wrong))
        for name, start, end in zip(took, times, times[1:], strict=False):
            took[name].append(end - start)
    loop.close()
    json.dump({name: values[1:] for name, values in took.items()}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
