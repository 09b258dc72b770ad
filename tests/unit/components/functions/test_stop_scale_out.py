"""The function that stops scale-out, on groups of an emulated account."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import boto3
import pytest

from gpufleet.components.functions.stop_scale_out import OWN_MESSAGE, stop
from tests.unit.lab.two_zones import IMAGE
from tests.unit.stacks.moto_mocks import emulated_aws

ACCOUNT, HOME = "123456789012", "us-east-1"
NOW = dt.datetime(2030, 5, 4, 12, 0, tzinfo=dt.UTC)
TAGS = {"gpufleet:fleet": "atlas", "gpufleet:environment": "prod"}
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}],
}


class Account:
    """An account with a cluster's groups `serve` (2 of 8 nodes), `idle` (0 of 4) and `block` (1 of 6, paid
    for), and Auto Scaling groups `burst` (1 of 5) and one of another fleet."""

    settings: Mapping[str, Any] = MappingProxyType({
        "budget": "atlas-prod-budget",
        "parameter": "/gpufleet/atlas/prod/stopped-groups",
        "tags": TAGS,
        "budgets": {
            "atlas-prod-budget": ["serve", "idle", "burst"],
            "atlas-prod-budget-site-usw2": ["burst"],
        },
        "sites": [
            {"name": "use1", "region": "us-east-1", "cluster": "atlas-prod-use1"},
            {"name": "usw2", "region": "us-west-2", "cluster": ""},
        ],
    })  # fmt: skip

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.refused: set[str] = set()
        self.topic = self.client("sns", HOME).create_topic(Name="alerts")["TopicArn"]
        for name, limit in (("", "1000"), ("-site-usw2", "300")):
            budget = {
                "BudgetName": f"atlas-prod-budget{name}",
                "BudgetType": "COST",
                "TimeUnit": "MONTHLY",
                "BudgetLimit": {"Amount": limit, "Unit": "USD"},
            }
            self.client("budgets", HOME).create_budget(AccountId=ACCOUNT, Budget=budget)
        self.client("ssm", HOME).put_parameter(Name=self.settings["parameter"], Type="String", Value="{}")
        self._cluster()
        self._auto_scaling("burst", TAGS, 0, 1, 5)
        self._auto_scaling("foreign", {**TAGS, "gpufleet:fleet": "other"}, 0, 1, 5)

    def client(self, service: str, region: str) -> Any:
        made = boto3.client(service, region_name=region)
        if service == "sns":
            made.publish = lambda **given: self.messages.append(given)
        if service in self.refused:
            made.update_auto_scaling_group = made.update_nodegroup_config = _refuse
        return made

    def _cluster(self) -> None:
        ec2, eks = self.client("ec2", HOME), self.client("eks", HOME)
        role = boto3.client("iam").create_role(RoleName="nodes", AssumeRolePolicyDocument=json.dumps(TRUST))
        subnets = [each["SubnetId"] for each in ec2.describe_subnets()["Subnets"][:2]]
        eks.create_cluster(
            name="atlas-prod-use1", roleArn=role["Role"]["Arn"], resourcesVpcConfig={"subnetIds": subnets}
        )
        for name, desired, most in (("serve", 2, 8), ("idle", 0, 4), ("block", 1, 6)):
            eks.create_nodegroup(
                clusterName="atlas-prod-use1",
                nodegroupName=f"{name}-1234567",
                nodeRole=role["Role"]["Arn"],
                subnets=subnets,
                scalingConfig={"minSize": 0, "desiredSize": desired, "maxSize": most},
                tags={**TAGS, "Name": name},
            )

    def _auto_scaling(self, name: str, tags: dict[str, str], least: int, desired: int, most: int) -> None:
        ec2, scaling = self.client("ec2", "us-west-2"), self.client("autoscaling", "us-west-2")
        data = {"ImageId": IMAGE, "InstanceType": "m7i.large"}
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=f"{name}-1234567",
            LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
            MinSize=least,
            DesiredCapacity=desired,
            MaxSize=most,
            AvailabilityZones=["us-west-2a"],
            Tags=[{"Key": key, "Value": value} for key, value in {**tags, "Name": name}.items()],
        )

    def spend(self, amount: str, of: str = "") -> None:
        """What AWS counts of the budget of the environment, or of that of a site or team."""
        from moto.budgets.models import budgets_backends

        budget = budgets_backends[ACCOUNT]["aws"].budgets[ACCOUNT][f"atlas-prod-budget{of}"]
        budget.budget["CalculatedSpend"] = {"ActualSpend": {"Amount": amount, "Unit": "USD"}}

    def answer(self) -> dict[str, Any]:
        return stop(self.settings, self.topic, self.client, NOW)

    def sizes(self) -> dict[str, tuple[int, int, int]]:
        """Name -> minimum, desired and maximum of every group."""
        found: dict[str, tuple[int, int, int]] = {}
        for group in self.scaling_groups("us-west-2"):
            sizes = group["MinSize"], group["DesiredCapacity"], group["MaxSize"]
            found[group["AutoScalingGroupName"].removesuffix("-1234567")] = sizes
        for name, group in self.node_groups().items():
            scale = group["scalingConfig"]
            found[name] = scale["minSize"], scale["desiredSize"], scale["maxSize"]
        return found

    def scaling_groups(self, region: str) -> list[dict[str, Any]]:
        found = self.client("autoscaling", region).describe_auto_scaling_groups()["AutoScalingGroups"]
        return list(found)

    def node_groups(self) -> dict[str, Any]:
        eks, cluster = self.client("eks", HOME), "atlas-prod-use1"
        return {
            name.removesuffix("-1234567"): eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)[
                "nodegroup"
            ]
            for name in eks.list_nodegroups(clusterName=cluster)["nodegroups"]
        }

    def remembered(self) -> Any:
        found = self.client("ssm", HOME).get_parameter(Name=self.settings["parameter"])
        return json.loads(found["Parameter"]["Value"])


def _refuse(**_: Any) -> None:
    raise RuntimeError("AccessDenied")


@pytest.fixture
def account() -> Iterator[Account]:
    with emulated_aws():
        yield Account()


def test_nothing_is_stopped_below_the_limit(account: Account) -> None:
    before = account.sizes()
    account.spend("999.99")
    assert account.answer() == {"spent": {}, "stopped": {}, "failed": {}}
    assert account.sizes() == before
    assert account.remembered() == {}
    assert account.messages == []


def test_groups_that_slurm_launches_are_recorded_for_its_controllers(account: Account) -> None:
    account.settings = {
        **Account.settings,
        "budgets": {"atlas-prod-budget": ["burst", "sweep"]},
        "launched": {"sweep": 16, "other": 4},
    }
    account.spend("1000")
    result = account.answer()
    assert result["stopped"] == {"burst": {"before": 5, "now": 1}, "sweep": {"before": 16, "now": 0}}
    assert account.remembered()["groups"] == {"burst": [5, 1, 1], "sweep": [16, 0, 0]}
    assert account.answer()["stopped"] == {}


class Pooled(Account):
    """The account with Karpenter's role and a policy that denies the launches of its group `sweep`."""

    def __init__(self) -> None:
        super().__init__()
        iam = self.client("iam", HOME)
        iam.create_role(RoleName="atlas-prod-use1-karpenter", AssumeRolePolicyDocument=json.dumps(TRUST))
        deny = {"Effect": "Deny", "Action": "ec2:CreateFleet", "Resource": "*"}
        iam.create_policy(
            PolicyName="sweep-stop",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [deny]}),
        )
        pool = {"role": "atlas-prod-use1-karpenter", "policy": "sweep-stop", "most": 16}
        self.settings = {
            **Account.settings,
            "budgets": {"atlas-prod-budget": ["burst", "sweep"]},
            "pools": {"sweep": pool, "other": {**pool, "policy": "other-stop"}},
        }

    def attached(self) -> list[str]:
        found = self.client("iam", HOME).list_attached_role_policies(RoleName="atlas-prod-use1-karpenter")
        return [each["PolicyName"] for each in found["AttachedPolicies"]]


@pytest.fixture
def pooled() -> Iterator[Pooled]:
    with emulated_aws():
        yield Pooled()


def test_groups_of_karpenter_are_stopped_by_their_policies(pooled: Pooled) -> None:
    pooled.spend("999")
    pooled.answer()
    assert pooled.attached() == []
    pooled.spend("1000")
    result = pooled.answer()
    assert result["stopped"]["sweep"] == {"before": 16, "now": 0}
    assert result["failed"] == {}
    assert pooled.attached() == ["sweep-stop"]
    assert pooled.remembered()["groups"]["sweep"] == [16, 0, 0]
    assert "sweep grows no more" in pooled.messages[-1]["Message"]
    assert pooled.answer()["stopped"] == {}
    assert pooled.attached() == ["sweep-stop"]


def test_group_of_karpenter_that_could_not_be_stopped_is_reported_and_tried_again(pooled: Pooled) -> None:
    pools = pooled.settings["pools"]
    pooled.settings = {**pooled.settings, "pools": {"sweep": {**pools["sweep"], "role": "gone"}}}
    pooled.spend("1000")
    result = pooled.answer()
    assert set(result["failed"]) == {"sweep"}
    assert "sweep" not in result["stopped"]
    pooled.settings = {**pooled.settings, "pools": pools}
    assert pooled.answer()["failed"] == {}
    assert pooled.attached() == ["sweep-stop"]


def test_at_the_limit_each_maximum_becomes_the_present_size_and_nothing_else_changes(
    account: Account,
) -> None:
    before = account.sizes()
    account.spend("1000")
    result = account.answer()
    assert account.sizes() == before | {"serve": (0, 2, 2), "idle": (0, 0, 1), "burst": (0, 1, 1)}
    assert result["stopped"] == {
        "serve": {"before": 8, "now": 2},
        "idle": {"before": 4, "now": 1},
        "burst": {"before": 5, "now": 1},
    }
    assert result["failed"] == {}
    assert account.remembered() == {
        "since": "2030-05-04T12:00:00+00:00",
        "groups": {"serve": [8, 2, 2], "idle": [4, 1, 0], "burst": [5, 1, 1]},
    }


def test_spent_cap_of_a_site_stops_its_groups_only(account: Account) -> None:
    before = account.sizes()
    account.spend("500")
    account.spend("300", of="-site-usw2")
    result = account.answer()
    assert result["spent"] == {"atlas-prod-budget-site-usw2": ["300", "300"]}
    assert account.sizes() == before | {"burst": (0, 1, 1)}
    (message,) = account.messages
    assert "300 of 300 USD of the budget atlas-prod-budget-site-usw2 are spent." in message["Message"]


def test_budget_that_cannot_be_read_is_reported_and_does_not_save_the_others(account: Account) -> None:
    account.client("budgets", HOME).delete_budget(AccountId=ACCOUNT, BudgetName="atlas-prod-budget")
    account.spend("400", of="-site-usw2")
    result = account.answer()
    assert result["stopped"].keys() == {"burst"}
    assert result["failed"].keys() == {"atlas-prod-budget"}


def test_only_a_cluster_group_without_nodes_launches_none(account: Account) -> None:
    account.spend("1000")
    account.answer()
    own = account.node_groups()["idle"]["resources"]["autoScalingGroups"][0]["name"]
    suspended = {
        group["AutoScalingGroupName"]: {each["ProcessName"] for each in group["SuspendedProcesses"]}
        for group in (*account.scaling_groups(HOME), *account.scaling_groups("us-west-2"))
        if group["SuspendedProcesses"]
    }
    assert suspended == {own: {"Launch"}}


def test_second_message_keeps_the_first_maxima_and_publishes_nothing(account: Account) -> None:
    account.spend("2000")
    account.answer()
    first = account.remembered()
    assert len(account.messages) == 1
    assert account.answer()["stopped"] == {}
    assert account.remembered() == first
    assert len(account.messages) == 1


def test_group_that_shrinks_later_is_stopped_at_its_new_size_and_keeps_its_first_maximum(
    account: Account,
) -> None:
    account.spend("2000")
    account.answer()
    account.client("autoscaling", "us-west-2").set_desired_capacity(
        AutoScalingGroupName="burst-1234567", DesiredCapacity=0
    )
    assert account.answer()["stopped"] == {"burst": {"before": 1, "now": 0}}
    assert account.sizes()["burst"] == (0, 0, 0)
    assert account.remembered()["groups"]["burst"] == [5, 0, 0]


def test_its_message_lists_the_groups_and_has_the_attribute_that_its_subscription_leaves_out(
    account: Account,
) -> None:
    account.spend("1500")
    account.answer()
    (message,) = account.messages
    for part in ("1500 of 1000 USD", "serve grows no more: its maximum was 8", "gpufleet budget resume"):
        assert part in message["Message"]
    assert message["MessageAttributes"] == {
        OWN_MESSAGE: {"DataType": "String", "StringValue": "stop-scale-out"}
    }


def test_group_that_cannot_be_changed_is_reported_and_does_not_save_the_others(account: Account) -> None:
    account.refused = {"autoscaling"}
    account.spend("1000")
    result = account.answer()
    assert result["failed"] == {"burst": "AccessDenied"}
    assert result["stopped"].keys() == {"serve", "idle"}
    assert account.sizes()["burst"] == (0, 1, 5)
    assert "burst could not be stopped: AccessDenied" in account.messages[0]["Message"]
    # It is remembered before it is changed.
    assert account.remembered()["groups"]["burst"] == [5, 1, 1]


def test_site_that_does_not_answer_is_reported_and_does_not_save_the_others(account: Account) -> None:
    account.settings = {
        **account.settings,
        "sites": [{"name": "gone", "region": HOME, "cluster": "no-such"}, account.settings["sites"][1]],
    }
    account.spend("1000")
    result = account.answer()
    assert "no-such" in result["failed"]["gone"]
    assert result["stopped"].keys() == {"burst"}
