"""reservations-survive: released, bought twice, forgotten, or ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import BLOCK_EXTENSION, BLOCK_OFFERING, CAPACITY_BLOCK, CAPACITY_RESERVATION

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "reservations-survive"


def odcr(count: Any = 4, **more: Any) -> Described:
    props = {"instanceType": "p5.48xlarge", "instanceCount": count, **more}
    return {"type": CAPACITY_RESERVATION, "name": "base", "props": props}


def block(**more: Any) -> Described:
    return {
        "type": CAPACITY_BLOCK,
        "name": "block",
        "props": more,
        "depends": {"capacityBlockOfferingId": ["offering"]},
    }


def offering(**more: Any) -> Described:
    return {"type": BLOCK_OFFERING, "name": "offering", "props": {"count": 2, **more}}


def test_deleted_or_replaced_reservation_is_found(ask: Ask) -> None:
    assert "released" in ask(RULE, [odcr()])[0].message
    (found,) = ask(RULE, [odcr()], [odcr(instanceType="g6.xlarge", __replace=["instanceType"])])
    assert "replaced (by instanceType)" in found.message


@pytest.mark.parametrize(("count", "found"), [(3, 1), (0, 1), (UNKNOWN, 1), (4, 0), (5, 0)])
def test_reservation_may_grow_and_not_shrink(count: Any, found: int, ask: Ask) -> None:
    judged = ask(RULE, [odcr()], [odcr(count)])
    assert len(judged) == found
    assert all(each.violation.unknown == (count is UNKNOWN) for each in judged)


def test_block_is_neither_bought_again_nor_forgotten(ask: Ask) -> None:
    before = [offering(), block()]
    found = ask(RULE, before, [offering(count=4, __replace=["count"]), block(__replace=["offering"])])
    assert len(found) == 2
    assert all("bought again" in each.message for each in found)
    (gone,) = ask(RULE, before)
    assert "stays paid for" in gone.message
    assert gone.urn.endswith("::block")


def test_retained_block_is_found_as_forgotten(ask: Ask) -> None:
    retained = {**block(), "options": {"retainOnDelete": True}}
    assert len(ask(RULE, [offering(), retained])) == 1
    assert ask(RULE, [{**odcr(), "options": {"retainOnDelete": True}}]) == []


@pytest.mark.parametrize(
    ("end", "found"), [("2026-11-20T11:30:00Z", 0), ("2026-11-22T11:30:00Z", 1), ("soon", 1), (UNKNOWN, 1)]
)
def test_ended_reservation_may_be_deleted(end: Any, found: int, ask: Ask) -> None:
    assert len(ask(RULE, [offering(), block(endDate=end)])) == found
    assert len(ask(RULE, [odcr(endDate=end)])) == found


def test_rename_with_an_alias_keeps_the_reservation(ask: Ask) -> None:
    renamed = {**odcr(), "name": "serve", "options": {"aliases": ["base"]}}
    assert ask(RULE, [odcr()], [renamed]) == []


def test_new_environment_may_reserve_anything(ask: Ask) -> None:
    assert ask(RULE, [], [odcr(), offering(), block()]) == []


def extension(end: str, **more: Any) -> Described:
    return {
        "type": BLOCK_EXTENSION,
        "name": "block-extension-1",
        "props": {"end_date": end, "hours": 24, **more},
        "depends": {"reservation_id": ["block"]},
    }


def test_extension_is_not_bought_again_while_it_lasts(ask: Ask) -> None:
    held = [offering(), block(endDate="2026-11-01T11:30:00Z")]
    running, over = extension("2099-01-01T11:30:00Z"), extension("2026-11-08T11:30:00Z")
    other = extension("2099-01-01T11:30:00Z", __replace=["hours"])
    (found,) = ask(RULE, [*held, running], [*held, other])
    assert "block-extension-1 would be bought again" in found.message
    assert ask(RULE, [*held, over], [*held, other]) == []


def test_extended_block_has_not_ended(ask: Ask) -> None:
    before = [offering(), block(endDate="2026-11-01T11:30:00Z")]
    after = [offering(), block(endDate="2026-11-01T11:30:00Z", __replace=["instancePlatform"])]
    assert ask(RULE, before, after) == []
    running = extension("2099-01-01T11:30:00Z")
    (found,) = ask(RULE, [*before, running], [*after, running])
    assert "block would be bought again" in found.message
