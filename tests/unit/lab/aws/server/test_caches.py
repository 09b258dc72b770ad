"""What the server parses and computes once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_COUNT = """
import collections, pathlib
from botocore.loaders import JSONFileLoader
from gpufleet.lab.aws.faults.inject import Injector
from gpufleet.lab.aws.server.app import SandboxApp
parsed = collections.Counter()
real = JSONFileLoader._load_file
def counted(self, path, *rest):
    found = real(self, path, *rest)
    file = pathlib.PurePath(path)
    parsed[file.parts[-3]] += found is not None and file.name.startswith("service-2.json")
    return found
JSONFileLoader._load_file = counted
app = SandboxApp(lambda: None, Injector(pathlib.Path("none")), lambda _: None)
app.load(creates=False)
print(*sorted(app._moto.app_instances))
app.load(creates=True)
print(*sorted(app._moto.app_instances))
print(*sorted(name for name, times in parsed.items() if times == 1))
print(*sorted(name for name, times in parsed.items() if times > 1))
"""


def test_each_service_model_is_parsed_once_and_a_preview_needs_only_those_of_its_look_ups() -> None:
    reads, created, once, again = subprocess.run(
        [sys.executable, "-c", _COUNT], capture_output=True, text=True, check=True
    ).stdout.split("\n")[:4]
    assert reads.split() == ["ec2", "ssm", "sts"]
    assert set(created.split()) > {"ec2", "ssm", "sts", "eks", "fsx", "iam", "s3"}
    assert {"ec2", "iam", "eks", "fsx"} <= set(once.split())
    assert again == ""


_NAMES = """
import botocore.session
from botocore.hooks import EventAliaser
asked = []
real = EventAliaser._alias_event_name
EventAliaser._alias_event_name = lambda self, name: asked.append(name) or real(self, name)
from gpufleet.lab.aws.server import caches
caches.enable()
botocore.session.get_session()
first = len(asked)
botocore.session.get_session()
print(first > 100, len(asked) == first)
session = botocore.session.get_session()
print(session.get_component("event_emitter")._alias_event_name("before-call.apigateway.X"))
"""


def test_sessions_look_up_the_names_of_events_once() -> None:
    answers = subprocess.run(
        [sys.executable, "-c", _NAMES], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert answers == ["True True", "before-call.api-gateway.X"]


_MODELS = """
import os, pathlib, sys
import botocore.session
from gpufleet.lab.aws.server import caches
caches.enable()
file = pathlib.Path(sys.argv[1], "toys", "1", "service-2.json")
file.parent.mkdir(parents=True)
file.write_text("{}")
print("toys" in botocore.session.get_session().get_available_services())
os.environ["AWS_DATA_PATH"] = sys.argv[1]
print("toys" in botocore.session.get_session().get_available_services())
"""


def test_sessions_with_a_folder_of_models_do_not_share(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _MODELS, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [
        "False",
        "True",
    ]


_ANSWERS = """
import boto3
from moto import mock_aws
from gpufleet.lab.aws.server import caches

def answers():
    for name in ("instances", "volumes", "subnets", "security_groups", "images", "vpcs", "route_tables"):
        yield getattr(ec2, f"describe_{name}")()
    yield boto3.client("iam").get_role(RoleName="nodes")
    yield boto3.client("eks").describe_cluster(name="fleet")
    yield boto3.client("autoscaling").describe_auto_scaling_groups()
    yield boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])

def plain():
    for each in answers():
        del each["ResponseMetadata"]
        yield each

with mock_aws():
    ec2 = boto3.client("ec2")
    subnets = [each["SubnetId"] for each in ec2.describe_subnets()["Subnets"][:2]]
    ec2.run_instances(ImageId=ec2.describe_images()["Images"][0]["ImageId"], MinCount=2, MaxCount=2)
    role = boto3.client("iam").create_role(RoleName="nodes", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    boto3.client("eks").create_cluster(name="fleet", roleArn=role, resourcesVpcConfig={"subnetIds": subnets})
    queue = boto3.client("sqs").create_queue(QueueName="notices")["QueueUrl"]
    scaling = boto3.client("autoscaling")
    scaling.create_launch_configuration(
        LaunchConfigurationName="nodes", ImageId="ami-12c6146b", InstanceType="t3.micro"
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="group",
        LaunchConfigurationName="nodes",
        MinSize=1,
        MaxSize=1,
        VPCZoneIdentifier=subnets[0],
    )
    before = list(plain())
    caches.cache_moto()
    print(before == list(plain()), before == list(plain()), len(before[0]["Reservations"]))
"""


def test_answers_of_aws_are_those_without_the_caches() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    done = subprocess.run(
        [sys.executable, "-c", _ANSWERS], env=os.environ | keys, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "True", "2"], done.stderr
