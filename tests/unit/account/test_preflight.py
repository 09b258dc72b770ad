"""The preflight as a whole: all checks together, and AWS that refuses or does not answer."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from gpufleet.account.preflight import run_preflight
from gpufleet.catalog import load_catalog

from .conftest import NOW, Account, allow, check, fleet, group

READING = ("Describe", "Get", "List", "Simulate")


def test_account_that_has_everything_passes(account: Account) -> None:
    found = account.preflight(fleet(group()))
    assert found.status == "pass"
    assert found.findings == ()
    assert found.unchecked == ()
    assert found.account == "********9012"
    assert [each.check for each in found.checks] == [
        "zones",
        "quotas",
        "reservations",
        "permissions",
        "service-linked-roles",
    ]
    (note,) = found.notes
    assert "service control policies" in note


def test_every_call_only_reads(account: Account) -> None:
    account.preflight(fleet(group(), scheduler="kubernetes"))
    assert len(account.calls) > 10
    assert [call for call in account.calls if not call.partition(":")[2].startswith(READING)] == []


def test_everything_missing_is_reported_together(account: Account) -> None:
    account.user(allow("*"), allow("ec2:RunInstances", effect="Deny"))
    account.quota("L-DB2E81BA", 4)
    plan = fleet(group(zones=["us-east-1a"]), zones=["us-east-1a", "us-east-1z"])
    found = account.preflight(plan)
    assert found.status == "missing"
    assert {each.rule for each in found.findings} == {"zone-unknown", "quota", "permission"}


def test_fleet_without_a_cloud_site_calls_nothing(account: Account) -> None:
    assert account.preflight(replace(fleet(group()), cloud=())).checks == ()
    assert account.calls == []


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "UnauthorizedOperation", "unreachable", "Throttling"]
)
@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("ec2:DescribeAvailabilityZones", "zones"),
        ("ec2:DescribeInstanceTypeOfferings", "zones"),
        ("service-quotas:GetServiceQuota", "quotas"),
        ("ec2:DescribeInstances", "quotas"),
        ("ec2:DescribeVpcs", "quotas"),
        ("iam:SimulatePrincipalPolicy", "permissions"),
        ("sts:GetCallerIdentity", "permissions"),
        ("iam:GetRole", "service-linked-roles"),
    ],
)
def test_refused_or_unanswered_call_is_not_checked_and_not_passed(
    account: Account, call: str, name: str, code: str
) -> None:
    account.refused = {call: code}
    found = account.preflight(fleet(group()))
    assert check(found, name).status == "not-checked"
    assert check(found, name).unchecked
    assert found.status == "not-checked"
    assert any(each.startswith(f"{name} in ") for each in found.unchecked)


def test_missing_things_outweigh_unchecked_ones(account: Account) -> None:
    account.refused = {"iam:SimulatePrincipalPolicy": "AccessDenied"}
    account.quota("L-DB2E81BA", 4)
    assert account.preflight(fleet(group())).status == "missing"


def test_account_without_the_simulation_has_no_note_about_it(account: Account) -> None:
    account.refused = {"iam:SimulatePrincipalPolicy": "AccessDenied"}
    assert account.preflight(fleet(group())).notes == ()


def test_account_whose_role_cannot_be_assumed_is_not_checked(account: Account) -> None:
    def refuse(service: str, region: str) -> None:
        del service, region
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")

    found = run_preflight(fleet(group()), load_catalog(), refuse, NOW)
    assert {each.status for each in found.checks if each.check != "reservations"} == {"not-checked"}
    assert all("AccessDenied" in each for each in found.unchecked)
    assert found.account == ""
