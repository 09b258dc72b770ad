from __future__ import annotations

import json
import os
import pickletools
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpufleet.errors import CloudError
from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.inventory import list_resources
from gpufleet.lab.aws.server import snapshot
from gpufleet.lab.aws.server.process import Files, process_start
from gpufleet.lab.aws.server.saver import LATEST


def _fill(make: Any) -> None:
    """One resource of each kind with its own storage in moto."""
    ec2, iam, eks = make("ec2"), make("iam"), make("eks")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"us-east-1{zone}")
        for i, zone in enumerate("ab")
    ]
    ids = [one["Subnet"]["SubnetId"] for one in subnets]
    template = ec2.create_launch_template(
        LaunchTemplateName="gpu",
        LaunchTemplateData={"InstanceType": "g6e.xlarge", "ImageId": "ami-12345678", "UserData": "aGk="},
    )["LaunchTemplate"]
    ec2.create_placement_group(GroupName="close", Strategy="cluster")
    ec2.create_capacity_reservation(
        InstanceType="p5.48xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=2,
    )
    make("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="workers",
        MinSize=1,
        MaxSize=2,
        LaunchTemplate={"LaunchTemplateId": template["LaunchTemplateId"]},
        VPCZoneIdentifier=ids[0],
    )
    role = iam.create_role(RoleName="cluster", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    eks.create_cluster(name="atlas", roleArn=role, resourcesVpcConfig={"subnetIds": ids})
    eks.create_addon(clusterName="atlas", addonName="vpc-cni")
    file_system = make("fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=ids[:1],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]
    make("s3").create_bucket(Bucket="data")
    make("s3").put_object(Bucket="data", Key="shard", Body=b"0" * 100_000)
    make("fsx").create_data_repository_association(FileSystemId=file_system, DataRepositoryPath="s3://data")
    make("kms").create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")
    make("kms").create_key()
    make("sns").create_topic(Name="alerts")
    make("sqs").create_queue(QueueName="interruptions")
    make("ssm").put_parameter(Name="/gpufleet/x", Value="1", Type="String")
    make("logs").create_log_group(logGroupName="/gpufleet")
    make("events").put_rule(Name="interrupted", EventPattern='{"source": ["aws.ec2"]}')
    make("budgets").create_budget(
        AccountId="123456789012",
        Budget={
            "BudgetName": "atlas",
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": "1", "Unit": "USD"},
        },
    )


def _observe(endpoint: daemon.Endpoint, make: Any) -> dict[str, Any]:
    ec2 = make("ec2")
    return {
        "resources": [tuple(one) for one in list_resources(endpoint, ["us-east-1"])],
        "default vpc": ec2.describe_vpcs()["Vpcs"],
        "reservations": ec2.describe_capacity_reservations()["CapacityReservations"],
        "instances": [i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]],
        "cluster": make("eks").describe_cluster(name="atlas")["cluster"],
        "file systems": make("fsx").describe_file_systems()["FileSystems"],
        "object": make("s3").get_object(Bucket="data", Key="shard")["Body"].read(),
        "parameter": make("ssm").get_parameter(Name="/gpufleet/x")["Parameter"],
    }


def _ended(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while process_start(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not process_start(pid)


def test_state_is_the_same_after_a_restart_and_after_a_kill(root: Path, client: Any) -> None:
    endpoint = daemon.ensure(root)
    _fill(lambda service: client(endpoint, service))
    before = _observe(endpoint, lambda service: client(endpoint, service))
    assert len(before["resources"]) >= 20

    daemon.stop(root)
    restarted = daemon.ensure(root)
    assert restarted.pid != endpoint.pid
    assert _observe(restarted, lambda service: client(restarted, service)) == before

    client(restarted, "sns").create_topic(Name="after-the-restart")
    deadline = time.monotonic() + LATEST + 60
    while b"after-the-restart" not in Files(root).snapshot.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(restarted.pid, signal.SIGKILL)
    assert _ended(restarted.pid)
    revived = daemon.ensure(root)
    after = _observe(revived, lambda service: client(revived, service))
    new = {one[1] for one in after["resources"]} - {one[1] for one in before["resources"]}
    assert new == {"arn:aws:sns:us-east-1:123456789012:after-the-restart"}
    # Loaded objects still work: default factories, locks, keys.
    client(revived, "ssm").put_parameter(Name="/gpufleet/y", Value="2", Type="String")
    queue = client(revived, "sqs").get_queue_url(QueueName="interruptions")["QueueUrl"]
    client(revived, "sqs").send_message(QueueUrl=queue, MessageBody="hello")
    assert client(revived, "sqs").receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "hello"


def _of_the_former_modules(written: bytes) -> bytes:
    """A snapshot as it was written when the modules of `gpufleet.lab.aws` were `gpufleet.sandbox`."""
    header, _, state = written.partition(b"\n")
    operations = list(pickletools.genops(state))
    ends = [position for _, _, position in operations[1:]] + [len(state)]
    former = bytearray()
    for (code, argument, start), end in zip(operations, ends, strict=True):
        if code.name == "SHORT_BINUNICODE" and str(argument).startswith("gpufleet.lab.aws."):
            name = str(argument).replace("gpufleet.lab.aws.", snapshot.FORMER).encode()
            former += code.code.encode("latin-1") + bytes([len(name)]) + name
        elif code.name != "FRAME":  # A frame has a length, and may be left out.
            former += state[start:end]
    return header + b"\n" + former


def test_state_written_before_modules_were_moved_is_loaded(root: Path, client: Any) -> None:
    endpoint = daemon.ensure(root)
    _fill(lambda service: client(endpoint, service))
    before = _observe(endpoint, lambda service: client(endpoint, service))
    daemon.stop(root)
    file = Files(root).snapshot
    former = _of_the_former_modules(file.read_bytes())
    assert b"gpufleet.sandbox.backends" in former
    assert b"gpufleet.lab" not in former
    file.write_bytes(former)
    again = daemon.ensure(root)
    assert _observe(again, lambda service: client(again, service)) == before


def test_reset_empties_the_account_of_a_running_server(root: Path, client: Any) -> None:
    endpoint = daemon.ensure(root)
    client(endpoint, "s3").create_bucket(Bucket="forgotten")
    daemon.reset(root)
    assert daemon.status(root) == endpoint
    assert list_resources(endpoint, ["us-east-1"]) == []
    daemon.stop(root)
    assert list_resources(daemon.ensure(root), ["us-east-1"]) == []


def test_reset_empties_the_account_of_a_stopped_server(root: Path, client: Any) -> None:
    client(daemon.ensure(root), "s3").create_bucket(Bucket="forgotten")
    daemon.stop(root)
    daemon.reset(root)
    assert client(daemon.ensure(root), "s3").list_buckets()["Buckets"] == []


def test_state_of_another_moto_version_is_refused_and_reset_fixes_it(root: Path) -> None:
    root.mkdir()
    other = {**snapshot.header(), "moto": "4.0.0"}
    Files(root).snapshot.write_bytes(json.dumps(other).encode() + b"\nwhatever")
    with pytest.raises(CloudError) as refused:
        daemon.ensure(root)
    assert "moto 4.0.0" in refused.value.message
    assert "gpufleet sandbox reset" in refused.value.remedy
    assert Files(root).snapshot.exists()
    daemon.reset(root)
    assert daemon.ensure(root).pid > 0


@pytest.mark.parametrize("content", [b"", b"no header at all", b'{"format": 1}\n'])
def test_state_that_is_not_a_snapshot_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.pickle"
    path.write_bytes(content)
    with pytest.raises(snapshot.SnapshotError) as refused:
        snapshot.check(path)
    assert str(path) in refused.value.message


def test_damaged_snapshot_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "state.pickle"
    path.write_bytes(json.dumps(snapshot.header()).encode() + b"\n\x80\x05garbage")
    with pytest.raises(snapshot.SnapshotError) as refused:
        snapshot.load(path)
    assert "damaged" in refused.value.message
    assert "reset" in refused.value.remedy


def test_missing_snapshot_is_an_empty_account(tmp_path: Path) -> None:
    snapshot.check(tmp_path / "absent")
    snapshot.load(tmp_path / "absent")


def test_reset_frees_the_memory_of_the_account(tmp_path: Path) -> None:
    # In a process of its own: other tests of this one may hold parts of moto.
    ended = subprocess.run(
        [sys.executable, "-c", RESET, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.stdout == "[None, None, None] 0\n", ended.stderr


RESET = """
import gc, sys, weakref
from pathlib import Path
from moto.backends import get_backend
from gpufleet.lab.aws.faults.inject import Injector
from gpufleet.lab.aws.server import snapshot
from gpufleet.lab.aws.server.app import SandboxApp
app = SandboxApp(lambda: None, Injector(Path(sys.argv[1]) / "faults.json"), lambda _state: None)
ec2 = get_backend("ec2")["123456789012"]["us-east-1"]
vpc = ec2.create_vpc("10.0.0.0/16")
subnet = ec2.create_subnet(vpc.id, "10.0.0.0/24", availability_zone="us-east-1a")
subnet.get_available_subnet_ip(instance=None)
kept = [weakref.ref(each) for each in (ec2, vpc, subnet)]
del ec2, vpc, subnet
app.reset()
gc.collect()
print([each() for each in kept], snapshot.backend_count())
"""
