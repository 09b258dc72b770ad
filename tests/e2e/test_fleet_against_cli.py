"""The project's own program, the shipped sandbox fleet, on both engines: equal steps, equal states.

Runs where `pulumi` is on PATH (it is in no package registry, so no test set-up can bring it).
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from gpufleet.engine.api import Engine, RunResult
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.engine.pulumi_cli import PulumiCliEngine
from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.inventory import list_resources
from gpufleet.workspace import Workspace
from tests.conftest import ROOT, make_checkout
from tests.e2e.changes_fleet import GONE, changed

pytestmark = [
    pytest.mark.xdist_group("e2e-cli"),
    pytest.mark.skipif(
        shutil.which("pulumi") is None,
        reason="the Pulumi CLI is not on PATH, so there is nothing to compare with",
    ),
]

ENVIRONMENT = "sandbox"
REGIONS = ("us-east-1", "us-east-2", "us-west-2")
SITE = "cloud[use1]"
# In place, rolling, a replacement that AWS asks for, a removal, an addition, another tag everywhere.
CHANGES = {
    "budget.monthly": "46000 USD",
    "tags.project": "titan",
    f"{SITE}.node_groups[finetune].volume": {"size": "400 GiB"},
    f"{SITE}.node_groups[serve].instance_types": ["g6.2xlarge"],
    f"{SITE}.node_groups[sweep]": GONE,
    f"{SITE}.node_groups[notebook].capacity": {"on_demand": {"min": 0, "max": 1}},
    f"{SITE}.storage[scratch].lustre.capacity": "2400 GiB",
    f"{SITE}.storage[more]": {"name": "more", "bucket": {"name": "atlas-sandbox-more"}},
    "cloud[usw2].node_groups[burst].instance_types": ["g6e.4xlarge"],
}
_MADE_UP = re.compile(
    # Times, ports, addresses, secrets at rest, and random names of AWS and Pulumi.
    r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?|127\.0\.0\.1:\d+|\b\d+\.\d+\.\d+\.\d+\b"
    r"|\b(?:ec2|ip)-\d+-\d+-\d+-\d+\b|v1:[\w+/=]+:[\w+/=]+|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|(?<=https://)\w{20}\.\w{3}(?=\.[\w-]+\.eks\.)|\b[A-Z0-9]{20,32}\b|(?<=-)[0-9a-f]{7,17}\b"
    r"|\b[0-9a-f]{32,64}\b|^[0-9a-f]{8}$"
)
_BY_CHANCE = {"created", "modified", "sourcePosition", "stackTrace", "ciphertext", "__provider", "uniqueId"}


class Stack:
    """A checkout with its own emulated AWS, driven by one engine."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        folder.mkdir()
        self.root = make_checkout(folder).root
        self.workspace = Workspace(self.root, ENVIRONMENT)
        self.file = self.root / "stacks" / ENVIRONMENT / "fleet.yaml"
        self.fleet = yaml.safe_load(self.file.read_text())

    def run(self, verb: str) -> RunResult:
        request = self.workspace.request(ENVIRONMENT, "sandbox")
        result: RunResult = getattr(self.engine, verb)(request, lambda event: None)
        return result

    def change(self, changes: dict[str, Any]) -> None:
        self.fleet = changed(self.fleet, changes)
        self.file.write_text(yaml.safe_dump(self.fleet, sort_keys=False))

    def resources(self) -> list[dict[str, Any]]:
        exported = self.engine.export(self.workspace.offline_request(ENVIRONMENT, "sandbox"))
        assert exported is not None
        assert not exported["deployment"].get("pending_operations")
        return list(exported["deployment"].get("resources") or ())

    def client(self, service: str, region: str) -> Any:
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=daemon.ensure(self.workspace.sandbox_root).url,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )

    def inventory(self) -> list[str]:
        """Contents of the account, without ids."""
        endpoint = daemon.ensure(self.workspace.sandbox_root)
        found = list_resources(endpoint, regions=REGIONS)
        return sorted(
            _MADE_UP.sub("~", f"{each.region} {each.service} {each.id} {sorted(each.tags.items())}")
            for each in found
        )


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Stack, Stack]]:
    backend = tmp_path / "backend"
    backend.mkdir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{backend}")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    monkeypatch.setenv("PULUMI_SKIP_UPDATE_CHECK", "true")
    # The CLI starts dynamic providers with a script that searches `python` on PATH.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    made = (Stack(EmbeddedEngine(), tmp_path / "ours"), Stack(PulumiCliEngine(), tmp_path / "theirs"))
    yield made
    for stack in made:
        daemon.stop(stack.workspace.sandbox_root)


def comparable(stack: Stack) -> dict[str, Any]:
    """Resources of the state by URN, with ids replaced by resource names."""
    resources = stack.resources()
    long = [each for each in resources if len(each.get("id", "")) > 8]
    names = {each["id"]: f"<{each['urn'].rpartition('::')[2]}>" for each in long}
    ids = re.compile("|".join(re.escape(each) for each in sorted(names, key=len, reverse=True)) or "(?!)")
    root = re.compile(re.escape(str(stack.root)))

    def normal(value: Any) -> Any:
        if isinstance(value, str):
            text = ids.sub(lambda found: names[found.group()], root.sub("<root>", value))
            return _MADE_UP.sub("~", text)
        if isinstance(value, dict):
            text = value.get("userData")
            if isinstance(text, str):  # with the random endpoint of its cluster
                value = {**value, "userData": base64.b64decode(text).decode()}
            return {key: normal(item) for key, item in sorted(value.items()) if key not in _BY_CHANCE}
        if isinstance(value, list):
            items = [normal(item) for item in value]
            # Rules of security groups are a set: their order is arbitrary.
            return sorted(items, key=json.dumps) if any(isinstance(item, dict) for item in items) else items
        return value

    found: dict[str, Any] = {}
    for each in resources:
        one = normal(each)
        one.get("dependencies", []).sort()
        # A refresh of the CLI drops empty lists here; they are equivalent.
        needed = {key: sorted(urns) for key, urns in one.pop("propertyDependencies", {}).items() if urns}
        found.setdefault(each["urn"], []).append({**one, "propertyDependencies": needed})
    return found


def planned(result: RunResult) -> list[tuple[Any, ...]]:
    """Changed resources in a result."""
    return sorted(
        (each.urn, each.op.value, each.diff, each.replace_keys)
        for each in result.resources
        if each.op.value not in ("same", "read", "refresh")
    )


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Differences between two states, one line each."""
    lines = [f"only ours: {urn}" for urn in ours.keys() - theirs.keys()]
    lines += [f"only the CLI's: {urn}" for urn in theirs.keys() - ours.keys()]
    for urn in sorted(ours.keys() & theirs.keys()):
        if len(ours[urn]) != len(theirs[urn]):
            lines.append(f"{urn}: {len(ours[urn])} and {len(theirs[urn])} times")
        for mine, other in zip(ours[urn], theirs[urn], strict=False):
            lines += [f"{urn} {line}" for line in _leaves(mine, other)]
    return lines


def _leaves(mine: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(other, dict):
        for key in sorted({*mine, *other}):
            yield from _leaves(mine.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        for place, pair in enumerate(zip(mine, other, strict=True)):
            yield from _leaves(*pair, f"{path}[{place}]")
    elif mine != other:
        yield f"{path}: {json.dumps(mine)} and {json.dumps(other)}"


def alike(pair: tuple[Stack, Stack], verb: str) -> RunResult:
    """Run a verb on both; results and states must be equal."""
    mine, theirs = (stack.run(verb) for stack in pair)
    assert (mine.ok, theirs.ok) == (True, True), (verb, mine.failures, theirs.failures, theirs.diagnostics)
    assert mine.changes == theirs.changes, verb
    if verb != "refresh":
        # The events of a refresh of the CLI do not list changes of a resource: compare the states below.
        assert planned(mine) == planned(theirs), verb
    if verb != "preview":
        found = differences(*(comparable(stack) for stack in pair))
        assert found == [], "\n".join([verb, *found])
        ours, others = (stack.inventory() for stack in pair)
        assert ours == others, verb
    return mine


def test_fleet_is_the_same_on_both_engines(pair: tuple[Stack, Stack]) -> None:
    assert alike(pair, "preview").changes.create > 100
    assert alike(pair, "up").changes.create > 100
    assert alike(pair, "up").changes.total == 0
    for stack in pair:
        stack.change(CHANGES)
    expected = alike(pair, "preview").changes
    assert min(expected.create, expected.update, expected.replace, expected.delete) > 0
    assert alike(pair, "up").changes == expected
    for stack in pair:
        _meddle(stack)
    drift = alike(pair, "refresh").changes
    assert drift.total >= 2
    assert alike(pair, "up").changes.total >= 2
    assert alike(pair, "up").changes.total == 0
    assert alike(pair, "destroy").changes.delete > 100
    assert pair[0].resources() == pair[1].resources() == []


def _meddle(stack: Stack) -> None:
    """Change one resource and delete another outside the engines."""

    def first(kind: str) -> dict[str, Any]:
        # States are in no particular order: the same one in both.
        return min((each for each in stack.resources() if each["type"] == kind), key=lambda each: each["urn"])

    region = "us-east-1"
    vpc = first("aws:ec2/vpc:Vpc")["id"]
    tags = [{"Key": "owner", "Value": "somebody"}]
    stack.client("ec2", region).create_tags(Resources=[vpc], Tags=tags)
    attached = first("aws:iam/rolePolicyAttachment:RolePolicyAttachment")["inputs"]
    stack.client("iam", region).detach_role_policy(RoleName=attached["role"], PolicyArn=attached["policyArn"])


def test_test_changes_apply_to_the_shipped_fleet() -> None:
    fleet = yaml.safe_load((ROOT / "stacks" / ENVIRONMENT / "fleet.yaml").read_text())
    assert changed(fleet, CHANGES) != fleet
