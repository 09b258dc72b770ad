"""`gpufleet backend` on an emulated account, without the Pulumi CLI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.unit.stacks.moto_mocks import emulated_aws

from .conftest import Gpufleet

ACCOUNT = "123456789012"
BUCKET = f"atlas-state-{ACCOUNT}"
URL = f"s3://{BUCKET}?region=us-east-1"
PROVIDER = "awskms://alias/atlas-state?region=us-east-1"


@pytest.fixture
def account(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout, an account, and no Pulumi CLI."""
    with emulated_aws():
        monkeypatch.setenv("PATH", str(workplace))
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield workplace


def buckets() -> list[str]:
    return [each["Name"] for each in boto3.client("s3", region_name="us-east-1").list_buckets()["Buckets"]]


def test_backend_is_created_once_and_written_into_the_project(account: Path, gpufleet: Gpufleet) -> None:
    before = (account / "Pulumi.yaml").read_text()
    first = gpufleet("backend", "create", "prod", "--yes", "--json")
    assert first.code == 0, first.err
    assert {"key", "bucket", "versioning", "encryption"} <= set(first.json["changed"])
    assert first.json["stack"] == "not initialised"
    assert first.json["commands"] == [
        f"pulumi login '{URL}'",
        f"pulumi stack init prod --secrets-provider '{PROVIDER}'",
    ]
    assert (account / "Pulumi.yaml").read_text() == f"{before}backend:\n  url: {URL}\n"
    again = gpufleet("backend", "create", "prod", "--json")
    assert (again.code, again.json["changed"]) == (0, [])
    assert buckets() == [BUCKET]


def test_change_of_the_account_needs_a_confirmation(account: Path, gpufleet: Gpufleet) -> None:
    answer = gpufleet("backend", "create", "prod")
    assert answer.code == 2
    assert "a change of the account needs confirmation" in answer.err
    assert buckets() == []
    assert "backend:" not in (account / "Pulumi.yaml").read_text()


def test_show_reports_what_differs_with_code_1_and_create_repairs_it(
    account: Path, gpufleet: Gpufleet
) -> None:
    assert gpufleet("backend", "show", "prod").code == 1
    gpufleet("backend", "create", "prod", "--yes")
    assert gpufleet("backend", "show", "prod").code == 0
    boto3.client("s3", region_name="us-east-1").put_bucket_versioning(
        Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"}
    )
    shown = gpufleet("backend", "show", "prod", "--json")
    assert shown.code == 1
    found = [part for part in shown.json["parts"] if part["status"] != "ok"]
    assert [(part["name"], part["found"]) for part in found] == [("versioning", "Suspended")]
    assert gpufleet("backend", "create", "prod", "--yes", "--json").json["changed"] == ["versioning"]


def test_without_policies_iam_is_left_alone(account: Path, gpufleet: Gpufleet) -> None:
    assert gpufleet("backend", "create", "prod", "--yes", "--no-policies").code == 0
    assert boto3.client("iam").list_policies(Scope="Local")["Policies"] == []


def test_another_backend_of_the_project_is_refused_before_anything_is_created(
    account: Path, gpufleet: Gpufleet
) -> None:
    with (account / "Pulumi.yaml").open("a") as file:
        file.write("backend:\n  url: s3://elsewhere?region=us-east-1\n")
    answer = gpufleet("backend", "create", "prod", "--bucket", "other-bucket", "--yes")
    assert answer.code == 2
    assert "has the backend s3://elsewhere?region=us-east-1" in answer.err
    assert "pulumi stack export" in answer.err
    assert buckets() == []


def test_region_that_aws_does_not_have_is_refused(account: Path, gpufleet: Gpufleet) -> None:
    answer = gpufleet("backend", "create", "prod", "--region", "mars-north-1", "--yes")
    assert answer.code == 2
    assert "AWS has no region 'mars-north-1'" in answer.err


def test_missing_credentials_are_refused_with_a_remedy(account: Path, gpufleet: Gpufleet) -> None:
    # Undone before the emulated account, which removes its own keys: they would come back for other tests.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(account / "none"))
        answer = gpufleet("backend", "create", "prod", "--yes")
    assert answer.code == 2
    assert "no AWS credentials were found" in answer.err
    assert "aws sso login" in answer.err


def test_stack_with_another_key_is_told_how_to_change_it(account: Path, gpufleet: Gpufleet) -> None:
    old = "awskms://alias/old?region=us-east-1"
    with (account / "stacks" / "Pulumi.prod.yaml").open("a") as file:
        file.write(f"secretsprovider: {old}\nencryptedkey: AAAA\n")
    answer = gpufleet("backend", "create", "prod", "--key", "alias/new", "--yes", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["stack"] == "has another key"
    assert answer.json["commands"] == [
        "pulumi stack change-secrets-provider -s prod 'awskms://alias/new?region=us-east-1'"
    ]
    # Without --key, the stack's own key is the one to use.
    assert gpufleet("backend", "create", "prod", "--yes", "--json").json["secrets_provider"] == old


def test_print_needs_no_credentials_with_an_account(account: Path, gpufleet: Gpufleet) -> None:
    asked = ("backend", "print", "prod", "--account", ACCOUNT)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        template = json.loads(gpufleet(*asked).out)
    assert template["Resources"]["Bucket"]["Properties"]["BucketName"] == BUCKET
    policies = json.loads(gpufleet(*asked, "--only", "policies").out)
    assert set(policies) == {"atlas-state-people", "atlas-state-ci-prod", "atlas-state-preview"}
    assert gpufleet(*asked, "--only", "commands").out.splitlines()[0] == f"pulumi login '{URL}'"
    assert buckets_are_untouched()


def buckets_are_untouched() -> bool:
    return not Path("Pulumi.yaml").read_text().count("backend:")


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--account", "1234-5678"), "12 digits"), (("--account", ACCOUNT, "--only", "yaml"), "--only yaml")],
)
def test_impossible_options_of_print_are_refused(
    account: Path, gpufleet: Gpufleet, words: tuple[str, ...], message: str
) -> None:
    answer = gpufleet("backend", "print", "prod", *words)
    assert answer.code == 2
    assert message in answer.err
