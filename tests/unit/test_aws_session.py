"""Sessions in the account of a stack: its profile, and the roles that it assumes from there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import UnknownServiceError
from botocore.loaders import JSONFileLoader
from moto import mock_aws

from gpufleet.aws_session import open_session


@pytest.fixture(autouse=True)
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[ops]\naws_access_key_id = x\naws_secret_access_key = y\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with mock_aws(config={"core": {"mock_credentials": False}}):
        yield


def role(name: str) -> str:
    iam = open_session("ops", "us-east-1").client("iam")
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    return str(iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"])


def caller(session: boto3.Session) -> str:
    return str(session.client("sts").get_caller_identity()["Arn"])


def test_session_has_the_profile_and_the_region() -> None:
    session = open_session("ops", "eu-west-1")
    assert session.region_name == "eu-west-1"
    assert session.get_credentials().access_key == "x"


def test_roles_are_assumed_one_after_the_other() -> None:
    roles = [{"roleArn": role("first")}, {"roleArn": role("second"), "sessionName": "night"}]
    assert caller(open_session("ops", "us-east-1", roles[:1])).endswith("assumed-role/first/gpufleet")
    assert caller(open_session("ops", "us-east-1", roles)).endswith("assumed-role/second/night")


def test_sessions_read_the_model_of_a_service_once(monkeypatch: pytest.MonkeyPatch) -> None:
    open_session("ops", "us-east-1").client("fsx")
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda _self, path: pytest.fail(path))
    assert open_session("ops", "eu-west-1").client("fsx").meta.region_name == "eu-west-1"


def test_models_of_another_folder_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"metadata": {"serviceId": "Toys", "apiVersion": "1", "protocol": "json"}, "operations": {}}
    file = tmp_path / "models" / "toys" / "1" / "service-2.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(model))
    with pytest.raises(UnknownServiceError):
        open_session("ops", "us-east-1").client("toys")
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path / "models"))
    assert "toys" in open_session("ops", "us-east-1").get_available_services()
