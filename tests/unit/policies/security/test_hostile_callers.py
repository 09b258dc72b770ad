"""Generated conditions and subjects that restrict nobody: none passes. Those of one caller do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.policies.rules.security._conditions import RESTRICTING, Condition
from gpufleet.policy.evaluation import RuleViolation
from tests.unit.policies.security.test_hostile_policies import (
    ACCOUNT,
    ROLE,
    ROLE_POLICY,
    allow,
    cases_of,
    many,
)

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]


OPEN_VALUES = {
    "aws:principalorgid": ["o-*", "*", "o-a?", "${aws:PrincipalOrgID}"],
    "aws:sourceorgid": ["o-*"],
    "aws:principalorgpaths": ["o-*/r-ab12/*", "*/ou-ab12-11111111/*"],
    "aws:sourceorgpaths": ["o-*/*"],
    "aws:principalarn": [
        "arn:aws:iam::*:*",
        "arn:aws:iam::*:role/Admin",
        "arn:aws:iam::12345678901?:root",
        "arn:*",
        "arn:aws:iam::${aws:PrincipalAccount}:root",
    ],
    "aws:sourcearn": ["arn:aws:s3:::*", "arn:aws:s3:::a*", "arn:aws:ec2:*:*:instance/*", "arn:aws:s3:::?*"],
    "aws:principalaccount": ["*", "1*", "${aws:PrincipalAccount}"],
    "aws:sourceaccount": ["*", "12345678901?", "${aws:SourceAccount}"],
    "aws:sourceowner": ["*2"],
    "aws:vpcsourceaccount": ["1*"],
    "kms:calleraccount": ["????????????"],
    "s3:dataaccesspointaccount": ["1*"],
    "aws:sourcevpc": ["vpc-*", "vpc-0?", "*"],
    "aws:sourcevpce": ["vpce-*"],
    "aws:userid": ["*:*", "A*", "AROA*"],
    "elasticfilesystem:accessedviamounttarget": ["false"],
}
NARROW = {
    "aws:principalorgid": ["o-a1b2c3d4e5"],
    "aws:principalorgpaths": ["o-a1b2c3d4e5/r-ab12/ou-ab12-11111111/*"],
    "aws:principalarn": [f"arn:aws:iam::{ACCOUNT}:role/atlas-*", f"arn:aws:iam::{ACCOUNT}:*"],
    "aws:sourcearn": [f"arn:aws:sns:us-east-1:{ACCOUNT}:*", "arn:aws:s3:::atlas-data"],
    "aws:sourceaccount": [ACCOUNT],
    "aws:sourcevpc": ["vpc-0123456789abcdef0"],
    "aws:sourcevpce": ["vpce-0123456789abcdef0"],
    "aws:userid": ["AROAEXAMPLEEXAMPLE:*"],
}


def test_every_restricting_key_has_values_that_do_not_restrict() -> None:
    assert set(OPEN_VALUES) == set(RESTRICTING)


def bucket_policy(condition: Any, principal: Any = "*") -> Described:
    statement = allow("s3:GetObject", "arn:aws:s3:::b/*", Principal=principal, Condition=condition)
    document = json.dumps({"Statement": [statement]})
    return {"type": "aws:s3/bucketPolicy:BucketPolicy", "props": {"policy": document}}


def trust_of(principal: Any, condition: Any, action: str = "sts:AssumeRole") -> Described:
    statement = {"Effect": "Allow", "Principal": principal, "Action": action, "Condition": condition}
    return {"type": ROLE, "props": {"assumeRolePolicy": json.dumps({"Statement": [statement]})}}


@many
@given(data=st.data())
def test_no_condition_with_a_pattern_for_all_restricts_everyone(ask: Ask, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(OPEN_VALUES)))
    value = data.draw(st.sampled_from(OPEN_VALUES[key]))
    good = NARROW.get(key, [])
    values: Any = [*good, value] if good and data.draw(st.booleans()) else value
    operator = data.draw(st.sampled_from(("StringLike", "ArnLike", "ForAnyValue:StringLike", "Bool")))
    condition = {data.draw(cases_of(operator)): {data.draw(cases_of(key)): values}}
    principal = data.draw(st.sampled_from(("*", {"AWS": "*"}, {"AWS": ["*"]})))
    assert ask("no-public-policies", bucket_policy(condition, principal)), condition
    assert ask("iam-trust-restricted", trust_of(principal, condition)), condition


@many
@given(data=st.data())
def test_no_operator_that_is_true_for_others_restricts_everyone(ask: Ask, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(NARROW)))
    operator = data.draw(
        st.sampled_from(
            (
                "StringNotEquals",
                "StringNotLike",
                "ArnNotLike",
                "StringEqualsIfExists",
                "ArnLikeIfExists",
                "ForAllValues:StringLike",
                "ForAllValues:ArnLike",
                "Null",
                "NumericEquals",
                "Bool",
            )
        )
    )
    condition = {data.draw(cases_of(operator)): {key: NARROW[key]}}
    assert ask("no-public-policies", bucket_policy(condition)), condition
    assert ask("iam-trust-restricted", trust_of({"AWS": "*"}, condition)), condition


@pytest.mark.parametrize(("key", "value"), [(key, each) for key, found in NARROW.items() for each in found])
def test_condition_with_one_account_organisation_or_network_restricts(ask: Ask, key: str, value: str) -> None:
    operator = "ArnLike" if key.endswith("arn") else "ForAnyValue:StringLike"
    assert ask("no-public-policies", bucket_policy({operator: {key: value}})) == []


ARN = f"arn:aws:iam::{ACCOUNT}:role/atlas"


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("stringequals", "aws:principalarn", ARN),
        ("stringlike", "aws:principalarn", f"{ARN}*"),
        ("arnlike", "aws:sourcearn", "arn:aws:s3:::atlas-data"),
        ("stringequals", "aws:principalorgpaths", "o-a1b2/r-ab12/"),
        ("foranyvalue:stringlike", "aws:principalorgpaths", "o-a1b2/r-ab12/*"),
        ("stringequalsignorecase", "aws:sourceaccount", ACCOUNT),
        ("bool", "elasticfilesystem:accessedviamounttarget", "True"),
    ],
)
def test_value_of_few_callers_restricts(operator: str, key: str, value: str) -> None:
    assert Condition(operator, key, (f" {value}",)).restricts


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("bool", "aws:sourceaccount", ACCOUNT),
        ("null", "aws:userid", "AROAEXAMPLEEXAMPLE:*"),
        ("arnlike", "aws:principalorgpaths", "o-a1b2/r-ab12/*"),
        ("stringlike", "aws:principalorgpaths", "o-a1b2/${aws:PrincipalTag/path}"),
        ("stringlike", "aws:userid", "AROA"),
        ("null", "aws:principalarn", ARN),
        ("arnlike", "aws:principalarn", f"arn:aws:iam::{ACCOUNT}:role/${{aws:PrincipalTag/role}}"),
        ("arnlike", "aws:sourcearn", "arn:aws:sns:::topic"),
        ("arnlike", "aws:sourcearn", "arn:aws:s3:::"),
        ("stringequals", "elasticfilesystem:accessedviamounttarget", "true"),
        ("bool", "elasticfilesystem:accessedviamounttarget", "false"),
    ],
)
def test_operator_or_value_that_fits_no_caller_of_its_own_restricts_nobody(
    operator: str, key: str, value: str
) -> None:
    assert not Condition(operator, key, (value,)).restricts


def test_condition_without_values_restricts_nobody() -> None:
    assert not Condition("stringequals", "aws:sourceaccount", ()).restricts
    assert not Condition("stringequals", "aws:resourcetag/team", ()).scopes


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("stringequals", "aws:resourcetag/team", "ml"),
        ("stringequals", "aws:resourcetag/team", "*"),
        ("stringlike", "aws:resourcetag/team", "ml*"),
        ("stringlike", "aws:resourcetag/team", "${aws:PrincipalTag/team}"),
        ("null", "aws:resourcetag/elbv2.k8s.aws/cluster", "false"),
        ("stringlike", "ec2:resourcetag/csivolumename", "*"),
        ("stringequals", "ec2:createaction", "RunInstances"),
        ("arnequals", "iam:permissionsboundary", f"arn:aws:iam::{ACCOUNT}:policy/boundary"),
    ],
)
def test_condition_on_tags_with_a_value_scopes_the_resources(operator: str, key: str, value: str) -> None:
    assert Condition(operator, key, (value,)).scopes


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("stringlike", "aws:resourcetag/team", "m*"),
        ("stringequals", "aws:resourcetag/team", " "),
        ("stringequals", "aws:resourcetag/team", "${aws:RequestTag/team}"),
        ("stringequals", "aws:resourcetag/principaltag/x", "${aws:ResourceTag/PrincipalTag/x}"),
        ("null", "aws:resourcetag/elbv2.k8s.aws/cluster", "true"),
        ("null", "aws:resourcetag/team", "false"),
        ("bool", "aws:resourcetag/team", "true"),
        ("stringequals", "aws:requestedregion", "us-east-1"),
        ("arnequals", "iam:permissionsboundary", f"arn:aws:iam::{ACCOUNT}:policy/*"),
        ("arnequals", "iam:policyarn", "arn:aws:iam::aws:policy/AdministratorAccess"),
    ],
)
def test_condition_that_most_tags_satisfy_scopes_nothing(operator: str, key: str, value: str) -> None:
    assert not Condition(operator, key, (value,)).scopes


@pytest.mark.parametrize(
    "key",
    [
        "aws:Referer",
        "aws:UserAgent",
        "aws:PrincipalTag/team",
        "sts:ExternalId",
        "sts:RoleSessionName",
        "s3:prefix",
    ],
)
def test_condition_on_what_the_caller_chooses_restricts_nobody(ask: Ask, key: str) -> None:
    assert ask("no-public-policies", bucket_policy({"StringEquals": {key: "secret"}}))
    assert ask("iam-trust-restricted", trust_of("*", {"StringEquals": {key: "secret"}}))


@pytest.mark.parametrize(
    "principal",
    [
        {"AWS": "arn:aws:iam::*:root"},
        {"AWS": "arn:aws:iam::12345678901?:root"},
        {"Service": "*"},
        {"Service": "*.amazonaws.com"},
        {"Federated": "*"},
        {"CanonicalUser": "*"},
    ],
)
def test_pattern_in_a_principal_is_everyone(ask: Ask, principal: Any) -> None:
    assert ask("no-public-policies", bucket_policy({}, principal))
    assert ask("iam-trust-restricted", trust_of(principal, {}))


@pytest.mark.parametrize("operator", ["ArnLike", "ArnEquals", "StringLike", "StringEquals"])
@pytest.mark.parametrize("value", ["arn:*", "arn:aws:iam::123456789012", "123456789012", "", "*:*:*:*:*:*"])
def test_value_that_is_no_arn_of_an_account_restricts_nobody(ask: Ask, operator: str, value: str) -> None:
    assert ask("no-public-policies", bucket_policy({operator: {"aws:PrincipalArn": value}}))


def test_wildcard_after_an_account_in_a_string_may_match_a_chosen_name(ask: Ask) -> None:
    """A path of a role may have colons: the account must come before any wildcard."""
    value = f"arn:aws:*::{ACCOUNT}:*"
    assert ask("no-public-policies", bucket_policy({"StringLike": {"aws:PrincipalArn": value}}))
    assert ask("no-public-policies", bucket_policy({"ArnLike": {"aws:PrincipalArn": value}})) == []


def test_two_spellings_of_one_element_are_refused(ask: Ask) -> None:
    text = '{"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "action": "*", "Resource": "*"}]}'
    (found,) = ask("iam-no-wildcards", {"type": ROLE_POLICY, "props": {"policy": text}})
    assert "not a policy" in found.message


# identity providers

HOSTS = {
    "token.actions.githubusercontent.com": (
        [
            "repo:atlas/infra:ref:refs/heads/main",
            "repo:atlas/infra:*",
            "job_workflow_ref:a/b/.github/x.yml@v1",
        ],
        [
            "repo:atlas/*",
            "repo:atlas/*:ref:refs/heads/main",
            "repo:*/infra:*",
            "repo:atlas/infra*",
            "repo:atlas*",
            "*",
            "repo:atlas/inf?a:*",
            "repository_owner:atlas",
            "environment:prod",
            "repository_visibility:private",
            "repo:${aws:PrincipalTag/x}/infra:*",
        ],
    ),
    "gitlab.com": (
        ["project_path:atlas/infra:ref_type:branch:ref:main", "project_path:atlas/sub/infra:*"],
        ["project_path:atlas/*:ref_type:branch:ref:main", "project_path:*", "*:ref:main"],
    ),
    "oidc.eks.us-east-1.amazonaws.com/id/ABC": (
        ["system:serviceaccount:kube-system:aws-node"],
        [
            "system:serviceaccount:*:*",
            "system:serviceaccount:kube-system:*",
            "system:serviceaccount:*:aws-node",
        ],
    ),
    "oidc.circleci.com/org/x": (["org/x/project/y/user/*"], ["org/x/*", "org/*/project/y/user/z"]),
    "app.terraform.io": (
        ["organization:a:project:b:workspace:c:run_phase:*"],
        ["organization:a:*", "organization:a:project:*:workspace:c:run_phase:apply"],
    ),
    "agent.buildkite.com": (["organization:a:pipeline:b:*"], ["organization:a:*"]),
}


def federated(host: str, condition: Any) -> Described:
    provider = {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{host}"}
    return trust_of(provider, condition, "sts:AssumeRoleWithWebIdentity")


@pytest.mark.parametrize("host", HOSTS)
def test_provider_is_trusted_for_one_subject_with_its_audience_only(ask: Ask, host: str) -> None:
    good, bad = HOSTS[host]
    audience = {"StringEquals": {f"{host}:aud": "sts.amazonaws.com"}}
    for subject in good:
        condition = {**audience, "StringLike": {f"{host}:sub": subject}}
        assert ask("iam-trust-restricted", federated(host, condition)) == [], subject
        assert ask("iam-trust-restricted", federated(host, {"StringLike": {f"{host}:sub": subject}})), (
            "no aud"
        )
        for operator in ("StringLikeIfExists", "ForAllValues:StringLike", "StringNotLike", "Null"):
            assert ask(
                "iam-trust-restricted", federated(host, {**audience, operator: {f"{host}:sub": subject}})
            )
    for subject in bad:
        for values in (subject, [good[0], subject]):
            condition = {**audience, "StringLike": {f"{host}:sub": values}}
            assert ask("iam-trust-restricted", federated(host, condition)), subject


def test_condition_on_another_provider_names_no_subject(ask: Ask) -> None:
    key = "gitlab.com"
    condition = {"StringEquals": {f"{key}:sub": "project_path:a/b:ref:x", f"{key}:aud": "sts.amazonaws.com"}}
    assert ask("iam-trust-restricted", federated("token.actions.githubusercontent.com", condition))


@pytest.mark.parametrize(
    ("kind", "trusted"), [("authenticated", True), ("unauthenticated", False), ("*", False)]
)
def test_identity_pool_is_trusted_for_its_own_users(ask: Ask, kind: str, trusted: bool) -> None:
    host = "cognito-identity.amazonaws.com"
    amr = {"ForAnyValue:StringLike": {f"{host}:amr": kind}}
    pool = {"StringEquals": {f"{host}:aud": "us-east-1:12345678-1234-1234-1234-123456789012"}}
    assert (ask("iam-trust-restricted", trust_of({"Federated": host}, {**pool, **amr})) == []) == trusted
    assert ask("iam-trust-restricted", trust_of({"Federated": host}, amr))


@pytest.mark.parametrize(
    ("condition", "trusted"),
    [
        ({"StringEquals": {"saml:sub": "someone"}}, True),
        ({"StringLike": {"saml:NameQualifier": "qualifier"}}, True),
        ({"StringLike": {"saml:sub": "*"}}, False),
        ({"StringLike": {"saml:sub": ["someone", "some*"]}}, False),
        ({"StringEquals": {"saml:sub": " "}}, False),
        ({"StringEquals": {"saml:sub": []}}, False),
        ({"StringNotEquals": {"saml:sub": "someone"}}, False),
        ({"StringEquals": {"saml:aud": "https://signin.aws.amazon.com/saml"}}, False),
    ],
)
def test_provider_of_saml_is_trusted_for_named_users(ask: Ask, condition: Any, trusted: bool) -> None:
    provider = {"Federated": f"arn:aws:iam::{ACCOUNT}:saml-provider/okta"}
    found = ask("iam-trust-restricted", trust_of(provider, condition, "sts:AssumeRoleWithSAML"))
    assert (found == []) is trusted


@pytest.mark.parametrize("host", ["gitlab.com", "login.example.com", "cognito-identity.amazonaws.com"])
def test_subject_of_saml_names_no_subject_of_another_provider(ask: Ask, host: str) -> None:
    condition = {"StringEquals": {"saml:sub": "someone", f"{host}:aud": "sts.amazonaws.com"}}
    assert ask("iam-trust-restricted", federated(host, condition))


@pytest.mark.parametrize(
    ("subject", "audience", "trusted"),
    [
        ("someone", "sts.amazonaws.com", True),
        ("some*", "sts.amazonaws.com", False),
        ("", "sts.amazonaws.com", False),
        ([], "sts.amazonaws.com", False),
        (["someone", "*"], "sts.amazonaws.com", False),
        ("someone", "*", False),
        ("someone", ["sts.amazonaws.com", "sts.*"], False),
        ("someone", "", False),
    ],
)
def test_unknown_provider_is_trusted_for_subject_and_audience_without_patterns(
    ask: Ask, subject: Any, audience: Any, trusted: bool
) -> None:
    host = "login.example.com/realms/a"
    condition = {"StringLike": {f"{host}:sub": subject, f"{host}:aud": audience}}
    assert (ask("iam-trust-restricted", federated(host, condition)) == []) is trusted


def test_audience_of_an_identity_pool_is_no_kind_of_user(ask: Ask) -> None:
    host = "cognito-identity.amazonaws.com"
    condition = {"StringEquals": {f"{host}:aud": "authenticated"}}
    assert ask("iam-trust-restricted", trust_of({"Federated": host}, condition))


@pytest.mark.parametrize("kinds", [[], ["authenticated", "unauthenticated"]])
def test_identity_pool_is_trusted_for_no_guest(ask: Ask, kinds: list[str]) -> None:
    host = "cognito-identity.amazonaws.com"
    pool = "us-east-1:12345678-1234-1234-1234-123456789012"
    condition = {"StringEquals": {f"{host}:aud": pool, f"{host}:amr": kinds}}
    assert ask("iam-trust-restricted", trust_of({"Federated": host}, condition))


@pytest.mark.parametrize(
    ("statement", "reasons"),
    [
        ({"Principal": {"AWS": "*"}}, ["trusts everyone"]),
        ({"Principal": {"Federated": "*"}}, ["trusts everyone"]),
        ({"Principal": {"Service": "*"}}, ["trusts every service", "trusts everyone"]),
        ({"Principal": {"Service": "ec2.amazonaws.com"}}, []),
        ({"Principal": {"AWS": "*"}, "Effect": "Deny"}, []),
        (
            {
                "Principal": {"AWS": "*"},
                "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}},
            },
            [],
        ),
        (
            {"Principal": {"Federated": f"arn:aws:iam::{ACCOUNT}:saml-provider/okta"}},
            ["without a condition on one subject"],
        ),
    ],
)
def test_finding_says_whom_a_role_trusts(ask: Ask, statement: dict[str, Any], reasons: list[str]) -> None:
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", **statement}
    described = {"type": ROLE, "props": {"assumeRolePolicy": json.dumps({"Statement": trust})}}
    found = ask("iam-trust-restricted", described)
    assert len(found) == len(reasons)
    assert all(reason in each.message for reason, each in zip(reasons, found, strict=True))
