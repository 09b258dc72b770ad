"""provider-account: roles, credentials and endpoints that lead elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.security.provider_account import provider_account
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.examples import policy_context, resource
from gpufleet.policy.settings import PackConfig, configure
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack

ROLE = "arn:aws:iam::111122223333:role/deploy"


def judged(
    config: dict[str, str] | None = None, accounts: tuple[str, ...] = (), **props: Any
) -> list[RuleViolation]:
    provider = resource({"type": "pulumi:providers:aws", "name": "aws", "props": props})
    given = {"provider-account": PackConfig(settings={"accounts": accounts})}
    shared = policy_context(config=config or {"gpufleet:cloud": "aws"})
    return RuleEvaluator(configure([provider_account], pack_config=given), shared).resource(provider)


@pytest.mark.parametrize(
    "props",
    [
        {"assumeRoles": [{"roleArn": ROLE}]},
        {"assumeRoles": json.dumps([{"roleArn": ROLE}])},
        {"assumeRole": {"roleArn": ROLE}},
        {"assumeRoles": [{"roleArn": UNKNOWN}]},
        {"assumeRoles": UNKNOWN},
        {"assumeRoleWithWebIdentity": {"roleArn": ROLE, "webIdentityToken": "x"}},
        {"profile": "other"},
        {"accessKey": "AKIAIOSFODNN7EXAMPLE", "secretKey": UNKNOWN},
        {"sharedCredentialsFiles": ["/tmp/other"]},
        {"endpoints": [{"ec2": "https://ec2.example.com"}]},
        {"endpoints": json.dumps([{"ec2": "http://127.0.0.1.example.com"}])},
        {"endpoints": UNKNOWN},
    ],
)
def test_provider_of_another_account_or_endpoint_is_found(props: dict[str, Any]) -> None:
    assert judged(**props)


def test_provider_with_a_region_and_a_known_account_passes() -> None:
    assert judged(region="us-east-1", skipRegionValidation="true") == []
    assert judged(accounts=("111122223333",), assumeRoles=[{"roleArn": ROLE}]) == []
    assert judged(accounts=("444455556666",), assumeRoles=[{"roleArn": ROLE}])


@pytest.mark.parametrize(
    ("roles", "shown", "unknown"),
    [
        ([{"roleArn": ROLE}], "assumes a role in account 111122223333", False),
        (ROLE, "assumes a role in account 111122223333", False),
        (UNKNOWN, "assumes a role in an unknown account", True),
        ([{"roleArn": UNKNOWN}], "assumes a role in an unknown account", True),
        ([{"sessionName": "x"}], "assumes a role in an unknown account", True),
        ("not-an-arn", "assumes a role in an unknown account", True),
    ],
)
def test_message_has_the_account_of_a_role_if_it_is_known(roles: Any, shown: str, unknown: bool) -> None:
    (found,) = judged(assumeRoles=roles)
    assert shown in found.message
    assert found.violation.unknown is unknown


@pytest.mark.parametrize("endpoints", ["http://127.0.0.1:5000", [{"ec2": "http://localhost:5000"}]])
def test_endpoint_of_this_machine_is_no_other_account(endpoints: Any) -> None:
    assert judged(endpoints=endpoints) == []


@pytest.mark.parametrize("endpoints", [[{"ec2": None, "s3": ""}], [], None, "", "null"])
def test_endpoint_that_is_not_set_is_that_of_aws(endpoints: Any) -> None:
    assert judged(endpoints=endpoints) == []


@pytest.mark.parametrize(
    "endpoints",
    ["https://ec2.example.com", [{"ec2": UNKNOWN}], [{"s3": "", "ec2": "https://ec2.example.com"}], UNKNOWN],
)
def test_endpoint_elsewhere_is_reported_once(endpoints: Any) -> None:
    (found,) = judged(endpoints=endpoints)
    assert "uses endpoints outside AWS" in found.message


@pytest.mark.parametrize("value", ["", [], None])
def test_credential_that_is_empty_is_none(value: Any) -> None:
    assert judged(profile=value, sharedCredentialsFiles=value) == []
    assert judged(profile=UNKNOWN)


def test_emulated_aws_has_keys_and_no_roles() -> None:
    sandbox = {"gpufleet:cloud": "sandbox"}
    keys: dict[str, Any] = {
        "accessKey": "x",
        "secretKey": "y",
        "endpoints": [{"ec2": "http://127.0.0.1:5000"}],
    }
    assert judged(sandbox, **keys) == []
    assert judged(sandbox, **keys, assumeRoles=[{"roleArn": ROLE}])
    assert judged(**keys)


def test_shipped_environments_have_providers_that_the_rule_checks(emitted: Callable[[str], Stack]) -> None:
    providers = emitted("prod").of_type("pulumi:providers:aws")
    judge = RuleEvaluator(configure([provider_account]), policy_context(config={"gpufleet:cloud": "sandbox"}))
    assert providers
    assert [found.message for each in providers for found in judge.resource(each)] == []
