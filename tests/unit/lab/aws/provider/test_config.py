"""The provider stays in the sandbox: loopback only, no real credentials, and its own settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID
from gpufleet.lab.aws.provider.config import parse, sandbox_folder, unknown_keys

REAL_KEY = "AKIA" + "IOSFODNN7EXAMPLE"


def test_settings_are_passed_as_json_text() -> None:
    config = parse(
        {
            "region": "eu-west-1",
            "defaultTags": json.dumps({"tags": {"team": "ml"}}),
            "allowedAccountIds": json.dumps(["123456789012"]),
            "endpoints": json.dumps([{"ec2": "http://127.0.0.1:5000/", "s3": "http://127.0.0.1:5000"}]),
        },
        {},
    )
    assert config.region == "eu-west-1"
    assert config.default_tags == {"team": "ml"}
    assert config.allowed_accounts == ("123456789012",)
    assert config.endpoint == "http://127.0.0.1:5000"


def test_region_comes_from_the_environment_by_default() -> None:
    assert parse({}, {"AWS_REGION": "us-west-2"}).region == "us-west-2"
    assert parse({}, {"AWS_DEFAULT_REGION": "eu-west-1"}).region == "eu-west-1"
    assert parse({"region": "us-east-2"}, {"AWS_REGION": "us-west-2"}).region == "us-east-2"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "http://127.8.8.8:1"]
)
def test_loopback_endpoint_is_accepted(url: str) -> None:
    assert parse({}, {"AWS_ENDPOINT_URL": url}).endpoint == url


@pytest.mark.parametrize(
    "url",
    [
        "https://ec2.us-east-1.amazonaws.com",
        "http://10.0.0.1:5000",
        "http://localhost.evil.example:5000",
        "nonsense",
    ],
)
def test_any_other_endpoint_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(InputError, match="not on loopback") as caught:
        parse({}, {"AWS_ENDPOINT_URL": url})
    assert "AWS_ENDPOINT_URL" in caught.value.remedy
    with pytest.raises(InputError, match="not on loopback"):
        parse({"endpoints": [{"ec2": url}]}, {})


def test_one_invalid_endpoint_among_valid_ones_is_refused() -> None:
    with pytest.raises(InputError, match="not on loopback"):
        parse({"endpoints": [{"ec2": "http://127.0.0.1:1", "s3": "https://s3.amazonaws.com"}]}, {})


def test_two_endpoints_are_refused() -> None:
    with pytest.raises(InputError, match="several addresses"):
        parse({"endpoints": [{"ec2": "http://127.0.0.1:1", "s3": "http://127.0.0.1:2"}]}, {})


def test_real_credentials_are_refused_from_any_source() -> None:
    with pytest.raises(InputError, match="AWS_ACCESS_KEY_ID"):
        parse({}, {"AWS_ACCESS_KEY_ID": REAL_KEY})
    with pytest.raises(InputError, match="aws:accessKey"):
        parse({"accessKey": REAL_KEY}, {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID})


def test_refusal_shows_no_complete_key() -> None:
    with pytest.raises(InputError) as caught:
        parse({}, {"AWS_ACCESS_KEY_ID": REAL_KEY})
    assert REAL_KEY not in f"{caught.value.message}{caught.value.remedy}"


def test_profile_and_role_are_refused() -> None:
    for key in ("profile", "assumeRoles", "token"):
        with pytest.raises(InputError, match=f"aws:{key}"):
            parse({key: "x"}, {})


def test_sandbox_key_is_accepted() -> None:
    assert parse({"accessKey": ACCESS_KEY_ID}, {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID}).endpoint == ""


def test_unknown_settings_are_named() -> None:
    assert unknown_keys({"region": "x", "regoin": "y", "__internal": {}}) == ["regoin"]


def test_emulated_aws_of_the_checkout_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUFLEET_SANDBOX_DIR", raising=False)
    (tmp_path / "Pulumi.yaml").write_text("name: x\n")
    deep = tmp_path / "stacks" / "dev"
    deep.mkdir(parents=True)
    assert sandbox_folder(deep) == tmp_path.resolve() / ".gpufleet" / "sandbox"


def test_folder_in_the_environment_has_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFLEET_SANDBOX_DIR", str(tmp_path / "elsewhere"))
    assert sandbox_folder(tmp_path) == tmp_path / "elsewhere"
