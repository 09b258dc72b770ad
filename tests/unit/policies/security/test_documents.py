"""Policy documents: one form for IAM's alternative spellings, and their principals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.security._conditions import Condition
from gpufleet.policies.rules.security._documents import Document, parse
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ROLE = "aws:iam/role:Role"


def allow(**elements: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **elements}]}


def policy(document: Any, kind: str = ROLE_POLICY, prop: str = "policy") -> Described:
    text = json.dumps(document) if isinstance(document, dict) else document
    return {"type": kind, "props": {prop: text}}


def test_string_equals_a_list_of_one() -> None:
    one = parse(json.dumps({"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}))
    many = parse({"Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]})
    assert one.statements == many.statements
    assert one.statements[0].actions == ("s3:*",)


def test_names_and_effects_ignore_case() -> None:
    (statement,) = parse({"statement": [{"EFFECT": " allow", "aCtion": "S3:Get*", "RESOURCE": "*"}]})
    assert statement.allows
    assert statement.actions == ("s3:get*",)
    assert statement.all_resources


def test_duplicate_element_is_an_error() -> None:
    text = '{"Statement": [{"Effect": "Deny", "Effect": "Allow", "Action": "*", "Resource": "*"}]}'
    assert "twice" in parse(text).error


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_empty_text_is_a_policy_without_statements(value: Any) -> None:
    assert parse(value) == Document()


def test_statement_is_named_by_its_sid_or_its_place() -> None:
    allowed = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    found = parse({"Statement": [{**allowed, "Sid": "Read"}, allowed]})
    assert [each.name for each in found] == ["Read", "Statement[1]"]


def test_inverted_elements_keep_what_they_exclude() -> None:
    (statement,) = parse(
        {"Statement": {"NotPrincipal": {"AWS": "1"}, "NotAction": "S3:Get*", "NotResource": ["a", UNKNOWN]}}
    )
    assert (statement.principals, statement.not_principals) == ((("aws", "1"),), True)
    assert (statement.actions, statement.not_actions) == (("s3:get*",), True)
    assert (statement.resources, statement.not_resources) == (("a",), True)
    assert statement.any_principal and statement.all_resources
    assert statement.share_of("s3") == 1
    assert statement.covers("s3:deleteobject") and not statement.covers("s3:getobject")


@pytest.mark.parametrize("missing", ["Principal", "Action", "Resource"])
def test_missing_element_applies_to_nothing(missing: str) -> None:
    whole = {"Principal": "*", "Action": "*", "Resource": "*"}
    (statement,) = parse({"Statement": {each: "*" for each in whole if each != missing}})
    found = {"Principal": statement.principals, "Action": statement.actions, "Resource": statement.resources}
    assert [each for each, values in found.items() if not values] == [missing]


@pytest.mark.parametrize(
    ("resource", "everything"),
    [
        ("*", True),
        ("arn:aws:s3:::*", True),
        ("arn:aws:ec2:*:*:*/*", True),
        ("arn:aws:s3:::b", False),
        ("b*", False),
    ],
)
def test_resource_is_everything_if_its_name_has_only_wildcards(resource: str, everything: bool) -> None:
    (statement,) = parse({"Statement": {"Action": "s3:*", "Resource": resource}})
    assert statement.all_resources is everything


@pytest.mark.parametrize(("value", "read"), [(True, "true"), ("False", "False"), (7, "7"), (UNKNOWN, "")])
def test_values_of_conditions_are_read_as_text(value: Any, read: str) -> None:
    (statement,) = parse({"Statement": {"Condition": {"Bool": {"aws:SecureTransport": value}}}})
    assert statement.conditions == (Condition("bool", "aws:securetransport", (read,)),)


@pytest.mark.parametrize("condition", [None, "x", {"Bool": "x"}, {"Bool": ["x"]}])
def test_condition_that_is_no_block_restricts_nothing(condition: Any) -> None:
    (statement,) = parse({"Statement": {"Action": "*", "Condition": condition}})
    assert statement.conditions == ()


@pytest.mark.parametrize("value", ["{", "[]", '"text"', "{}", '{"Statement": ["x"]}', 5])
def test_invalid_policy_is_an_error_and_not_an_empty_policy(value: Any) -> None:
    assert parse(value).error


def test_unknown_text_and_unknown_parts_are_recognized() -> None:
    assert parse(UNKNOWN).unknown
    assert parse({"Statement": UNKNOWN}).unknown
    assert parse({"Statement": [UNKNOWN]}) == Document(unknown=True)
    part = parse(allow(Action="s3:*", Resource=[UNKNOWN, "*"]))
    assert part.unknown
    assert part.statements[0].all_resources
    assert not parse(allow(Action="s3:*", Resource="*")).unknown


@pytest.mark.parametrize(
    "elements",
    [
        {"Action": "*", "Resource": "*"},
        {"Action": "*:*", "Resource": "*"},
        {"action": ["S3:*"], "resource": ["*"]},
        {"Action": "s3:*", "Resource": "arn:aws:s3:::*"},
        {"Action": "s3:*", "Resource": ["arn:aws:s3:::b/*", "*"]},
        {"Action": "s3:*", "Resource": "arn:*:*:*:*:*"},
        {"Action": "s3:*", "Resource": "**"},
        {"Action": "s3:Delete*", "Resource": "*"},
        {"Action": "s3:?etObject", "Resource": "*"},
        {"Action": "ec2:D*", "Resource": "*"},
        {"Action": "s3:*", "NotResource": "arn:aws:s3:::b/*"},
        {"NotAction": "iam:*", "Resource": "*"},
        {"NotAction": "iam:*", "Resource": "arn:aws:s3:::b/*"},
        {"Action": "*", "Resource": "arn:aws:s3:::b/*"},
        {"Action": "iam:PassRole", "Resource": "*"},
        {"Action": "IAM:passrole", "Resource": "arn:aws:iam::123456789012:role/*"},
        {"Action": "iam:Pass*", "Resource": "*"},
        {"Action": "sts:AssumeRole", "Resource": "*"},
        {
            "Action": "iam:PassRole",
            "Resource": "*",
            "Condition": {"StringNotEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        },
    ],
)
def test_too_broad_policy_is_found_in_every_type_that_holds_one(ask: Ask, elements: dict[str, Any]) -> None:
    document = allow(**elements)
    for kind in (
        ROLE_POLICY,
        "aws:iam/policy:Policy",
        "aws:iam/userPolicy:UserPolicy",
        "aws:iam/groupPolicy:GroupPolicy",
    ):
        assert ask("iam-no-wildcards", policy(document, kind)), kind
    inline = {"type": ROLE, "props": {"inlinePolicies": [{"policy": json.dumps(document)}]}}
    assert ask("iam-no-wildcards", inline)


@pytest.mark.parametrize(
    "elements",
    [
        {"Action": ["s3:GetObject"], "Resource": "*"},
        {"Action": ["ec2:Describe*", "s3:List*"], "Resource": "*"},
        {"Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]},
        {"Action": "iam:PassRole", "Resource": "arn:aws:iam::123456789012:role/atlas-node"},
        {
            "Action": "iam:PassRole",
            "Resource": "*",
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        },
    ],
)
def test_narrow_policy_passes(ask: Ask, elements: dict[str, Any]) -> None:
    assert ask("iam-no-wildcards", policy(allow(**elements))) == []


def test_denial_may_have_wildcards(ask: Ask) -> None:
    document = {"Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}
    assert ask("iam-no-wildcards", policy(document)) == []


@pytest.mark.parametrize("rule", ["iam-no-wildcards", "no-public-policies"])
def test_unknown_policy_in_a_preview_is_judged_by_up_or_refused_on_request(ask: Ask, rule: str) -> None:
    kind = ROLE_POLICY if rule == "iam-no-wildcards" else "aws:s3/bucketPolicy:BucketPolicy"
    hidden = policy(UNKNOWN, kind)
    assert ask(rule, hidden, preview=True) == []
    (at_up,) = ask(rule, hidden, preview=False)
    (asked,) = ask(rule, hidden, preview=True, settings={"refuse_unknown": True})
    assert at_up.violation.unknown
    assert asked.violation.unknown


@pytest.mark.parametrize("rule", ["iam-no-wildcards", "no-public-policies", "iam-trust-restricted"])
def test_malformed_text_is_found(ask: Ask, rule: str) -> None:
    kind, prop = {
        "iam-no-wildcards": (ROLE_POLICY, "policy"),
        "no-public-policies": ("aws:sqs/queuePolicy:QueuePolicy", "policy"),
        "iam-trust-restricted": (ROLE, "assumeRolePolicy"),
    }[rule]
    (found,) = ask(rule, policy("{", kind, prop))
    assert "not a policy" in found.message


@pytest.mark.parametrize(
    ("rule", "kind", "prop"),
    [
        ("iam-no-wildcards", ROLE_POLICY, "policy"),
        ("no-public-policies", "aws:kms/key:Key", "policy"),
        ("iam-trust-restricted", ROLE, "assumeRolePolicy"),
        ("bucket-no-public-acl", "aws:s3/bucketAcl:BucketAcl", "acl"),
    ],
)
def test_ignore_changes_on_a_document_is_found(ask: Ask, rule: str, kind: str, prop: str) -> None:
    fine = allow(Action="s3:GetObject", Resource="arn:aws:s3:::b/*", Principal={"AWS": "123456789012"})
    value = "private" if prop == "acl" else fine
    described = {**policy(value, kind, prop), "options": {"ignoreChanges": [prop]}}
    (found,) = ask(rule, described)
    assert "ignoreChanges" in found.message


OPEN_PRINCIPALS = ["*", {"AWS": "*"}, {"AWS": ["123456789012", "*"]}, {"aws": "*"}]


@pytest.mark.parametrize("principal", OPEN_PRINCIPALS)
@pytest.mark.parametrize(
    "condition",
    [
        None,
        {"StringLike": {"aws:SourceAccount": "*"}},
        {"StringNotEquals": {"aws:SourceAccount": "123456789012"}},
        {"StringEqualsIfExists": {"aws:SourceAccount": "123456789012"}},
        {"ForAllValues:StringEquals": {"aws:PrincipalOrgID": "o-1"}},
        {"StringEquals": {"aws:SourceAccount": ["123456789012", "*"]}},
        {"Bool": {"aws:SecureTransport": "true"}},
        {"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
        {"StringEquals": {"aws:SourceAccount": []}},
    ],
)
def test_policy_for_everyone_is_found_unless_a_condition_limits_it(
    ask: Ask, principal: Any, condition: Any
) -> None:
    elements = {"Principal": principal, "Action": "s3:GetObject", "Resource": "*"}
    document = allow(**elements, **({} if condition is None else {"Condition": condition}))
    for kind in ("aws:s3/bucketPolicy:BucketPolicy", "aws:kms/key:Key", "aws:sns/topic:Topic"):
        assert ask("no-public-policies", policy(document, kind))
    trust = allow(
        Principal=principal,
        Action="sts:AssumeRole",
        **({} if condition is None else {"Condition": condition}),
    )
    assert ask("iam-trust-restricted", policy(trust, ROLE, "assumeRolePolicy"))


@pytest.mark.parametrize(
    "condition",
    [
        {"StringEquals": {"aws:SourceAccount": "123456789012"}},
        {"stringequals": {"AWS:PrincipalOrgId": "o-1"}},
        {"StringEquals": {"kms:CallerAccount": "123456789012"}},
        {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::b"}},
    ],
)
def test_condition_on_the_caller_limits_everyone(ask: Ask, condition: Any) -> None:
    document = allow(Principal="*", Action="sns:Publish", Resource="*", Condition=condition)
    assert ask("no-public-policies", policy(document, "aws:sns/topicPolicy:TopicPolicy")) == []


def test_denial_of_everyone_is_not_public(ask: Ask) -> None:
    denial = {"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*"}]}
    assert ask("no-public-policies", policy(denial, "aws:sqs/queuePolicy:QueuePolicy")) == []


def test_everyone_except_one_principal_is_everyone(ask: Ask) -> None:
    document = allow(NotPrincipal={"AWS": "123456789012"}, Action="sqs:*", Resource="*")
    assert ask("no-public-policies", policy(document, "aws:sqs/queuePolicy:QueuePolicy"))


def test_key_under_control_of_its_account_is_not_public(ask: Ask) -> None:
    document = allow(Principal={"AWS": "arn:aws:iam::123456789012:root"}, Action="kms:*", Resource="*")
    assert ask("no-public-policies", policy(document, "aws:kms/key:Key")) == []
    assert ask("iam-no-wildcards", policy(document, "aws:kms/key:Key")) == []


@pytest.mark.parametrize(
    "condition",
    [
        None,
        {"StringEquals": {"token.actions.githubusercontent.com:aud": "sts.amazonaws.com"}},
        {"StringLike": {"token.actions.githubusercontent.com:sub": "*"}},
        {"StringLike": {"token.actions.githubusercontent.com:sub": "repo:*"}},
        {"StringLike": {"token.actions.githubusercontent.com:sub": ["repo:atlas/infra:*", "*"]}},
    ],
)
def test_identity_provider_is_trusted_only_for_named_subjects(ask: Ask, condition: Any) -> None:
    provider = {"Federated": "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"}
    action = "sts:AssumeRoleWithWebIdentity"
    extra = {} if condition is None else {"Condition": condition}
    assert ask(
        "iam-trust-restricted",
        policy(allow(Principal=provider, Action=action, **extra), ROLE, "assumeRolePolicy"),
    )
    named = {
        "StringLike": {"token.actions.githubusercontent.com:sub": "repo:atlas/infra:*"},
        "StringEquals": {"token.actions.githubusercontent.com:aud": "sts.amazonaws.com"},
    }
    good = allow(Principal=provider, Action=action, Condition=named)
    assert ask("iam-trust-restricted", policy(good, ROLE, "assumeRolePolicy")) == []


def test_unknown_trust_policy_fails_closed(ask: Ask) -> None:
    (found,) = ask("iam-trust-restricted", policy(UNKNOWN, ROLE, "assumeRolePolicy"))
    assert found.violation.unknown


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:iam::aws:policy/AdministratorAccess",
        "arn:aws-us-gov:iam::aws:policy/administratoraccess",
        "arn:aws:iam::aws:policy/PowerUserAccess ",
        "arn:aws:iam::aws:policy/IAMFullAccess",
    ],
)
@pytest.mark.parametrize(
    ("kind", "prop", "many"),
    [
        ("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "policyArn", False),
        ("aws:iam/userPolicyAttachment:UserPolicyAttachment", "policyArn", False),
        ("aws:iam/groupPolicyAttachment:GroupPolicyAttachment", "policyArn", False),
        ("aws:iam/policyAttachment:PolicyAttachment", "policyArn", False),
        (ROLE, "managedPolicyArns", True),
    ],
)
def test_administrator_policy_is_found_in_any_attachment(
    ask: Ask, arn: str, kind: str, prop: str, many: bool
) -> None:
    described = {"type": kind, "props": {prop: [arn] if many else arn}}
    assert ask("iam-no-admin-policies", described)


def test_unknown_attached_policy_is_judged_by_up(ask: Ask) -> None:
    kind = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    hidden = {"type": kind, "props": {"policyArn": UNKNOWN}}
    assert ask("iam-no-admin-policies", hidden, preview=True) == []
    assert ask("iam-no-admin-policies", hidden, preview=False)[0].violation.unknown


@pytest.mark.parametrize(
    "kind",
    [
        "aws:iam/accessKey:AccessKey",
        "aws:iam/user:User",
        "aws:iam/userLoginProfile:UserLoginProfile",
        "aws:iam/serviceSpecificCredential:ServiceSpecificCredential",
    ],
)
def test_long_lived_credentials_are_found_with_any_policy(ask: Ask, kind: str) -> None:
    assert ask("no-long-lived-keys", {"type": kind})
