"""A site's queue of notices in moto: the whole stack of a fleet that has one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from gpufleet.notices.events import read_notice
from gpufleet.notices.settings import settings_of
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.stacks.interruptions import handler_settings
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import ACCOUNT, EchoMocks, Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, spec, spot
from tests.unit.pricing.test_one_price import assert_one_price
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws, simulated_actions

QUEUE = "atlas-test-use1-notices"


def fleet(scheduler: str = "slurm", **changes: Any) -> Any:
    site = cloud_site(group("sweep", "g6.xlarge", spot(0, 4)), scheduler=scheduler, interruptions=changes)
    return spec(cloud=[site])


@pytest.fixture(scope="module")
def plan() -> FleetPlan:
    return build_plan(fleet(), CATALOG)


@pytest.fixture(scope="module")
def made(plan: FleetPlan) -> Iterator[Recording]:
    with emulated_aws():
        yield record(
            lambda: build_fleet(plan, StackSettings("sandbox", "test", False, None, {}, {})), MotoMocks()
        )


@pytest.mark.usefixtures("made")
def test_event_of_aws_reaches_the_queue_and_is_read(plan: FleetPlan) -> None:
    sqs, bus = boto3.client("sqs", "us-east-1"), boto3.client("events", "us-east-1")
    detail = {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}
    for source, name in (
        ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        ("aws.ec2", "EC2 Instance State-change Notification"),
    ):
        bus.put_events(Entries=[{"Source": source, "DetailType": name, "Detail": json.dumps(detail)}])
    url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    # moto leaves out the account, which EventBridge always writes.
    body = json.dumps(json.loads(message["Body"]) | {"account": ACCOUNT})
    notice = read_notice(body, account=ACCOUNT, region="us-east-1", now=4e9)
    assert notice.subjects == ("i-0123456789abcdef0",)


def test_handler_starts_with_the_settings_of_the_stack(plan: FleetPlan) -> None:
    (site,) = plan.cloud
    assert site.interruptions is not None
    url = f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/{QUEUE}"
    found = settings_of({"queue_url": url, **handler_settings(site, site.interruptions)}, "stack")
    assert found.account == ACCOUNT
    assert found.tags == {
        "gpufleet:environment": "test",
        "gpufleet:fleet": "atlas",
        "gpufleet:site": "use1",
    }


def test_queue_and_role_of_the_handler_have_the_tags_of_the_site() -> None:
    planned = build_plan(fleet("kubernetes"), CATALOG)
    found = record(
        lambda: build_fleet(planned, StackSettings("sandbox", "test", False, None, {}, {})), EchoMocks()
    )
    for kind, name in (("Queue", QUEUE), ("Role", QUEUE)):
        assert dict(planned.cloud[0].tags).items() <= found.one(kind, name).inputs["tags"].items()


def test_recommendations_that_are_ignored_have_no_rule() -> None:
    ignoring = build_plan(fleet(rebalance="ignore"), CATALOG)
    found = record(
        lambda: build_fleet(ignoring, StackSettings("sandbox", "test", False, None, {}, {})), EchoMocks()
    )
    names = {rule.name for rule in found.of("EventRule")}
    assert names == {f"{QUEUE}-spot", f"{QUEUE}-capacity", f"{QUEUE}-maintenance"}


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_plan_and_stack_have_the_same_price(scheduler: str, preview: bool) -> None:
    assert_one_price(fleet(scheduler), preview=preview)


def test_private_site_reaches_its_queue_by_an_endpoint() -> None:
    site = cloud_site(
        group("sweep", "g6.xlarge", spot(0, 4)),
        network={"cidr": "10.40.0.0/16", "nat": "none"},
        interruptions={},
    )
    assert "sqs" in build_plan(spec(cloud=[site]), CATALOG).cloud[0].interface_endpoints


def test_preflight_asks_for_queues_only_where_there_is_one(plan: FleetPlan) -> None:
    without = build_plan(spec(cloud=[cloud_site(group("sweep", "g6.xlarge", spot(0, 4)))]), CATALOG)
    assert {"sqs:CreateQueue", "events:PutRule"} <= simulated_actions(plan)
    assert not {each for each in simulated_actions(without) if each.startswith(("sqs:", "events:"))}
