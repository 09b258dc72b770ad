"""Actions that no list has, and conditions and patterns that look narrow: none passes. Ordinary ones do."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.policies.rules.budget._caps import example_fleet
from gpufleet.policies.rules.security._action_forms import buys, destroys, gives_rights
from gpufleet.policy.evaluation import RuleViolation

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ACCOUNT = "123456789012"
FLEET = example_fleet()
"""The fleet `atlas`, its environment `prod` and its site `use1`."""

SERVICES = ("ec2", "fsx", "eks", "s3", "sagemaker", "kinesis", "memorydb", "service-of-2031", "glue", "batch")
OBJECTS = st.text(alphabet=string.ascii_letters, min_size=3, max_size=12).map(str.capitalize)

many = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def policy(*statements: dict[str, Any], name: str = "policy") -> Described:
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return {"type": ROLE_POLICY, "name": name, "props": {"policy": document, "role": "nodes"}}


def allow(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def equals(key: str, value: str, operator: str = "StringEquals") -> dict[str, Any]:
    return {"Condition": {operator: {key: value}}}


def refused(ask: Ask, *resources: Described, **more: Any) -> list[RuleViolation]:
    found = [each for resource in resources for each in ask("iam-no-wildcards", resource, **more)]
    return found or ask("iam-no-combined-rights", *resources, **more)


# the form of a name


@many
@given(data=st.data())
def test_no_action_that_destroys_by_its_name_passes(ask: Ask, data: st.DataObject) -> None:
    verb = data.draw(
        st.sampled_from(
            (
                *(
                    "Delete",
                    "BatchDelete",
                    "Terminate",
                    "Stop",
                    "Deregister",
                    "Detach",
                    "Disassociate",
                    "Purge",
                ),
                *("Cancel", "Release", "Revoke", "Remove", "Reset", "Suspend", "Reboot", "Disable", "Untag"),
            )
        )
    )
    action = f"{data.draw(st.sampled_from(SERVICES))}:{verb}{data.draw(OBJECTS)}"
    assert refused(ask, policy(allow(action))), action


@many
@given(data=st.data())
def test_no_action_that_writes_access_by_its_name_passes(ask: Ask, data: st.DataObject) -> None:
    verb = data.draw(
        st.sampled_from(("Put", "Set", "Add", "Attach", "Create", "Update", "Delete", "Replace"))
    )
    what = data.draw(
        st.sampled_from(("Policy", "ResourcePolicy", "Permission", "Permissions", "AccessPolicy"))
    )
    action = f"{data.draw(st.sampled_from(SERVICES))}:{verb}{what}"
    assert refused(ask, policy(allow(action))), action


@pytest.mark.parametrize(
    "action",
    [
        *("iam:TagRole", "iam:CreateOpenIDConnectProvider", "iam:UploadSSHPublicKey", "iam:EnableMFADevice"),
        *("organizations:InviteAccountToOrganization", "sso-directory:CreateUser", "ram:CreateResourceShare"),
        *("kms:CreateGrant", "kms:Decrypt", "ssm:GetParametersByPath", "ec2:GetPasswordData"),
        *("s3:PutBucketAcl", "s3:PutReplicationConfiguration", "ec2:ModifyImageAttribute"),
        *("sqs:SetQueueAttributes", "eks:AssociateIdentityProviderConfig", "lambda:CreateFunctionUrlConfig"),
        *("ecr:PutImage", "ecs:RunTask", "batch:SubmitJob", "ssm:CreateAssociation", "ssm:ResumeSession"),
        *("s3:PutObject", "logs:PutRetentionPolicy", "ec2:ModifyCapacityReservation", "cassandra:Drop"),
        *("autoscaling:UpdateAutoScalingGroup", "apigateway:DELETE", "inspector2:Disable"),
        *("ec2:PurchaseCapacityBlock", "savingsplans:CreateSavingsPlan", "route53domains:RegisterDomain"),
    ],
)
def test_action_with_power_over_others_is_refused_on_all_resources(ask: Ask, action: str) -> None:
    assert refused(ask, policy(allow(action)))


def test_purchase_is_refused_whatever_it_applies_to(ask: Ask) -> None:
    arn = f"arn:aws:ec2:us-east-1:{ACCOUNT}:capacity-reservation/cr-0123"
    assert refused(ask, policy(allow("ec2:PurchaseCapacityBlock", arn)))


@pytest.mark.parametrize(
    "action",
    [
        *("ec2:DetachVolume", "ec2:DeleteNetworkInterface", "ec2:RevokeSecurityGroupIngress"),
        *("elasticloadbalancing:DeleteListener", "wafv2:DisassociateWebACL", "ssm:TerminateSession"),
        *("autoscaling:PutScalingPolicy", "ec2:CreateNetworkAcl", "wafv2:UpdateWebACL"),
        *("ec2:CreateVolume", "logs:PutLogEvents", "cloudwatch:PutMetricData", "ecr:GetAuthorizationToken"),
        *("iam:GetRole", "organizations:DescribeOrganization", "iam:CreateServiceLinkedRole"),
    ],
)
def test_action_of_a_controller_or_a_reader_passes(ask: Ask, action: str) -> None:
    assert refused(ask, policy(allow(action))) == []


def test_scaling_and_retention_are_not_access_and_purchases_are_recognised() -> None:
    assert not any(map(gives_rights, ("autoscaling:putscalingpolicy", "logs:putretentionpolicy")))
    assert not any(map(gives_rights, ("ecr:putlifecyclepolicy", "iam:listroles", "iam:passrole")))
    assert gives_rights("ecr:setrepositorypolicy") and not gives_rights("fms:putpolicy")
    assert destroys("s3tables:deletetable")
    assert not destroys("ec2:describeinstances")
    assert buys("elasticache:purchasereservedcachenodesoffering")
    assert not buys("ec2:describecapacityblockofferings")


# conditions


BY_TAG = equals("aws:ResourceTag/team", "ml")


@pytest.mark.parametrize("tagging", ["ec2:CreateTags", "tag:TagResources"])
def test_tag_restricts_nothing_for_who_may_set_it(ask: Ask, tagging: str) -> None:
    ends = allow("ec2:TerminateInstances", **BY_TAG)
    assert refused(ask, policy(ends)) == []
    assert refused(ask, policy(ends, allow(tagging)))
    chosen = allow(tagging, **equals("aws:RequestTag/team", "ml"))
    assert refused(ask, policy(ends, chosen)), "the caller chooses the tags of a request"
    assert refused(ask, policy(ends, name="ends"), policy(allow(tagging), name="tags")), "over two policies"


@pytest.mark.parametrize(
    "condition",
    [
        equals("ec2:CreateAction", "RunInstances"),
        BY_TAG,
        equals("aws:ResourceTag/elbv2.k8s.aws/cluster", "false", "Null"),
    ],
)
def test_tags_given_at_creation_or_to_own_resources_leave_the_restriction(
    ask: Ask, condition: dict[str, Any]
) -> None:
    ends = allow("ec2:TerminateInstances", **BY_TAG)
    assert refused(ask, policy(ends, allow("ec2:CreateTags", **condition))) == []


def test_tag_of_the_request_does_not_restrict_whose_rights_are_given(ask: Ask) -> None:
    assert refused(ask, policy(allow("eks:CreateAccessEntry", **equals("aws:RequestTag/team", "ml"))))


@pytest.mark.parametrize("key", ["kubernetes.io/cluster/atlas-prod", "a.b/c", "eks:cluster-name"])
def test_tag_that_every_node_has_restricts_nothing_without_a_value(ask: Ask, key: str) -> None:
    assert refused(
        ask, policy(allow("ec2:TerminateInstances", **equals(f"aws:ResourceTag/{key}", "false", "Null")))
    )


@pytest.mark.parametrize("key", ["iam:PolicyARN", "iam:PermissionsBoundary"])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("arn:aws:iam::aws:policy/AdministratorAccess", True),
        ("arn:aws:iam::aws:policy/job-function/DataScientist", True),
        ("arn:aws:iam::aws:policy/*", True),
        (f"arn:aws:iam::{ACCOUNT}:policy/*", True),
        (f"arn:aws:iam::{ACCOUNT}:policy/boundary", False),
    ],
)
def test_policy_that_a_role_may_get_is_one_without_rights_of_others(
    ask: Ask, key: str, value: str, found: bool
) -> None:
    action = "iam:AttachRolePolicy"
    for operator in ("ArnEquals", "ArnLike", "StringLike"):
        assert bool(refused(ask, policy(allow(action, **equals(key, value, operator))))) == found, operator


# roles for services that no list has


def test_role_passed_to_a_service_that_no_list_has_is_found_with_an_action_of_it(ask: Ask) -> None:
    passing = allow("iam:PassRole", **equals("iam:PassedToService", "braket.amazonaws.com"))
    assert refused(ask, policy(passing, allow("braket:CreateJob", "arn:aws:braket:*:*:job/mine")))
    assert refused(ask, policy(passing, allow("braket:GetJob"))) == []
    assert refused(ask, policy(passing)) == []


# names of the fleet


@many
@given(data=st.data())
def test_no_beginning_that_all_names_of_the_fleet_share_passes(ask: Ask, data: st.DataObject) -> None:
    stem = data.draw(st.sampled_from(("atlas-", "atlas-prod-", "atlas-prod-use1-")))
    start = stem[: data.draw(st.integers(min_value=0, max_value=len(stem)))]
    end = data.draw(st.sampled_from(("*", "?*", "*-*", "${aws:PrincipalTag/name}")))
    action, arn = data.draw(
        st.sampled_from(
            (
                ("s3:DeleteObject", "arn:aws:s3:::{}"),
                ("s3:DeleteBucket", "arn:aws:s3:::{}"),
                ("iam:AttachRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/{{}}"),
                ("logs:DeleteLogGroup", f"arn:aws:logs:*:{ACCOUNT}:log-group:{{}}:*"),
                ("eks:DeleteCluster", f"arn:aws:eks:us-east-1:{ACCOUNT}:cluster/{{}}"),
                ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{{}}"),
            )
        )
    )
    resource = arn.format(start + end)
    assert refused(ask, policy(allow(action, resource)), fleet=FLEET), resource


@pytest.mark.parametrize(
    "name", ["atlas-prod-checkpoints-*", "atlas-prod-use1-reports*", "other-*", "atlas-prod-x"]
)
def test_pattern_that_names_more_than_the_fleet_passes(ask: Ask, name: str) -> None:
    assert refused(ask, policy(allow("s3:DeleteObject", f"arn:aws:s3:::{name}")), fleet=FLEET) == []
    role = f"arn:aws:iam::{ACCOUNT}:role/{name}"
    assert refused(ask, policy(allow("iam:PassRole", role)), fleet=FLEET) == []


def test_names_are_measured_as_they_are_without_a_fleet_file(ask: Ask) -> None:
    assert refused(ask, policy(allow("s3:DeleteObject", "arn:aws:s3:::atlas-prod-*"))) == []
