"""Access for anyone, in policies of any type and in permissions that are no policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.security._shares import OPEN
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources import aws_types
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]

RULE = "no-public-policies"
ORGANISATION = "o-abc123def4"


def document(principal: Any, **more: Any) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "*", "Resource": "*", **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.mark.parametrize(
    ("kind", "prop"),
    [
        ("aws:glue/resourcePolicy:ResourcePolicy", "policy"),
        ("aws:opensearch/domain:Domain", "accessPolicies"),
        ("aws:codeartifact/domainPermissions:DomainPermissions", "policyDocument"),
        ("aws:glacier/vault:Vault", "accessPolicy"),
        ("aws:apigateway/restApi:RestApi", "policy"),
        ("aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate", "repositoryPolicy"),
        ("aws:msk/clusterPolicy:ClusterPolicy", "policy"),
        ("aws:service/of2031:Thing", "resourcePolicy"),
    ],
)
def test_policy_of_any_type_is_judged(ask: Ask, kind: str, prop: str) -> None:
    assert ask(RULE, {"type": kind, "props": {prop: document("*")}})
    assert ask(RULE, {"type": kind, "props": {prop: json.loads(document({"AWS": "*"}))}})
    assert ask(RULE, {"type": kind, "props": {prop: document({"AWS": "123456789012"})}}) == []
    assert ask(RULE, {"type": kind, "props": {prop: UNKNOWN}}) == []


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        ("aws:ec2/vpcEndpoint:VpcEndpoint", {"policy": document("*")}),
        ("aws:iam/policy:Policy", {"policy": document("*")}),
        ("aws:ecr/lifecyclePolicy:LifecyclePolicy", {"policy": json.dumps({"rules": []})}),
        ("aws:iot/policyAttachment:PolicyAttachment", {"policy": "name-of-a-policy"}),
        ("kubernetes:policy/v1:PodDisruptionBudget", {"policy": document("*")}),
    ],
)
def test_text_that_is_no_policy_on_callers_is_left_to_others(ask: Ask, kind: str, props: Any) -> None:
    assert ask(RULE, {"type": kind, "props": props}) == []


@pytest.mark.parametrize(
    ("kind", "props", "found"),
    [
        ("lambda/permission:Permission", {"principal": "*"}, True),
        ("lambda/permission:Permission", {"principal": "*", "principalOrgId": ORGANISATION}, False),
        ("lambda/permission:Permission", {"principal": "*", "principalOrgId": "o-*"}, True),
        ("lambda/permission:Permission", {"principal": "sns.amazonaws.com"}, False),
        ("lambda/layerVersionPermission:LayerVersionPermission", {"principal": "*"}, True),
        (
            "lambda/layerVersionPermission:LayerVersionPermission",
            {"principal": "*", "organizationId": ORGANISATION},
            False,
        ),
        ("cloudwatch/eventPermission:EventPermission", {"principal": "*"}, True),
        (
            "cloudwatch/eventPermission:EventPermission",
            {
                "principal": "*",
                "condition": {"type": "StringEquals", "key": "aws:PrincipalOrgID", "value": ORGANISATION},
            },
            False,
        ),
        ("ec2/amiLaunchPermission:AmiLaunchPermission", {"group": "all"}, True),
        ("ec2/amiLaunchPermission:AmiLaunchPermission", {"accountId": "123456789012"}, False),
        (
            "ec2/vpcEndpointService:VpcEndpointService",
            {"allowedPrincipals": ["arn:aws:iam::1:root", "*"]},
            True,
        ),
        ("ebs/snapshotBlockPublicAccess:SnapshotBlockPublicAccess", {"state": "unblocked"}, True),
        ("ebs/snapshotBlockPublicAccess:SnapshotBlockPublicAccess", {"state": "block-all-sharing"}, False),
        ("ec2/imageBlockPublicAccess:ImageBlockPublicAccess", {"state": "unblocked"}, True),
        ("ec2/amiLaunchPermission:AmiLaunchPermission", {"group": UNKNOWN}, False),
        ("ec2/amiLaunchPermission:AmiLaunchPermission", {"group": " All"}, True),
        ("ebs/snapshotBlockPublicAccess:SnapshotBlockPublicAccess", {"state": " Block-new-sharing"}, False),
        ("ebs/snapshotBlockPublicAccess:SnapshotBlockPublicAccess", {"state": 1}, True),
        ("lambda/permission:Permission", {"principal": 123456789012}, False),
        (
            "cloudwatch/eventPermission:EventPermission",
            {
                "principal": "*",
                "condition": {"type": "StringLike", "key": "aws:PrincipalOrgID", "value": "o-*"},
            },
            True,
        ),
        (
            "cloudwatch/eventPermission:EventPermission",
            {
                "principal": "*",
                "condition": {"type": "Null", "key": "aws:PrincipalOrgID", "value": ORGANISATION},
            },
            True,
        ),
    ],
)
def test_permission_for_anyone_is_found(ask: Ask, kind: str, props: dict[str, Any], found: bool) -> None:
    assert bool(ask(RULE, {"type": f"aws:{kind}", "props": props})) == found


@pytest.mark.parametrize("kind", ["aws:s3/bucket:Bucket", "aws:iam/role:Role"])
def test_policy_that_is_not_there_may_be_under_ignore_changes(ask: Ask, kind: str) -> None:
    described = {"type": kind, "name": "x", "props": {"inlinePolicies": [{"name": "none"}]}}
    ignoring = {**described, "options": {"ignoreChanges": ["policy", "inlinePolicies"]}}
    assert ask(RULE, ignoring) == []
    assert ask("iam-no-wildcards", ignoring) == []


def test_types_of_permissions_are_those_of_pulumi_aws() -> None:
    assert all(map(aws_types.exists, OPEN))
