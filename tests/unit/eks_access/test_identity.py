"""The identity of a stack: its roles as STS takes them, and who is the same principal."""

from __future__ import annotations

import base64
import datetime as dt
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from gpufleet.eks_access.identity import AwsIdentity, assume_role_parameters, read_roles, same_principal
from gpufleet.eks_access.token import exec_credential
from gpufleet.errors import InputError

ROLE = "arn:aws:iam::123456789012:role/ops/deploy"


def test_fields_of_the_provider_are_parameters_of_sts() -> None:
    assert assume_role_parameters(
        {
            "role_arn": ROLE,
            "external_id": "x",
            "duration": "1h30m",
            "policy_arns": ["arn:aws:iam::aws:policy/ReadOnlyAccess"],
            "tags": {"team": "ml"},
        }
    ) == {
        "RoleArn": ROLE,
        "RoleSessionName": "gpufleet",
        "ExternalId": "x",
        "DurationSeconds": 5400,
        "PolicyArns": [{"arn": "arn:aws:iam::aws:policy/ReadOnlyAccess"}],
        "Tags": [{"Key": "team", "Value": "ml"}],
    }


@pytest.mark.parametrize(
    "role", [{"role_arn": ROLE, "duration": "soon"}, {"role_arn": ROLE, "colour": "red"}]
)
def test_role_that_sts_does_not_take_is_refused(role: dict[str, str]) -> None:
    with pytest.raises(InputError, match="aws:assumeRoles") as error:
        assume_role_parameters(role)
    assert error.value.remedy


@pytest.mark.parametrize("text", ["role", "{}", '[{"name": "x"}]', "[1]"])
def test_roles_that_are_no_list_of_roles_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="JSON list of roles"):
        read_roles(text)
    assert read_roles(None) == ()


def test_options_of_the_command_give_the_same_identity_back() -> None:
    identity = AwsIdentity("training", ({"role_arn": ROLE, "external_id": "x"},))
    profile, name, roles, text = identity.arguments()
    assert (profile, name, roles) == ("--profile", "training", "--assume-roles")
    assert AwsIdentity(name, read_roles(text)) == identity
    assert AwsIdentity().arguments() == []


def test_session_of_a_role_is_the_role_whatever_its_path() -> None:
    session = "arn:aws:sts::123456789012:assumed-role/deploy/ci"
    assert same_principal(session, ["arn:aws:iam::123456789012:role/other", ROLE]) == ROLE
    assert same_principal(ROLE, ["arn:aws:iam::123456789012:user/deploy"]) is None
    assert same_principal(ROLE, ["arn:aws:iam::210987654321:role/ops/deploy"]) is None
    assert same_principal("arn:aws:iam::123456789012:root", ["arn:aws:iam::123456789012:root"]) is None


def test_token_is_a_signed_question_for_the_caller_bound_to_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    now = dt.datetime(2030, 1, 1, 12, 0, tzinfo=dt.UTC)
    text = exec_credential(AwsIdentity().session("eu-north-1"), "atlas", "eu-north-1", now)
    given = json.loads(text)
    assert (given["kind"], given["apiVersion"]) == (
        "ExecCredential",
        "client.authentication.k8s.io/v1beta1",
    )
    assert given["status"]["expirationTimestamp"] == "2030-01-01T12:14:00Z"
    prefix, _, encoded = given["status"]["token"].partition(".")
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    asked = parse_qs(url.query)
    assert (prefix, url.netloc) == ("k8s-aws-v1", "sts.eu-north-1.amazonaws.com")
    assert asked["Action"] == ["GetCallerIdentity"]
    assert asked["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert asked["X-Amz-Expires"] == ["60"]
    assert asked["X-Amz-Credential"][0].endswith("/eu-north-1/sts/aws4_request")
    assert "hidden" not in text
