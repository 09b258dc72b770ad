"""Permissions by simulation, and service-linked roles that exist or may be created."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from .conftest import REGION, Account, allow, check, fleet, group, only

STORAGE = [{"name": "data", "bucket": {"name": "atlas-data"}}]


def permissions(account: Account, **site: Any) -> Any:
    return check(account.preflight(fleet(group(), **site)), "permissions")


def test_user_who_may_everything_passes(account: Account) -> None:
    account.user(allow("*"))
    assert permissions(account).status == "pass"


def test_action_that_no_policy_allows_is_named(account: Account) -> None:
    account.user({"Effect": "Allow", "NotAction": ["ec2:CreateVpc", "kms:CreateKey"], "Resource": "*"})
    (found,) = permissions(account).findings
    assert found.value == "ec2:CreateVpc, kms:CreateKey"
    assert found.severity == "warning"
    assert "no policy allows arn:aws:iam::123456789012:user/ci 2 actions" in found.message


def test_denied_action_is_an_error(account: Account) -> None:
    account.user(allow("*"), allow("ec2:RunInstances", effect="Deny"))
    (found,) = permissions(account).findings
    assert (found.value, found.severity) == ("ec2:RunInstances", "error")


def test_permissions_boundary_limits_the_policies(account: Account) -> None:
    account.role(allow("*"), boundary=allow("ec2:*", "iam:*"))
    (found,) = permissions(account).findings
    assert "kms:CreateKey" in found.value
    assert "ec2:" not in found.value


def test_policy_of_another_region_does_not_allow(account: Account) -> None:
    condition = {"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}
    account.user(allow("*", Condition=condition))
    assert permissions(account).status == "missing"


def test_policy_of_the_region_allows(account: Account) -> None:
    account.user(allow("*", Condition={"StringEquals": {"aws:RequestedRegion": REGION}}))
    assert permissions(account).status == "pass"


def test_role_with_a_path_is_simulated_by_its_whole_arn(account: Account) -> None:
    account.role(allow("*"), path="/ci/")
    assert permissions(account).status == "pass"
    seen: list[str] = []
    account.answers["iam:SimulatePrincipalPolicy"] = lambda asked: (
        seen.append(asked["PolicySourceArn"]) or {"EvaluationResults": []}
    )
    permissions(account)
    assert set(seen) == {"arn:aws:iam::123456789012:role/ci/deploy"}


def test_role_whose_arn_cannot_be_read_is_not_checked(account: Account) -> None:
    account.role(allow("*"))
    account.refused = {"iam:GetRole": "AccessDenied"}
    found = permissions(account)
    assert found.status == "not-checked"
    assert "the ARN of the role deploy cannot be read" in found.unchecked[0]


def test_root_user_is_not_checked(account: Account) -> None:
    identity = {"Arn": "arn:aws:iam::123456789012:root", "Account": "123456789012"}
    account.answers["sts:GetCallerIdentity"] = lambda _: identity
    found = permissions(account)
    assert found.status == "not-checked"
    assert "the root user" in found.unchecked[0]


def test_actions_follow_what_the_fleet_has(account: Account) -> None:
    asked: set[str] = set()

    def answer(parameters: dict[str, Any]) -> dict[str, Any]:
        asked.update(parameters["ActionNames"])
        return {"EvaluationResults": []}

    account.answers["iam:SimulatePrincipalPolicy"] = answer
    permissions(account)
    assert {"ec2:CreateVpc", "autoscaling:CreateAutoScalingGroup", "iam:PassRole"} <= asked
    assert not {"eks:CreateCluster", "fsx:CreateFileSystem", "s3:CreateBucket"} & asked
    asked.clear()
    permissions(account, scheduler="kubernetes", storage=STORAGE)
    assert {"eks:CreateCluster", "s3:CreateBucket"} <= asked
    assert "autoscaling:CreateAutoScalingGroup" not in asked


def test_bucket_actions_are_simulated_on_the_bucket(account: Account) -> None:
    bucket = fleet(group(), storage=STORAGE).cloud[0].buckets[0].bucket
    account.user(
        {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}"},
    )
    assert permissions(account, storage=STORAGE).status == "pass"


def test_linked_role_that_the_caller_may_not_create_is_an_error_with_its_request(account: Account) -> None:
    account.user({"Effect": "Allow", "NotAction": "iam:CreateServiceLinkedRole", "Resource": "*"})
    found = only(account.preflight(fleet(group())), "service-linked-role")
    assert found.value == "AWSServiceRoleForAutoScaling"
    assert found.request == (
        "aws iam create-service-linked-role --aws-service-name autoscaling.amazonaws.com"
    )
    assert found.severity == "error"


def test_linked_role_that_exists_needs_no_permission(account: Account) -> None:
    boto3.client("iam", region_name=REGION).create_service_linked_role(
        AWSServiceName="autoscaling.amazonaws.com"
    )
    account.user({"Effect": "Allow", "NotAction": "iam:CreateServiceLinkedRole", "Resource": "*"})
    assert account.preflight(fleet(group())).status == "pass"


@pytest.mark.parametrize(("service", "count"), [("autoscaling.amazonaws.com", 0), ("eks.amazonaws.com", 1)])
def test_linked_role_that_the_caller_may_create_passes(account: Account, service: str, count: int) -> None:
    condition = {"StringEquals": {"iam:AWSServiceName": service}}
    account.user(
        {"Effect": "Allow", "NotAction": "iam:CreateServiceLinkedRole", "Resource": "*"},
        allow("iam:CreateServiceLinkedRole", Condition=condition),
    )
    assert len(account.preflight(fleet(group())).findings) == count


def test_each_part_of_a_fleet_needs_its_linked_role(account: Account) -> None:
    account.user({"Effect": "Allow", "NotAction": "iam:CreateServiceLinkedRole", "Resource": "*"})
    lustre = {
        "name": "scratch",
        "lustre": {
            "capacity": "4.8 TiB",
            "throughput": "250 MB/s/TiB",
            "zone": "us-east-1a",
            "import_from": "s3://other-data",
        },
    }
    spot = group(capacity={"spot": {"min": 0, "max": 1}})
    found = account.preflight(fleet(spot, scheduler="kubernetes", storage=[lustre]))
    roles = {str(each.value) for each in found.findings if each.rule == "service-linked-role"}
    assert roles == {
        "AWSServiceRoleForAutoScaling",
        "AWSServiceRoleForAmazonEKS",
        "AWSServiceRoleForAmazonEKSNodegroup",
        "AWSServiceRoleForAmazonFSx",
        "the role of each file system's link to S3",
    }


def test_missing_linked_role_is_not_checked_without_the_simulation(account: Account) -> None:
    account.refused = {"iam:SimulatePrincipalPolicy": "AccessDenied"}
    assert check(account.preflight(fleet(group())), "service-linked-roles").status == "not-checked"
