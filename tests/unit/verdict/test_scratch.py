"""The folder and the emulated AWS that live as long as one verdict."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import botocore.session
import pytest

from gpufleet.errors import GpufleetError
from gpufleet.lab.aws import throwaway as module
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.server.process import Files, process_start
from gpufleet.verdict.scratch import scratch


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/", timeout=5)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def test_scratch_account_answers_and_leaves_no_files() -> None:
    with scratch() as own:
        account, folder = own.account, own.folder
        endpoint = account.endpoint
        assert _answers(endpoint.url)
        assert account.env["AWS_ENDPOINT_URL"] == endpoint.url
    assert not _answers(endpoint.url)
    assert process_start(endpoint.pid) == ""
    assert not folder.exists()


def test_scratch_account_is_not_saved_on_exit() -> None:
    with scratch() as own:
        endpoint = own.account.endpoint
        keys = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}
        session = botocore.session.Session()
        ec2 = session.create_client("ec2", "us-east-1", endpoint_url=endpoint.url, **keys)
        ec2.create_vpc(CidrBlock="10.0.0.0/16")
        os.kill(endpoint.pid, signal.SIGTERM)
        own.account.wait()
        assert not Files(own.folder / "aws").snapshot.exists()


def test_second_account_continues_from_a_saved_one(tmp_path: Path) -> None:
    keys = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}
    session = botocore.session.Session()
    with scratch() as own:
        ec2 = session.create_client("ec2", "us-east-1", endpoint_url=own.account.endpoint.url, **keys)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        saved = own.account.save()
        kept = {path.relative_to(own.folder): path.read_bytes() for path in saved}
    with scratch() as other:
        for path, content in kept.items():
            (other.folder / path).parent.mkdir(exist_ok=True)
            (other.folder / path).write_bytes(content)
        other.passphrase = "that of the first"
        ec2 = session.create_client("ec2", "us-east-1", endpoint_url=other.account.endpoint.url, **keys)
        assert ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"]
        assert other.account.env["PULUMI_CONFIG_PASSPHRASE"] == "that of the first"


def test_scratch_account_is_removed_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), scratch() as own:
        pid, folder = own.account.endpoint.pid, own.folder
        _ = 1 / 0
    assert process_start(pid) == ""
    assert not folder.exists()


def test_two_scratch_accounts_are_isolated() -> None:
    with scratch() as this, scratch() as that:
        one, other = this.account, that.account
        assert one.endpoint != other.endpoint
        assert one.folder != other.folder
        assert one.env["PULUMI_CONFIG_PASSPHRASE"] != other.env["PULUMI_CONFIG_PASSPHRASE"]


def test_environment_has_nothing_of_the_users_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "company")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    monkeypatch.setenv("GPUFLEET_KUBECONFIG", "/home/me/.kube/config")
    with scratch() as own:
        env = {**os.environ, **own.account.env}
        assert env["AWS_PROFILE"] == "default"
        assert env["AWS_SESSION_TOKEN"] == ""
        assert env["GPUFLEET_KUBECONFIG"] == ""
        assert env["GPUFLEET_SANDBOX_DIR"].startswith(str(own.folder))


def test_server_that_fails_to_start_reports_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", "no number")
    with scratch() as own, pytest.raises(GpufleetError, match="invalid float value") as error:
        _ = own.account.endpoint
    assert error.value.exit_code == 3


def test_unused_scratch_account_never_starts() -> None:
    with scratch() as own:
        assert not any(own.folder.iterdir())
