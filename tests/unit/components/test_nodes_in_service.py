"""The wait for the nodes of an Auto Scaling group, in an account with and without capacity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.components import nodes_in_service
from gpufleet.components.nodes_in_service import ASKED, WaitProvider
from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.faults import shortage
from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.lab.two_zones import IMAGE

KIND, REGION = "g6.xlarge", "us-east-1"
PROPS: dict[str, Any] = {"group_name": "nodes", "nodes": 2.0, "region": REGION, "wait_s": 0.0, "client": {}}


class Account:
    """An emulated account with an Auto Scaling group in two zones."""

    def __init__(self) -> None:
        self.shortages: tuple[Shortage, ...] = ()
        self.slept: list[float] = []
        self.ec2, self.scaling = (boto3.client(name, region_name=REGION) for name in ("ec2", "autoscaling"))
        vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            self.ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}"
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate("ab")
        ]
        self.ec2.create_launch_template(
            LaunchTemplateName="nodes", LaunchTemplateData={"ImageId": IMAGE, "InstanceType": KIND}
        )

    def group(self, desired: int, most: int = 4) -> None:
        """Create the group."""
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName="nodes",
            MinSize=0,
            MaxSize=most,
            DesiredCapacity=desired,
            VPCZoneIdentifier=",".join(self.subnets),
            LaunchTemplate={"LaunchTemplateName": "nodes", "Version": "$Latest"},
        )

    def resize(self, desired: int) -> None:
        """Ask for another number of nodes."""
        self.scaling.set_desired_capacity(AutoScalingGroupName="nodes", DesiredCapacity=desired)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        install("ec2", "autoscaling")
        made = Account()
        shortage.install(lambda: made.shortages)
        yield made
        shortage.install(tuple)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, account: Account) -> Account:
    """A clock that only sleeping moves."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        account.slept.append(seconds)

    monkeypatch.setattr(nodes_in_service.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(nodes_in_service.time, "sleep", sleep)
    return account


def test_nodes_that_run_are_not_waited_for(clock: Account) -> None:
    clock.group(2)
    assert WaitProvider().create(PROPS | {"wait_s": 600.0}).id == "nodes"
    assert clock.slept == []


def test_group_without_nodes_fails_with_size_reason_and_remedy(account: Account) -> None:
    account.shortages = (Shortage(type=KIND),)
    account.group(2)
    with pytest.raises(Exception, match="asks for 2 nodes, and none is in service") as error:
        WaitProvider().create(PROPS)
    reported = str(error.value)
    for zone in "ab":
        assert (
            f"sufficient {KIND} capacity in the Availability Zone you requested ({REGION}{zone})" in reported
        )
    assert "use another zone or type" in reported
    assert reported.count("sufficient") == 2


def test_group_with_fewer_nodes_names_the_remainder(account: Account) -> None:
    account.group(1)
    account.shortages = (Shortage(type=KIND),)
    account.resize(3)
    with pytest.raises(Exception, match="asks for 3 nodes, and 1 of them is in service: We currently do not"):
        WaitProvider().create(PROPS)


def test_wait_is_bounded_and_ends_as_soon_as_nodes_run(
    clock: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.shortages = (Shortage(type=KIND),)
    clock.group(1)
    with pytest.raises(Exception, match="after 10 min"):
        WaitProvider().create(PROPS | {"wait_s": 600.0})
    assert sum(clock.slept) == pytest.approx(600)
    assert max(clock.slept) <= nodes_in_service.POLL_S
    clock.slept.clear()
    slow = nodes_in_service.time.sleep

    def until_there_is_capacity(seconds: float) -> None:
        slow(seconds)
        if len(clock.slept) == 3:
            clock.shortages = ()
            assert shortage.launch_waiting()

    monkeypatch.setattr(nodes_in_service.time, "sleep", until_there_is_capacity)
    WaitProvider().create(PROPS | {"wait_s": 600.0})
    assert len(clock.slept) == 3


def test_size_that_a_scheduler_lowered_is_what_counts(account: Account) -> None:
    account.shortages = (Shortage(type=KIND),)
    account.group(2)
    account.resize(0)
    WaitProvider().create(PROPS)


def test_deleted_group_is_reported(account: Account) -> None:
    with pytest.raises(Exception, match="Auto Scaling group nodes does not exist"):
        WaitProvider().create(PROPS)


def test_group_whose_nodes_still_start_says_so(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.group(1)
    monkeypatch.setattr(nodes_in_service, "_sizes", lambda *_: (2, 1))
    with pytest.raises(Exception, match="reports no failed launch"):
        WaitProvider().create(PROPS)


def test_old_failures_explain_nothing(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.shortages = (Shortage(type=KIND),)
    account.group(1)
    monkeypatch.setattr(nodes_in_service, "_EARLIER", -nodes_in_service._EARLIER)
    with pytest.raises(Exception, match="reports no failed launch"):
        WaitProvider().create(PROPS)


@pytest.mark.parametrize("key", ASKED)
def test_another_size_or_group_is_waited_for_in_place(key: str, account: Account) -> None:
    found = WaitProvider().diff("nodes", dict(PROPS), PROPS | {key: 3 if key == "nodes" else "other"})
    assert found.changes
    assert (found.replaces, found.delete_before_replace) == ([], False)
    account.shortages = (Shortage(type=KIND),)
    account.group(3)
    with pytest.raises(Exception, match="asks for 3 nodes"):
        WaitProvider().update("nodes", dict(PROPS), PROPS | {"nodes": 3.0})


def test_limits_and_credentials_cause_no_change() -> None:
    other = PROPS | {"wait_s": 60.0, "client": {"profile": "x"}}
    assert not WaitProvider().diff("nodes", dict(PROPS), other).changes


def test_stopped_nodes_are_no_drift() -> None:
    assert WaitProvider().read("nodes", PROPS).outs == PROPS
