"""Nodes drawn in an order: from groups with capacity, with a part of it, and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.components.ordered_capacity import OrderProvider
from gpufleet.components.scaling_groups import ScalingGroups
from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.components.scaling_account import KIND, REGION, ScalingAccount, scaling_account

PROVIDER = OrderProvider()


@pytest.fixture
def account() -> Iterator[ScalingAccount]:
    with scaling_account() as made:
        for name in ("reserved", "ondemand"):
            made.group(name)
        made.group("spot", spot=True)
        yield made


def order(nodes: int = 8, at_least: int | None = None, *places: str, **limits: int) -> dict[str, Any]:
    """Inputs of an order; a place is a list of groups with blanks."""
    return {
        "places": [
            [
                {
                    "name": name,
                    "resource": name,
                    "group_name": name,
                    "most": float(limits.get(name, nodes)),
                    "block_id": None,
                }
                for name in place.split()
            ]
            for place in places or ("reserved spot ondemand",)
        ],
        "nodes": float(nodes),
        "at_least": float(nodes if at_least is None else at_least),
        "region": REGION,
        "wait_s": 600.0,
        "client": {},
    }


def short(left: int = 0, market: Any = "", zone: str = "") -> Shortage:
    return Shortage(type=KIND, left=left, market=market, zone=zone and f"{REGION}{zone}")


def test_nodes_come_from_the_first_source_that_has_them(account: ScalingAccount) -> None:
    found = PROVIDER.create(order()).outs
    assert (found["obtained"], found["missing"]) == ({"reserved": 8, "spot": 0, "ondemand": 0}, 0)
    assert account.asked() == {"reserved": 8, "spot": 0, "ondemand": 0}


def test_sources_add_up_to_their_limits_in_their_order(account: ScalingAccount) -> None:
    account.shortages = (short(3, "spot"),)
    found = PROVIDER.create(order(reserved=4)).outs
    assert (found["obtained"], found["missing"]) == ({"reserved": 4, "spot": 3, "ondemand": 1}, 0)
    assert account.asked() == found["obtained"]
    assert account.most_asked == 8


def test_all_or_nothing_gives_back_what_it_got_and_says_why(account: ScalingAccount) -> None:
    account.shortages = (short(3, "spot"), short(2, "on-demand"))
    with pytest.raises(Exception, match="8 nodes are asked for, all of them together") as error:
        PROVIDER.create(order())
    reported = str(error.value)
    assert "reserved has 2 of 8: We currently do not have sufficient g6.xlarge capacity" in reported
    assert "spot has 3 of 6" in reported and "ondemand has 0 of 3" in reported
    assert account.running() == account.asked() == {"reserved": 0, "spot": 0, "ondemand": 0}


def test_remainder_is_named_and_asked_for_again(account: ScalingAccount) -> None:
    account.shortages = (short(3, "spot"), short(2, "on-demand"))
    asked = order(at_least=4)
    first = PROVIDER.create(asked).outs
    assert (sum(first["obtained"].values()), first["missing"]) == (5, 3)
    assert [reason.partition(":")[0] for reason in first["reasons"]] == [
        "reserved has 2 of 8",
        "spot has 3 of 6",
        "ondemand has 0 of 3",
    ]
    assert account.asked() == first["obtained"]
    wanted = PROVIDER.diff("", first, asked)
    assert (wanted.changes, wanted.replaces, wanted.delete_before_replace) == (True, [], False)
    account.shortages = (short(3, "spot"),)
    second = PROVIDER.update("", first, asked).outs
    assert (second["missing"], second["reasons"]) == (0, [])
    assert second["obtained"] == {"reserved": 5, "spot": 3, "ondemand": 0}
    assert not PROVIDER.diff("", second, asked).changes


def test_place_without_enough_is_left_for_the_next(account: ScalingAccount) -> None:
    account.group("a", "a")
    account.group("b", "b")
    account.shortages = (short(5, zone="a"),)
    found = PROVIDER.create(order(6, None, "a", "b")).outs
    assert found["obtained"] == {"b": 6}
    assert account.running() | account.asked() == {**dict.fromkeys(account.groups, 0), "b": 6}


def test_order_that_has_nodes_does_not_move(account: ScalingAccount) -> None:
    account.group("a", "a")
    account.group("b", "b")
    first = PROVIDER.create(order(4, None, "a", "b")).outs
    account.shortages = (short(4, zone="a"),)
    with pytest.raises(Exception, match="a has 4 of 6"):
        PROVIDER.update("", first, order(6, None, "a", "b"))
    assert (account.running()["a"], account.running()["b"]) == (4, 0)
    assert account.asked()["a"] == 4


def test_failed_growth_ends_the_new_nodes_and_no_other(account: ScalingAccount) -> None:
    first = PROVIDER.create(order(4)).outs
    before = {state.instance.id for state in account.groups["reserved"].instance_states}
    account.shortages = (short(6),)
    with pytest.raises(Exception, match="8 nodes are asked for"):
        PROVIDER.update("", first, order(8))
    assert {state.instance.id for state in account.groups["reserved"].instance_states} == before


def test_fewer_nodes_leave_the_last_sources_first(account: ScalingAccount) -> None:
    first = PROVIDER.create(order(8, None, reserved=4, spot=3)).outs
    assert first["obtained"] == {"reserved": 4, "spot": 3, "ondemand": 1}
    found = PROVIDER.update("", first, order(5, None, reserved=4, spot=3)).outs
    assert found["obtained"] == account.asked() == {"reserved": 4, "spot": 1, "ondemand": 0}


def test_refresh_reports_reclaimed_nodes_as_missing(account: ScalingAccount) -> None:
    asked = order(6, 2)
    first = PROVIDER.create(asked).outs
    account.reclaim("reserved", 2)
    seen = PROVIDER.read("id", first).outs
    assert (seen["obtained"]["reserved"], seen["missing"]) == (4, 2)
    assert PROVIDER.diff("id", seen, asked).changes


def test_group_whose_growth_was_stopped_says_so(account: ScalingAccount) -> None:
    account.scaling.update_auto_scaling_group(AutoScalingGroupName="reserved", MaxSize=1)
    account.shortages = (short(0, "spot"),)
    found = PROVIDER.create(order(3, 1, "reserved spot")).outs
    assert found["obtained"] == {"reserved": 1, "spot": 0}
    assert found["reasons"][0] == "reserved has 1 of 1: the maximum of its Auto Scaling group is 1"


def test_slow_launches_end_with_the_wait(account: ScalingAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account.random, "random", lambda: 1.0)  # no node ever runs
    with pytest.raises(Exception, match="no more nodes came in 10 min, and Auto Scaling reports no failed"):
        PROVIDER.create(order(2, None, "reserved"))
    assert account.running()["reserved"] == account.asked()["reserved"] == 0
    assert account.now == pytest.approx(600)


def test_nodes_that_a_killed_run_left_in_another_place_are_given_back(account: ScalingAccount) -> None:
    account.group("a", "a")
    account.group("b", "b")
    account.scaling.set_desired_capacity(AutoScalingGroupName="b", DesiredCapacity=3)
    found = PROVIDER.create(order(4, None, "a", "b")).outs
    assert found["obtained"] == {"a": 4}
    assert (account.running()["b"], account.asked()["b"]) == (0, 0)


def test_error_of_aws_gives_back_what_came_before_it(
    account: ScalingAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> Any:
        raise PermissionError("not authorized to perform autoscaling:DescribeScalingActivities")

    monkeypatch.setattr(ScalingGroups, "_failures", denied)
    account.shortages = (short(3),)
    with pytest.raises(PermissionError):
        PROVIDER.create(order(8, 1))
    assert account.running() == account.asked() == {"reserved": 0, "spot": 0, "ondemand": 0}


def test_missing_group_is_named(account: ScalingAccount) -> None:
    with pytest.raises(Exception, match="the Auto Scaling group gone does not exist"):
        PROVIDER.create(order(2, None, "gone"))
