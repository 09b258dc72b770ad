"""A team's shared state with the real Pulumi CLI: two at once, a lost laptop, and another key.

The bucket and the key are those of an emulated AWS on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import boto3
import pytest

from gpufleet.account.backend_policies import policies
from gpufleet.account.backend_settings import BackendSettings
from gpufleet.engine.team_stack import stack_exists
from gpufleet.errors import CloudError
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


def test_role_of_one_environment_needs_the_state_of_no_other(team: Team) -> None:
    answer = team.gpufleet("backend", "create", "dev", "--yes", "--json")
    assert answer.returncode == 0, answer.stderr
    settings = BackendSettings("atlas", "123456789012", "aws", "us-east-1", BUCKET, "alias/atlas-state")
    role = object.__new__(Team)
    role.root, role.address = team.root, team.address
    for name in ("dev", "qa"):
        policy = policies(settings, "arn:key", "gpufleet", name)[f"atlas-state-ci-{name}"]
        with guarded(team.address.url, policy) as url:
            role.env = {**team.env, "AWS_ENDPOINT_URL_S3": url}
            assert "StatusCode: 403" in role.pulumi("stack", "export", "-s", "prod").stderr
            assert stack_exists(team.root, name, role.env) == (name == "dev")
            with pytest.raises(CloudError, match="PermissionDenied"):
                stack_exists(team.root, "prod", role.env)
            if name == "dev":
                done = role.gpufleet("state", "export", "dev", "--cloud", "aws", "--engine", "pulumi")
                assert done.returncode == 0, done.stderr


@contextmanager
def guarded(url: str, policy: Mapping[str, Any]) -> Iterator[str]:
    """The address of an S3 that allows what a policy allows, and passes it on."""

    class Guard(BaseHTTPRequestHandler):
        def answer(self) -> None:
            path = urlsplit(self.path).path.lstrip("/")
            verb = "ListBucket" if "/" not in path.rstrip("/") else VERBS[self.command]
            given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not any(
                f"s3:{verb}" in each["Action"] and fnmatchcase(f"arn:aws:s3:::{path.rstrip('/')}", resource)
                for each in policy["Statement"]
                for resource in each["Resource"]
            ):
                return self.reply(403, b"<Error><Code>AccessDenied</Code></Error>", {})
            asked = Request(f"{url}{self.path}", given or None, dict(self.headers), method=self.command)
            try:
                with urlopen(asked) as found:
                    self.reply(found.status, found.read(), dict(found.headers))
            except HTTPError as refused:
                self.reply(refused.code, refused.read(), dict(refused.headers))

        def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in (
                    "content-length",
                    "transfer-encoding",
                    "connection",
                    "date",
                    "server",
                ):
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - the server's names

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


VERBS = {
    "GET": "GetObject",
    "HEAD": "GetObject",
    "PUT": "PutObject",
    "POST": "PutObject",
    "DELETE": "DeleteObject",
}


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
