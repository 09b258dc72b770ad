"""Node groups that the function stopped grow again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.account.stopped_groups import StoppedGroups
from gpufleet.catalog import load_catalog
from gpufleet.components.functions.stop_scale_out import stop
from gpufleet.errors import InputError
from gpufleet.plan import build_plan
from gpufleet.plan.karpenter import KarpenterPlan
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.slurm_models import CloudSlurmPlan
from gpufleet.spec.load import load_fleet
from tests.unit.components.functions.test_stop_scale_out import ACCOUNT, NOW, TRUST, Account
from tests.unit.stacks.moto_mocks import emulated_aws

ROOT = Path(__file__).resolve().parents[3]


def plan() -> FleetPlan:
    """The environment prod with the cluster and the Auto Scaling site of the account."""
    found = build_plan(load_fleet("prod", root=ROOT).spec, load_catalog())
    serve = replace(found.cloud[0].node_groups[0], name="serve")
    return replace(
        found,
        cloud=(
            replace(found.cloud[0], node_groups=(sized(serve, 12),)),
            replace(found.cloud[1], node_groups=(sized(replace(serve, name="burst"), 5),)),
        ),
    )


def sized(group: Any, most: int) -> Any:
    from gpufleet.plan.capacity_models import OnDemandPlan

    return replace(group, capacity=OnDemandPlan(min=0, max=most, desired=0))


NAMES = {"serve": "atlas-prod-use1-serve", "idle": "atlas-prod-use1-gone", "burst": "atlas-prod-usw2-burst"}


class Named(Account):
    """The account with the names that gpufleet gives its groups."""

    settings: Mapping[str, Any] = {
        **Account.settings,
        "budgets": {"atlas-prod-budget": list(NAMES.values())},
    }

    def __init__(self) -> None:
        super().__init__()
        eks, scaling = self.client("eks", "us-east-1"), self.client("autoscaling", "us-west-2")
        for short, group in self.node_groups().items():
            tags = {"Name": NAMES.get(short, short)}
            eks.tag_resource(resourceArn=group["nodegroupArn"], tags=tags)
        scaling.create_or_update_tags(
            Tags=[
                {
                    "ResourceId": "burst-1234567",
                    "ResourceType": "auto-scaling-group",
                    "Key": "Name",
                    "Value": NAMES["burst"],
                    "PropagateAtLaunch": True,
                }
            ]
        )


@pytest.fixture
def account() -> Iterator[Named]:
    with emulated_aws():
        yield Named()


def test_stopped_groups_get_the_maxima_of_the_plan_and_the_record_is_emptied(account: Named) -> None:
    account.spend("1500")
    stop(account.settings, account.topic, account.client, NOW)
    groups = StoppedGroups(plan(), ACCOUNT, account.client)
    breach = groups.breach()
    assert (breach.spent, breach.limit, breach.is_spent) == (Decimal(1500), Decimal(1000), True)
    assert dict(breach.before) == {NAMES["serve"]: 8, NAMES["idle"]: 4, NAMES["burst"]: 5}
    before = account.sizes()
    done = groups.resume(breach)
    # The plan has another maximum of serve now, and no longer the third group.
    assert done == {NAMES["serve"]: 12, NAMES["idle"]: 4, NAMES["burst"]: 5}
    assert account.sizes() == before | {"serve": (0, 2, 12), "idle": (0, 0, 4), "burst": (0, 1, 5)}
    assert account.remembered() == {}
    assert groups.breach().before == {}
    suspended = [
        each
        for region in ("us-east-1", "us-west-2")
        for group in account.scaling_groups(region)
        for each in group["SuspendedProcesses"]
    ]
    assert suspended == []


def test_spent_cap_of_a_site_is_spent_for_its_groups(account: Named) -> None:
    account.spend("10")
    account.spend("310", of="-site-usw2")
    breach = StoppedGroups(plan(), ACCOUNT, account.client).breach()
    assert breach.caps == {"site-usw2": (Decimal(310), Decimal(300))}
    assert breach.spent_budgets == breach.caps
    assert breach.is_spent


def test_no_breach_without_a_parameter(account: Named) -> None:
    account.client("ssm", "us-east-1").delete_parameter(Name=account.settings["parameter"])
    account.spend("10")
    breach = StoppedGroups(plan(), ACCOUNT, account.client).breach()
    assert (breach.before, breach.since, breach.is_spent) == ({}, "", False)


def test_account_without_the_budget_is_refused(account: Named) -> None:
    other = replace(plan(), environment="other")
    with pytest.raises(InputError, match="has no budget atlas-other-budget") as refused:
        StoppedGroups(other, ACCOUNT, account.client).breach()
    assert "gpufleet up other" in refused.value.remedy


def test_groups_that_slurm_launches_are_let_grow_by_the_end_of_their_record(account: Named) -> None:
    of = plan()
    slurm = CloudSlurmPlan("dc1", (), "10.60.0.0/24", "arn", "/munge", 600, 1200, 600, None)
    launched = replace(of, cloud=(of.cloud[0], replace(of.cloud[1], slurm=slurm)))
    account.settings = {**account.settings, "launched": {NAMES["burst"]: 9}, "sites": []}
    account.spend("1500")
    stop(account.settings, account.topic, account.client, NOW)
    groups = StoppedGroups(launched, ACCOUNT, account.client)
    before = account.sizes()
    assert groups.resume(groups.breach()) == {NAMES["burst"]: 5}
    assert account.sizes() == before
    assert account.remembered() == {}


def test_groups_of_karpenter_may_launch_again(account: Named) -> None:
    of = plan()
    kubernetes = of.cloud[0].kubernetes
    assert kubernetes is not None
    karpenter = KarpenterPlan("1.14.1", "image", static_capacity=False, reserved_capacity=False)
    site = replace(of.cloud[0], kubernetes=replace(kubernetes, karpenter=karpenter))
    role, iam = "atlas-prod-use1-karpenter", account.client("iam", "us-east-1")
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST))
    deny = {"Effect": "Deny", "Action": "ec2:CreateFleet", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    for policy in (f"{NAMES['serve']}-stop", "somebody-elses"):
        made = iam.create_policy(PolicyName=policy, PolicyDocument=document)
        iam.attach_role_policy(RoleName=role, PolicyArn=made["Policy"]["Arn"])
    pool = {"role": role, "policy": f"{NAMES['serve']}-stop", "most": 9}
    account.settings = {**account.settings, "pools": {NAMES["serve"]: pool}, "sites": []}
    account.spend("1500")
    stop(account.settings, account.topic, account.client, NOW)
    groups = StoppedGroups(replace(of, cloud=(site, of.cloud[1])), ACCOUNT, account.client)
    assert groups.resume(groups.breach())[NAMES["serve"]] == 12
    left = iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert [each["PolicyName"] for each in left] == ["somebody-elses"]
    assert account.remembered() == {}
