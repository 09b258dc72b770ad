"""A team's shared state with the real Pulumi CLI: two at once, a lost laptop, and another key.

The bucket and the key are those of an emulated AWS on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from gpufleet.lab.aws import daemon

pytestmark = pytest.mark.skipif(shutil.which("pulumi") is None, reason="the Pulumi CLI is not on PATH")

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "atlas-state-123456789012"
PROVIDER = "awskms://alias/atlas-state?region=us-east-1"
SECRET = "hunter2"


class Team:
    """A checkout, the emulated account, and the environment of its commands."""

    def __init__(self, folder: Path, cloud: Path) -> None:
        self.root = folder
        self.address = daemon.ensure(cloud)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "PULUMI_"))}
        self.env = {
            **kept,
            **daemon.sandbox_env(self.address),
            "AWS_REGION": "us-east-1",
            "PULUMI_HOME": str(cloud / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        self.env.pop("PULUMI_CONFIG_PASSPHRASE", None)

    def gpufleet(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "gpufleet.cli.entry", *words])

    def pulumi(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run(["pulumi", "--non-interactive", *words])

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.root, env=self.env, capture_output=True, text=True, check=False
        )

    def done(self, *words: str) -> str:
        made = self.pulumi(*words)
        assert made.returncode == 0, made.stderr
        return made.stdout

    def s3(self) -> object:
        return boto3.client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.address.url,
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
        )

    def elsewhere(self, folder: Path, *, with_settings: bool = True) -> Team:
        """A fresh clone of the repository on another machine: nothing but its files."""
        folder.mkdir()
        shutil.copy(self.root / "Pulumi.yaml", folder)
        names = shutil.ignore_patterns("__pycache__", *(() if with_settings else ("Pulumi.prod.yaml",)))
        shutil.copytree(self.root / "stacks", folder / "stacks", ignore=names)
        other = object.__new__(Team)
        other.root, other.address = folder, self.address
        other.env = {**self.env, "PULUMI_HOME": str(folder / "home")}
        return other


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A checkout with the shared state of prod."""
    cloud, checkout = tmp_path / "cloud", tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", checkout)
    shutil.copytree(ROOT / "stacks", checkout / "stacks", ignore=shutil.ignore_patterns("__pycache__"))
    made = Team(checkout, cloud)
    try:
        answer = made.gpufleet("backend", "create", "prod", "--yes", "--json")
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout)["stack"] == "created"
        yield made
    finally:
        daemon.stop(cloud)


def settings(team: Team) -> str:
    return (team.root / "stacks" / "Pulumi.prod.yaml").read_text()


def test_stack_is_in_the_bucket_with_its_secrets_under_the_key(team: Team) -> None:
    assert f"secretsprovider: {PROVIDER}" in settings(team)
    assert "encryptedkey:" in settings(team)
    team.done("config", "set", "--secret", "gpufleet:token", SECRET, "-s", "prod")
    assert SECRET not in settings(team)
    assert team.done("config", "get", "gpufleet:token", "-s", "prod").strip() == SECRET
    keys = [each["Key"] for each in team.s3().list_objects_v2(Bucket=BUCKET)["Contents"]]  # type: ignore[attr-defined]
    assert ".pulumi/stacks/gpufleet/prod.json" in keys


def test_second_creation_finds_the_stack(team: Team) -> None:
    answer = team.gpufleet("backend", "create", "prod", "--json")
    assert answer.returncode == 0, answer.stderr
    assert (json.loads(answer.stdout)["changed"], json.loads(answer.stdout)["stack"]) == ([], "there")


def test_second_person_is_refused_while_the_first_runs(team: Team, tmp_path: Path) -> None:
    lock = {"pid": 1, "username": "ada", "hostname": "desk", "timestamp": "2030-01-01T00:00:00Z"}
    where = ".pulumi/locks/organization/gpufleet/prod/first.json"
    team.s3().put_object(Bucket=BUCKET, Key=where, Body=json.dumps(lock).encode())  # type: ignore[attr-defined]
    state = tmp_path / "state.json"
    state.write_text(team.done("stack", "export", "-s", "prod"))
    refused = team.pulumi("stack", "import", "-s", "prod", "--file", str(state))
    assert refused.returncode != 0
    assert "the stack is currently locked by 1 lock(s)" in refused.stderr
    assert "ada@desk" in refused.stderr
    team.done("cancel", "--yes", "-s", "prod")
    team.done("stack", "import", "-s", "prod", "--file", str(state))


@pytest.mark.parametrize("with_settings", [True, False])
def test_fresh_checkout_reads_the_state_and_its_secrets(
    team: Team, tmp_path: Path, with_settings: bool
) -> None:
    exported = json.loads(team.done("stack", "export", "-s", "prod"))
    other = team.elsewhere(tmp_path / "new", with_settings=with_settings)
    assert json.loads(other.done("stack", "export", "-s", "prod")) == exported
    from_us = other.gpufleet("state", "export", "prod", "--cloud", "aws", "--engine", "pulumi")
    assert from_us.returncode == 0, from_us.stderr
    assert json.loads(from_us.stdout) == exported


def test_another_key_takes_over_and_the_old_one_is_no_longer_needed(team: Team) -> None:
    team.done("config", "set", "--secret", "gpufleet:token", SECRET, "-s", "prod")
    answer = team.gpufleet("backend", "create", "prod", "--key", "alias/atlas-state-2", "--yes", "--json")
    assert answer.returncode == 0, answer.stderr
    reported = json.loads(answer.stdout)
    assert reported["stack"] == "has another key"
    other = "awskms://alias/atlas-state-2?region=us-east-1"
    assert reported["commands"] == [f"pulumi stack change-secrets-provider -s prod '{other}'"]
    team.done("stack", "change-secrets-provider", "-s", "prod", other)
    assert f"secretsprovider: {other}" in settings(team)
    kms = boto3.client(
        "kms",
        region_name="us-east-1",
        endpoint_url=team.address.url,
        aws_access_key_id=team.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=team.env["AWS_SECRET_ACCESS_KEY"],
    )
    kms.disable_key(KeyId=kms.describe_key(KeyId="alias/atlas-state")["KeyMetadata"]["KeyId"])
    assert team.done("config", "get", "gpufleet:token", "-s", "prod").strip() == SECRET
    again = team.gpufleet("backend", "create", "prod", "--json")
    assert json.loads(again.stdout)["stack"] == "there"
