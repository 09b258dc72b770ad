"""A pulumi_aws program on this provider, run by the embedded engine and by the real Pulumi CLI.

The CLI is in no package registry, so its half runs only where `pulumi` is on PATH.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.engine.api import Engine, RunResult, StackRequest
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.engine.pulumi_cli import PulumiCliEngine
from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.provider.clients import Clients

REGION = "us-west-2"
RESOURCES = 16
HERE = Path(__file__).parent
NO_CLI = pytest.mark.skipif(shutil.which("pulumi") is None, reason="the Pulumi CLI is not on PATH")
ENGINES = [
    pytest.param(EmbeddedEngine(), id="embedded"),
    pytest.param(PulumiCliEngine(), id="pulumi", marks=NO_CLI),
]


class Stack:
    """One stack on one engine, with its own emulated AWS."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.cloud = folder / "aws"
        address = daemon.ensure(self.cloud)
        self.clients = Clients(address.url)
        (folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\nmain: program\n")
        shutil.copytree(HERE / "program", folder / "program", ignore=shutil.ignore_patterns("__pycache__"))
        self.request = StackRequest(
            project="trial",
            stack="dev",
            project_root=folder,
            program_dir=folder / "program",
            state_file=folder / "state" / "dev.json",
            config={"aws:region": REGION, "aws:defaultTags": json.dumps({"tags": {"team": "ml"}})},
            providers={"aws": (sys.executable, "-m", "gpufleet.lab.aws.provider")},
            env={**daemon.sandbox_env(address), **cli_settings(folder)},
        )

    def run(self, verb: str) -> RunResult:
        result: RunResult = getattr(self.engine, verb)(self.request, lambda event: None)
        assert result.ok, (result.failures, result.diagnostics)
        return result

    def client(self, service: str) -> Any:
        return self.clients.get(service, REGION)

    def resources(self) -> dict[str, dict[str, Any]]:
        exported = self.engine.export(self.request)
        assert exported is not None
        return {item["urn"]: item for item in exported["deployment"]["resources"]}

    def state(self, kind: str) -> dict[str, Any]:
        return next(item for urn, item in self.resources().items() if f"::{kind}::" in urn)


def cli_settings(folder: Path) -> dict[str, str]:
    """The user's own Pulumi files are neither read nor written."""
    (folder / "backend").mkdir()
    return {
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}",
        "PULUMI_HOME": str(folder / "home"),
    }


@pytest.fixture
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    made = Stack(request.param, tmp_path)
    yield made
    daemon.stop(made.cloud)


@pytest.mark.parametrize("stack", ENGINES, indirect=True)
def test_program_runs_on_this_provider(stack: Stack) -> None:
    planned = stack.run("preview")
    assert planned.changes.create >= RESOURCES
    assert stack.client("ec2").describe_vpcs(Filters=[{"Name": "tag:team", "Values": ["ml"]}])["Vpcs"] == []

    made = stack.run("up")
    assert made.changes.create == planned.changes.create
    assert made.outputs["account"] == "123456789012"
    assert made.outputs["endpoint"].startswith("https://")
    assert "hush" not in json.dumps(stack.engine.export(stack.request))
    (vpc,) = stack.client("ec2").describe_vpcs(Filters=[{"Name": "tag:team", "Values": ["ml"]}])["Vpcs"]
    assert {"Key": "Name", "Value": "net"} in vpc["Tags"]

    for verb in ("up", "refresh"):
        again = stack.run(verb)
        assert again.changes.total == 0, [item for item in again.resources if item.diff]

    rolls_the_nodes(stack)
    heals_drift(stack)
    stack.run("destroy")
    nothing_is_left(stack)


def rolls_the_nodes(stack: Stack) -> None:
    config = {**stack.request.config, "trial:user-data": "c2Vjb25k"}
    stack.request = replace(stack.request, config=config)
    planned, done = stack.run("preview"), stack.run("up")
    for result in (planned, done):
        assert (result.changes.update, result.changes.create, result.changes.replace) == (2, 0, 0)
    assert stack.state("aws:eks/nodeGroup:NodeGroup")["outputs"]["launchTemplate"]["version"] == "2"


def heals_drift(stack: Stack) -> None:
    group = stack.state("aws:ec2/securityGroup:SecurityGroup")["id"]
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    ec2 = stack.client("ec2")
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    assert stack.run("refresh").changes.update == 1
    healed = stack.run("up")
    assert (healed.changes.update, healed.changes.total) == (1, 1)
    shown = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    assert [item["IpProtocol"] for item in shown] == ["-1"]


def nothing_is_left(stack: Stack) -> None:
    ours = {"Filters": [{"Name": "tag:team", "Values": ["ml"]}]}
    ec2 = stack.client("ec2")
    assert ec2.describe_vpcs(**ours)["Vpcs"] == []
    assert ec2.describe_subnets(**ours)["Subnets"] == []
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert stack.client("eks").list_clusters()["clusters"] == []
    assert stack.client("s3").list_buckets()["Buckets"] == []
    assert stack.client("sns").list_topics()["Topics"] == []
    assert stack.client("iam").list_roles()["Roles"] == []
    keys = stack.client("kms").list_keys()["Keys"]
    states = {stack.client("kms").describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"] for key in keys}
    assert states == {"PendingDeletion"}


@NO_CLI
def test_both_engines_leave_the_same_state(tmp_path: Path) -> None:
    states = []
    for engine in (EmbeddedEngine(), PulumiCliEngine()):
        folder = tmp_path / engine.name
        folder.mkdir()
        stack = Stack(engine, folder)
        try:
            stack.run("up")
            states.append({urn: comparable(item) for urn, item in stack.resources().items()})
        finally:
            daemon.stop(stack.cloud)
    embedded, real = states
    assert {urn for urn in embedded if "pulumi:providers" not in urn} == {
        urn for urn in real if "pulumi:providers" not in urn
    }
    for urn, item in real.items():
        if "pulumi:providers" not in urn:
            assert embedded[urn] == item, urn


_VARIES = re.compile(
    r"-[0-9a-f]{7,17}\b|[0-9a-f-]{36}|[A-Z0-9]{20,21}|\d+\.\d+\.\d+\.\d+|:\d{4,5}/|\d{4}-\d\d-\d\dT[\d:]+Z"
    r"|v1:[\w+/=]+:[\w+/=]+"
)


def comparable(item: dict[str, Any]) -> str:
    """Inputs and outputs without generated values."""
    outputs = {k: v for k, v in item.get("outputs", {}).items() if k not in _MADE_UP}
    return _VARIES.sub("-x", json.dumps([item["type"], item.get("inputs"), outputs], sort_keys=True))


_MADE_UP = {"certificateAuthority", "endpoint", "identities", "uniqueId", "displayName", "resources"}
