"""The function that drains spot nodes, on groups of an emulated account, up to the handler that ends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ec2.models import ec2_backends

from gpufleet.components.functions.drain_spot import drain
from gpufleet.components.functions.stop_scale_out import OWN_MESSAGE, stop
from gpufleet.kinds import DRAIN_TAG
from gpufleet.notices.audit import Audit
from gpufleet.notices.cloud import Cloud
from gpufleet.notices.events import read_notice
from gpufleet.notices.handler import NoticeWorker
from gpufleet.notices.intake import Intake
from gpufleet.notices.metrics import Metrics
from gpufleet.notices.notes import Notes
from gpufleet.notices.settings import settings_of
from tests.unit.components.functions.test_stop_scale_out import ACCOUNT, HOME, NOW, TAGS, Account
from tests.unit.notices.no_jobs import NoJobs
from tests.unit.stacks.moto_mocks import emulated_aws

WEST = "us-west-2"
USE1, USW2 = "atlas-prod-use1-notices", "atlas-prod-usw2-notices"
PATH = "/gpufleet/atlas/prod/drained"
SPOT_TAGS = {**TAGS, DRAIN_TAG: "spot"}
SINCE = "2030-05-04T12:00:00+00:00"


class SpotAccount(Account):
    """The account of the stop, with spot groups: `cheap` of the cluster (3 nodes, 1 to 8) and the Auto
    Scaling group `sweep` (2 nodes, 1 to 5)."""

    names: Mapping[str, str] = MappingProxyType({"cheap": "cheap", "sweep": "sweep"})
    """What the tag `Name` of the spot groups says."""

    drains: Mapping[str, Any] = MappingProxyType({
        "budget": "atlas-prod-budget",
        "at": "110",
        "path": PATH,
        "tags": SPOT_TAGS,
        "budgets": {"atlas-prod-budget": ["cheap", "sweep"], "atlas-prod-budget-site-usw2": ["sweep"]},
        "launched": {},
        "sites": [
            {"name": "use1", "region": HOME, "cluster": "atlas-prod-use1", "queue": USE1, "tags": {}},
            {"name": "usw2", "region": WEST, "cluster": "", "queue": USW2, "tags": {}},
        ],
    })  # fmt: skip

    def __init__(self) -> None:
        self.failing: dict[str, ClientError] = {}
        super().__init__()
        for name in (*self.names.values(), "launched"):
            self.client("ssm", HOME).put_parameter(Name=f"{PATH}/{name}", Type="String", Value="{}")
        for name, region in ((USE1, HOME), (USW2, WEST)):
            self.client("sqs", region).create_queue(QueueName=name)
        of = self.node_groups()["serve"]
        self.client("eks", HOME).create_nodegroup(
            clusterName="atlas-prod-use1",
            nodegroupName="cheap-1234567",
            nodeRole=of["nodeRole"],
            subnets=of["subnets"],
            capacityType="SPOT",
            scalingConfig={"minSize": 1, "desiredSize": 3, "maxSize": 8},
            tags={**SPOT_TAGS, "Name": self.names["cheap"]},
        )
        self._auto_scaling("sweep", SPOT_TAGS, 1, 2, 5)
        self._tag("sweep", "Name", self.names["sweep"])

    def tag_site(self, group: str, site: str) -> None:
        """Say of which site an Auto Scaling group is."""
        self._tag(group, "gpufleet:site", site)

    def _tag(self, group: str, key: str, value: str) -> None:
        tag = {
            "ResourceId": f"{group}-1234567",
            "ResourceType": "auto-scaling-group",
            "Key": key,
            "Value": value,
            "PropagateAtLaunch": True,
        }
        self.client("autoscaling", WEST).create_or_update_tags(Tags=[tag])

    def client(self, service: str, region: str) -> Any:
        made = super().client(service, region)
        for name, error in self.failing.items():
            if hasattr(made, name):
                setattr(made, name, _raising(error))
        return made

    def run(self) -> dict[str, Any]:
        return drain(self.drains, self.topic, self.client, NOW)

    def record(self, group: str) -> Any:
        found = self.client("ssm", HOME).get_parameter(Name=f"{PATH}/{self.names.get(group, group)}")
        return json.loads(found["Parameter"]["Value"])

    def notices(self, region: str, queue: str) -> list[dict[str, Any]]:
        """The notices in a queue, taken out of it."""
        sqs = self.client("sqs", region)
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        found = []
        while batch := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [json.loads(each["Body"]) for each in batch]
        return found

    def scaling_group(self, name: str) -> dict[str, Any]:
        """The Auto Scaling group of a group."""
        region, own = (WEST, f"{name}-1234567")
        if name in self.node_groups():
            region = HOME
            own = self.node_groups()[name]["resources"]["autoScalingGroups"][0]["name"]
        (found,) = [each for each in self.scaling_groups(region) if each["AutoScalingGroupName"] == own]
        return found

    def launches(self, name: str) -> bool:
        return not self.scaling_group(name)["SuspendedProcesses"]

    def instances(self, name: str) -> set[str]:
        return {each["InstanceId"] for each in self.scaling_group(name)["Instances"]}


def _raising(error: ClientError) -> Any:
    def fail(**_: Any) -> None:
        raise error

    return fail


def refusal(code: str, text: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": text}}, "Call")


@pytest.fixture
def account() -> Iterator[SpotAccount]:
    with emulated_aws():
        yield SpotAccount()


def test_nothing_drains_below_the_share_although_the_budget_is_spent(account: SpotAccount) -> None:
    before = account.sizes()
    account.spend("1099.99")
    assert account.run() == {"spent": {}, "drained": {}, "gone": [], "failed": {}}
    assert account.sizes() == before
    assert account.record("cheap") == account.record("sweep") == {}
    assert account.messages == account.notices(HOME, USE1) == []


def test_spot_groups_launch_no_more_and_their_instances_are_reported_and_nothing_else_changes(
    account: SpotAccount,
) -> None:
    before = account.sizes()
    account.spend("1100")
    result = account.run()
    assert result["drained"] == {"cheap": 3, "sweep": 2}
    assert (result["gone"], result["failed"]) == ([], {})
    # The function ends no instance: sizes stay until the handler has drained the nodes.
    assert account.sizes() == before | {"cheap": (0, 3, 8), "sweep": (0, 2, 5)}
    assert not account.launches("cheap") and not account.launches("sweep")
    assert all(account.launches(name) for name in ("serve", "idle", "block", "burst"))
    assert account.record("cheap") == {"since": SINCE, "sizes": [1, 3, 8]}
    assert account.record("sweep") == {"since": SINCE, "sizes": [1, 2, 5]}
    for name, region, queue in (("cheap", HOME, USE1), ("sweep", WEST, USW2)):
        sent = account.notices(region, queue)
        assert {each["detail"]["instance-id"] for each in sent} == account.instances(name)
        for each in sent:
            read = read_notice(json.dumps(each), account=ACCOUNT, region=region, now=NOW.timestamp())
            assert (read.kind, read.deadline, read.withdrawn) == ("budget", None, False)


def test_cap_of_a_site_drains_its_groups_only(account: SpotAccount) -> None:
    account.spend("500")
    account.spend("330", of="-site-usw2")
    assert account.run()["drained"] == {"sweep": 2}
    assert account.launches("cheap")
    assert account.record("cheap") == {}


def test_groups_of_two_sites_in_one_region_go_to_the_queues_of_their_sites(account: SpotAccount) -> None:
    account.client("sqs", WEST).create_queue(QueueName="other")
    account.client("ssm", HOME).put_parameter(Name=f"{PATH}/far", Type="String", Value="{}")
    account._auto_scaling("far", {**SPOT_TAGS, "gpufleet:site": "far"}, 0, 1, 5)
    account.tag_site("sweep", "usw2")
    sites = [
        {"name": name, "region": WEST, "cluster": "", "queue": queue, "tags": {"gpufleet:site": name}}
        for name, queue in (("usw2", USW2), ("far", "other"))
    ]
    account.drains = {
        **SpotAccount.drains, "budgets": {"atlas-prod-budget": ["sweep", "far"]}, "sites": sites
    }  # fmt: skip
    account.spend("1200")
    assert account.run()["drained"] == {"sweep": 2, "far": 1}
    for queue, name in ((USW2, "sweep"), ("other", "far")):
        sent = account.notices(WEST, queue)
        assert {each["detail"]["instance-id"] for each in sent} == account.instances(name)


def test_cap_of_a_team_without_spot_drains_nothing(account: SpotAccount) -> None:
    account.drains = {**SpotAccount.drains, "budgets": {"atlas-prod-budget": []}}
    account.spend("2000")
    assert account.run() == {
        "spent": {"atlas-prod-budget": ["2000", "1000"]}, "drained": {}, "gone": [], "failed": {}
    }  # fmt: skip
    assert account.messages == []


def test_second_run_keeps_the_first_sizes_sends_the_same_notices_and_no_mail(account: SpotAccount) -> None:
    account.spend("1200")
    account.run()
    first, sent = account.record("cheap"), account.notices(HOME, USE1)
    assert account.run()["drained"] == {}
    assert account.record("cheap") == first
    again = account.notices(HOME, USE1)
    assert sorted(each["id"] for each in again) == sorted(each["id"] for each in sent)
    assert len(account.messages) == 1


def test_two_runs_at_once_record_the_sizes_from_before_both(account: SpotAccount) -> None:
    account.spend("1200")
    real = account.client
    inner: list[dict[str, Any]] = []

    def client(service: str, region: str) -> Any:
        made = real(service, region)
        if service == "ssm" and not inner:
            # The other run does everything between this one's look at the groups and its look at the record.
            inner.append({})
            inner[0] = drain(account.drains, account.topic, real, NOW)
        return made

    outer = drain(account.drains, account.topic, client, NOW)
    assert inner[0]["drained"] == {"cheap": 3, "sweep": 2}
    assert (outer["drained"], outer["failed"]) == ({}, {})
    assert account.record("cheap")["sizes"] == [1, 3, 8]
    assert account.record("sweep")["sizes"] == [1, 2, 5]


def test_run_that_is_killed_before_it_changes_a_group_is_finished_by_the_next(account: SpotAccount) -> None:
    account.spend("1200")
    account.failing = {"suspend_processes": refusal("Throttling", "Rate exceeded")}
    result = account.run()
    assert result["failed"].keys() == {"cheap", "sweep"}
    assert "Rate exceeded" in account.messages[0]["Message"]
    assert account.sizes()["cheap"] == (1, 3, 8)
    account.failing = {}
    assert account.run()["failed"] == {}
    assert account.sizes()["cheap"] == (0, 3, 8)
    assert account.record("cheap") == {"since": SINCE, "sizes": [1, 3, 8]}
    assert len(account.notices(HOME, USE1)) == 3


def test_group_that_was_being_resumed_drains_again_and_keeps_its_sizes(account: SpotAccount) -> None:
    account.spend("1200")
    kept = json.dumps({"since": "", "sizes": [1, 4, 8]})
    account.client("ssm", HOME).put_parameter(Name=f"{PATH}/cheap", Value=kept, Type="String", Overwrite=True)
    assert account.run()["drained"]["cheap"] == 3
    assert account.record("cheap") == {"since": SINCE, "sizes": [1, 4, 8]}


def test_deleted_group_is_no_failure(account: SpotAccount) -> None:
    account.spend("1200")
    account.client("autoscaling", WEST).delete_auto_scaling_group(
        AutoScalingGroupName="sweep-1234567", ForceDelete=True
    )
    result = account.run()
    assert (result["gone"], result["failed"]) == (["sweep"], {})
    assert result["drained"] == {"cheap": 3}
    missing = refusal("ValidationError", "AutoScalingGroup name not found - null")
    account.failing = {"suspend_processes": missing}
    assert account.run()["gone"] == ["cheap", "sweep"]


def test_on_demand_group_with_the_name_of_a_drained_one_is_left(account: SpotAccount) -> None:
    account.drains = {**SpotAccount.drains, "budgets": {"atlas-prod-budget": ["burst", "serve", "block"]}}
    before = account.sizes()
    account.spend("5000")
    result = account.run()
    assert (result["drained"], result["gone"]) == ({}, ["block", "burst", "serve"])
    assert account.sizes() == before


def test_group_without_a_record_is_a_failure_and_does_not_save_the_others(account: SpotAccount) -> None:
    account.client("ssm", HOME).delete_parameter(Name=f"{PATH}/cheap")
    account.spend("1200")
    result = account.run()
    assert result["failed"].keys() == {"cheap"}
    assert result["drained"] == {"sweep": 2}
    assert account.launches("cheap")


def test_groups_that_slurm_launches_are_recorded_for_its_controllers(account: SpotAccount) -> None:
    account.drains = {
        **SpotAccount.drains,
        "budgets": {"atlas-prod-budget": ["launched"]},
        "launched": {"launched": 16},
    }
    account.spend("1200")
    assert account.run()["drained"] == {"launched": 0}
    assert account.record("launched") == {"since": SINCE, "sizes": [0, 0, 16]}
    assert "launched launches no more spot nodes, and its nodes drain." in account.messages[0]["Message"]


def test_mail_says_what_drains_and_how_it_ends(account: SpotAccount) -> None:
    account.spend("1150")
    account.run()
    (message,) = account.messages
    for part in (
        "1150 of 1000 USD of the budget atlas-prod-budget are spent: 110% or more.",
        "cheap launches no more spot nodes, and its 3 nodes drain.",
        "Capacity Blocks stay",
        "gpufleet budget resume",
    ):
        assert part in message["Message"]
    assert message["MessageAttributes"][OWN_MESSAGE]["StringValue"] == "drain-spot"


def test_stop_after_the_drain_leaves_the_minimum_at_0(account: SpotAccount) -> None:
    account.settings = {
        **Account.settings,
        "budgets": {"atlas-prod-budget": ["serve", "cheap", "sweep"]},
    }
    account.spend("1200")
    account.run()
    stop(account.settings, account.topic, account.client, NOW)
    assert account.sizes()["cheap"] == (0, 3, 3)
    assert account.sizes()["sweep"] == (0, 2, 2)


def test_handler_drains_what_the_function_reports_and_the_group_ends_empty(
    account: SpotAccount, tmp_path: Path
) -> None:
    account.spend("1200")
    for each in ec2_backends[ACCOUNT][WEST].all_instances():
        each.lifecycle = "spot"
        each.add_tags(TAGS)
    account.run()
    nodes = {instance: f"n{place}" for place, instance in enumerate(sorted(account.instances("sweep")))}
    scheduler = NoJobs(nodes)
    work(account, scheduler, tmp_path)
    assert scheduler.drained_nodes == dict.fromkeys(nodes.values(), "budget")
    group = account.scaling_group("sweep")
    assert (group["MinSize"], group["DesiredCapacity"], group["Instances"]) == (0, 0, [])
    assert account.sizes()["burst"] == (0, 1, 5)


def test_handler_leaves_an_instance_that_is_not_spot(account: SpotAccount, tmp_path: Path) -> None:
    account.spend("1200")
    for each in ec2_backends[ACCOUNT][WEST].all_instances():
        each.add_tags(TAGS)
    account.run()
    nodes = {instance: f"n{place}" for place, instance in enumerate(account.instances("sweep"))}
    scheduler = NoJobs(nodes)
    work(account, scheduler, tmp_path)
    assert scheduler.drained_nodes == {}
    assert len(account.instances("sweep")) == 2


def work(account: SpotAccount, scheduler: NoJobs, folder: Path) -> None:
    """Let the handler of usw2 take all notices and do all steps."""
    url = account.client("sqs", WEST).get_queue_url(QueueName=USW2)["QueueUrl"]
    settings = settings_of(
        {"queue_url": url, "region": WEST, "scheduler": "slurm", "tags": TAGS, "poll_s": 0}, "test"
    )
    notes, audit = Notes(folder / "notes.sqlite"), Audit(folder / "audit.jsonl")
    metrics, cloud = Metrics(notes.counts), Cloud(settings)
    now = NOW.timestamp()
    worker = NoticeWorker(settings, notes, cloud, scheduler, audit, metrics, clock=lambda: now)
    intake = Intake(settings, notes, cloud, audit, metrics, threading.Event(), clock=lambda: now)
    intake.take(cloud.receive(0))
    while worker.round():
        pass
    intake.settle()
    notes.close()
