"""kill -9 between AWS's success and the write of the state, on the emulated AWS: nothing is created twice."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from msgspec.structs import replace

from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.lab.aws import daemon

from .conftest import Lab

# Crashes when the journal is about to record the creation of the named resource.
KILLED = """
import os, pickle, signal, sys
from gpufleet.engine.embedded import journal
from gpufleet.engine.embedded.engine import EmbeddedEngine

genuine = journal._write_all

def deadly(descriptor, data):
    if b'"put"' in data and b"::" + sys.argv[2].encode() + b'"' in data:
        os.kill(os.getpid(), signal.SIGKILL)
    genuine(descriptor, data)

journal._write_all = deadly
EmbeddedEngine().up(pickle.loads(open(sys.argv[1], "rb").read()), lambda event: None)
"""

PROGRAM = """
import json

class Aws(pulumi.CustomResource):
    def __init__(self, type_, name, tagged=True, depends_on=None, **props):
        tags = {"tags": {"Name": name, "gpufleet:fleet": "atlas"}} if tagged else {}
        super().__init__(f"aws:{type_}", name, {**props, **tags}, Opts(depends_on=depends_on))

vpc = Aws("ec2/vpc:Vpc", "net", cidrBlock="10.0.0.0/16")
subnet = Aws("ec2/subnet:Subnet", "sub", vpcId=vpc.id, cidrBlock="10.0.1.0/24")
table = Aws("ec2/routeTable:RouteTable", "table", vpcId=vpc.id, depends_on=[subnet])
joined = Aws("ec2/routeTableAssociation:RouteTableAssociation", "joined", tagged=False,
             subnetId=subnet.id, routeTableId=table.id)
trust = {"Version": "2012-10-17", "Statement": [{
    "Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}]}
role = Aws("iam/role:Role", "role", assumeRolePolicy=json.dumps(trust), depends_on=[joined])
Aws("iam/rolePolicyAttachment:RolePolicyAttachment", "attached", tagged=False, role=role.id,
    policyArn="arn:aws:iam::aws:policy/ReadOnlyAccess")
"""


@pytest.fixture
def aws(lab: Lab, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of an emulated AWS for the stack of the lab."""
    root = tmp_path / "aws"
    env = daemon.sandbox_env(daemon.ensure(root))
    lab.engine = EmbeddedEngine()
    lab.request = replace(
        lab.request,
        env={**lab.request.env, **env},
        providers={"aws": (sys.executable, "-m", "gpufleet.lab.aws.provider")},
        config={"aws:region": "us-east-1"},
    )
    yield env
    daemon.stop(root)


def clients(env: dict[str, str], service: str) -> Any:
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=env["AWS_ENDPOINT_URL"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
    )


def test_run_killed_after_each_success_creates_nothing_twice(
    lab: Lab, aws: dict[str, str], tmp_path: Path
) -> None:
    lab.program(PROGRAM)
    request = tmp_path / "request.pickle"
    request.write_bytes(pickle.dumps(lab.request))
    for name in ("net", "sub", "joined", "role", "attached"):
        died = subprocess.run(
            [sys.executable, "-c", KILLED, str(request), name], capture_output=True, timeout=180, check=False
        )
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        (pending,) = lab.export()["pending_operations"]
        assert (pending["type"], pending["resource"]["urn"].rpartition("::")[2]) == ("creating", name)
    result = lab.up()
    # Attaching a policy again is harmless, so that step was left.
    assert result.changes.create == 1
    assert "pending_operations" not in lab.export()
    ec2, iam = clients(aws, "ec2"), clients(aws, "iam")
    ours = [{"Name": "tag:gpufleet:fleet", "Values": ["atlas"]}]
    assert [vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=ours)["Vpcs"]] == [lab.resources()["net"]["id"]]
    assert len(ec2.describe_subnets(Filters=ours)["Subnets"]) == 1
    (table,) = ec2.describe_route_tables(Filters=ours)["RouteTables"]
    assert [item["RouteTableAssociationId"] for item in table["Associations"]] == [
        lab.resources()["joined"]["id"]
    ]
    assert len([role for role in iam.list_roles()["Roles"] if role["RoleName"].startswith("role-")]) == 1
    assert lab.up().changes.total == 0
    assert lab.run("destroy").ok
    assert ec2.describe_vpcs(Filters=ours)["Vpcs"] == []


def test_run_after_a_kill_reports_the_pending_resource(lab: Lab, aws: dict[str, str], tmp_path: Path) -> None:
    lab.program(PROGRAM)
    request = tmp_path / "request.pickle"
    request.write_bytes(pickle.dumps(lab.request))
    subprocess.run([sys.executable, "-c", KILLED, str(request), "net"], timeout=180, check=False)
    (vpc,) = [
        vpc["VpcId"]
        for vpc in clients(aws, "ec2").describe_vpcs(
            Filters=[{"Name": "tag:Name", "Values": ["net"]}]
        )["Vpcs"]
    ]  # fmt: skip
    assert lab.run("preview").ok
    reported = lab.messages("warning")
    assert "did not finish creating urn:pulumi:dev::lab::aws:ec2/vpc:Vpc::net " in reported
    assert f": it was created, and is taken over (id {vpc})" in reported
    assert lab.run("destroy").ok
    assert "taken over" in lab.messages("warning")
    assert lab.export()["resources"] == []


def again(lab: Lab, tmp_path: Path) -> None:
    """Read the environment again: it sets the delay of the emulated AWS."""
    env = daemon.sandbox_env(daemon.ensure(tmp_path / "aws"))
    lab.request = replace(lab.request, env={**lab.request.env, **env})


def test_resource_of_a_killed_run_is_found_though_the_cloud_lists_it_late(
    lab: Lab, aws: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "aws" / "faults.json").write_text('{"late_s": 6}')
    again(lab, tmp_path)
    lab.program(PROGRAM)
    request = tmp_path / "request.pickle"
    request.write_bytes(pickle.dumps(lab.request))
    for name in ("net", "role"):
        subprocess.run([sys.executable, "-c", KILLED, str(request), name], timeout=180, check=False)
        assert lab.run("refresh").ok
        assert "it was created, and is taken over" in lab.messages("warning")
    (tmp_path / "aws" / "faults.json").unlink()
    assert lab.up().ok
    ours = [{"Name": "tag:gpufleet:fleet", "Values": ["atlas"]}]
    assert len(clients(aws, "ec2").describe_vpcs(Filters=ours)["Vpcs"]) == 1
    assert lab.run("destroy").ok


def test_run_killed_during_a_slow_operation_creates_nothing_twice(
    lab: Lab, aws: dict[str, str], tmp_path: Path
) -> None:
    faults = {
        "slow": [{"action": "ec2:CreateVpc", "seconds": 30}, {"action": "ec2:DeleteVpc", "seconds": 30}]
    }
    (tmp_path / "aws" / "faults.json").write_text(json.dumps(faults))
    lab.program(PROGRAM)
    request = tmp_path / "request.pickle"
    request.write_bytes(pickle.dumps(lab.request))
    ec2 = clients(aws, "ec2")
    ours = [{"Name": "tag:gpufleet:fleet", "Values": ["atlas"]}]
    killed_once(request, "up", lambda: bool(ec2.describe_vpcs(Filters=ours)["Vpcs"]))
    (vpc,) = [each["VpcId"] for each in ec2.describe_vpcs(Filters=ours)["Vpcs"]]
    lab.up()
    assert f"it was created, and is taken over (id {vpc})" in lab.messages("warning")
    assert [each["VpcId"] for each in ec2.describe_vpcs(Filters=ours)["Vpcs"]] == [vpc]
    killed_once(request, "destroy", lambda: not ec2.describe_vpcs(Filters=ours)["Vpcs"])
    assert lab.run("destroy").ok
    assert "it was deleted" in lab.messages("warning")
    assert lab.export()["resources"] == []


def killed_once(request: Path, verb: str, condition: Callable[[], bool]) -> None:
    """Run a verb in its own process and kill it as soon as the cloud shows its result."""
    text = (
        "import pickle, sys\nfrom gpufleet.engine.embedded.engine import EmbeddedEngine\n"
        "request = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "getattr(EmbeddedEngine(), sys.argv[2])(request, lambda event: None)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", text, str(request), verb])
    try:
        deadline = time.monotonic() + 120
        while not condition():
            assert process.poll() is None, "it ended before the cloud showed anything"
            assert time.monotonic() < deadline, "timed out"
            time.sleep(0.05)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_up_reports_a_resource_deleted_outside_and_refresh_lets_it_be_created(
    lab: Lab, aws: dict[str, str]
) -> None:
    lab.up(PROGRAM)
    ec2 = clients(aws, "ec2")
    joined, subnet = (lab.resources()[name]["id"] for name in ("joined", "sub"))
    ec2.disassociate_route_table(AssociationId=joined)
    ec2.delete_subnet(SubnetId=subnet)
    changed = PROGRAM.replace('cidrBlock="10.0.1.0/24"', 'cidrBlock="10.0.1.0/24", mapPublicIpOnLaunch=True')
    assert changed != PROGRAM
    lab.program(changed)
    assert not lab.run("up").ok
    assert "does not exist: run refresh, then up" in lab.errors()["sub"]
    assert "run refresh, then up" in lab.errors()["sub"]
    refreshed = lab.run("refresh")
    assert refreshed.ok
    assert refreshed.changes.delete == 2
    assert not {"sub", "joined"} & set(lab.resources())
    assert lab.up().changes.create == 2
    assert lab.up().changes.total == 0
    # A resource deleted outside before a destroy is not a failure.
    ec2.disassociate_route_table(AssociationId=lab.resources()["joined"]["id"])
    ec2.delete_subnet(SubnetId=lab.resources()["sub"]["id"])
    assert lab.run("destroy").ok
    assert lab.export()["resources"] == []
