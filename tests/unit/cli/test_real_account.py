"""A real account runs on the Pulumi CLI, and its identity is checked first."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Literal

import pytest

from gpufleet.cli.account import require_account
from gpufleet.containment import GIVEN_FLEET_FILE
from gpufleet.errors import CloudError, InputError

from .conftest import FakeEngine, Gpufleet

INSTALL = "curl -fsSL https://get.pulumi.com | sh"
RUNS = [("preview",), ("up", "--yes"), ("refresh", "--yes"), ("destroy", "--yes")]
_ANSWER = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    "<Arn>arn:aws:iam::123456789012:user/ops</Arn><UserId>AIDA</UserId><Account>123456789012</Account>"
    "</GetCallerIdentityResult></GetCallerIdentityResponse>"
)
_REFUSAL = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>InvalidClientTokenId</Code><Message>The security token included in the request is invalid."
    "</Message></Error></ErrorResponse>"
)


class _Sts(BaseHTTPRequestHandler):
    """Accepts the credentials in every region except those of `closed`."""

    closed: tuple[str, ...] = ()
    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        region = self.headers["Authorization"].split("/")[2]
        self.asked.append(region)
        refused = region in self.closed or "*" in self.closed
        body = (_REFUSAL if refused else _ANSWER).encode()
        self.send_response(403 if refused else 200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a Pulumi CLI, credentials or metadata service; its PATH is the folder returned."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def sts(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Sts]]:
    """STS on the loopback, and credentials for it."""
    handler = type("Handler", (_Sts,), {"asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cli(bare: Path) -> Path:
    """A Pulumi CLI that records its calls and only prints its version."""
    calls = bare.parent / "calls"
    executable = bare / "pulumi"
    executable.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n[ "$1" = version ] && echo v3.200.0\n')
    executable.chmod(0o755)
    return calls


@pytest.mark.parametrize("run", RUNS)
def test_missing_cli_is_reported_first_with_the_install_command(
    gpufleet: Gpufleet, bare: Path, run: tuple[str, ...]
) -> None:
    verb, *options = run
    answer = gpufleet(verb, "dev", *options)
    assert answer.code == 2
    assert answer.out == ""
    first, *rest = answer.err.splitlines()
    assert first == "error: a real account needs the Pulumi CLI, which is not on PATH"
    assert INSTALL in "\n".join(rest)
    assert "USD" not in answer.err
    assert "credentials" not in answer.err


@pytest.mark.parametrize("run", RUNS)
def test_embedded_engine_is_refused_on_a_real_account(
    gpufleet: Gpufleet, bare: Path, run: tuple[str, ...]
) -> None:
    verb, *options = run
    answer = gpufleet(verb, "dev", "--engine", "embedded", "--cloud", "aws", *options)
    assert answer.code == 2
    assert "--engine embedded does not support real accounts" in answer.err
    assert "it serves the sandbox, `check` and tests" in answer.err
    assert INSTALL in answer.err
    assert "--cloud sandbox" in answer.err


@pytest.mark.parametrize("run", RUNS)
def test_credentials_are_checked_before_the_cli_runs(
    gpufleet: Gpufleet, cli: Path, run: tuple[str, ...]
) -> None:
    verb, *options = run
    answer = gpufleet(verb, "dev", *options)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: no AWS credentials were found")
    assert "AWS_PROFILE" in answer.err
    assert not cli.exists()


def test_check_on_a_real_account_needs_the_cli_first(gpufleet: Gpufleet, bare: Path) -> None:
    answer = gpufleet("check", "dev", "--engine", "pulumi")
    assert answer.code == 2
    assert answer.err.splitlines()[0] == "error: a real account needs the Pulumi CLI, which is not on PATH"


def test_refused_credentials_are_reported_before_the_cli_runs(
    gpufleet: Gpufleet, cli: Path, sts: type[_Sts]
) -> None:
    sts.closed = ("*",)
    answer = gpufleet("preview", "dev")
    assert answer.code == 2
    assert "AWS rejected the credentials" in answer.err
    assert "InvalidClientTokenId" in answer.err
    assert not cli.exists()


def test_disabled_region_is_named(
    gpufleet: Gpufleet, cli: Path, sts: type[_Sts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    sts.closed = ("us-east-1",)
    answer = gpufleet("preview", "dev")
    assert answer.code == 2
    assert "the account ending in 9012 cannot use region us-east-1 (InvalidClientTokenId)" in answer.err
    assert "aws account enable-region --region-name us-east-1" in answer.err
    assert not cli.exists()
    assert sts.asked == ["eu-central-1", "us-east-1"]


def test_accepted_credentials_lead_to_the_cli_and_the_account_is_shown(
    gpufleet: Gpufleet, cli: Path, sts: type[_Sts]
) -> None:
    answer = gpufleet("preview", "dev")
    assert answer.code == 4
    assert "engine: pulumi" in answer.out.splitlines()[0]
    assert "account: ********9012" in answer.out
    assert cli.read_text()


def test_unreachable_account_is_not_reported_as_bad_credentials(
    sts: type[_Sts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9")
    with pytest.raises(CloudError, match="AWS does not respond in region us-east-1") as silent:
        require_account()
    assert "network" in silent.value.remedy


def test_unknown_profile_is_refused(bare: Path) -> None:
    with pytest.raises(InputError, match="nobody"):
        require_account(profile="nobody")


def test_state_of_the_embedded_engine_is_handed_over_before_the_cli_runs(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    stack = {"urn": "urn:pulumi:dev::gpufleet::pulumi:pulumi:Stack::gpufleet-dev", "custom": False}
    deployment = {"manifest": {}, "resources": [{**stack, "type": "pulumi:pulumi:Stack"}]}
    state = workplace / ".gpufleet" / "state" / "aws" / "dev.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"version": 3, "deployment": deployment}), encoding="utf-8")
    answer = gpufleet("up", "dev", "--yes")
    assert answer.code == 2
    assert engine.asked == []
    assert "the embedded engine has the stack dev" in answer.err
    assert "gpufleet state export dev --cloud aws >dev.json" in answer.err
    assert gpufleet("up", "dev", "--yes", "--engine", "pulumi").code == 0


@pytest.mark.usefixtures("bare")
def test_state_of_a_real_account_can_be_listed_without_the_cli(gpufleet: Gpufleet, workplace: Path) -> None:
    stack = {"urn": "urn:pulumi:dev::gpufleet::pulumi:pulumi:Stack::gpufleet-dev", "custom": False}
    deployment = {"manifest": {}, "resources": [{**stack, "type": "pulumi:pulumi:Stack"}]}
    state = workplace / ".gpufleet" / "state" / "aws" / "dev.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"version": 3, "deployment": deployment}), encoding="utf-8")
    answer = gpufleet("state", "list", "dev")
    assert answer.code == 0
    assert "gpufleet-dev" in answer.out


def test_settings_only_for_the_cli_do_not_stop_a_real_account(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    settings = workplace / "stacks" / "Pulumi.dev.yaml"
    settings.write_text(
        "config:\n  gpufleet:cloud: aws\n  gpufleet:token: {secure: v1:abc}\n  aws:defaultTags: {tags: {}}\n"
    )
    assert gpufleet("preview", "dev").code == 0


@pytest.mark.parametrize("name", ["pulumi", "embedded"])
def test_encrypted_settings_stop_the_sandbox_only_on_the_embedded_engine(
    gpufleet: Gpufleet,
    engine: FakeEngine,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: Literal["pulumi", "embedded"],
) -> None:
    engine.name = name
    monkeypatch.setattr("gpufleet.lab.aws.daemon.ensure", lambda *_, **__: None)
    monkeypatch.setattr("gpufleet.lab.aws.daemon.sandbox_env", lambda _: {})
    settings = workplace / "stacks" / "Pulumi.dev.yaml"
    settings.write_text("config:\n  gpufleet:token: {secure: v1:abc}\n  aws:defaultTags: {tags: {}}\n")
    answer = gpufleet("preview", "dev", "--cloud", "sandbox", "--engine", name)
    if name == "pulumi":
        assert answer.code == 0
        (request,) = [request for verb, request in engine.asked if verb == "preview"]
        assert "gpufleet:token" not in request.config
    else:
        assert answer.code == 2
        assert "gpufleet:token is encrypted or structured" in answer.err
        assert "--engine pulumi" in answer.err


def test_fleet_file_path_is_passed_on_unchanged(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    path = workplace / "stacks" / "dev" / "fleet.yaml"
    assert gpufleet("preview", str(path)).code == 0
    assert engine.asked[-1][1].env[GIVEN_FLEET_FILE] == str(path)
    assert gpufleet("preview", "dev").code == 0
    assert GIVEN_FLEET_FILE not in engine.asked[-1][1].env
