"""temporary-environments-expire: the date in the fleet file, and its tag on capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    CAPACITY_RESERVATION,
    INSTANCE,
    LAUNCH_TEMPLATE,
    LUSTRE,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "temporary-environments-expire"
TAG = "gpufleet:expires"
SOON = "2026-12-01"  # the examples' day is 2026-11-21


def fleet(environment: str = "pr-17", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": environment,
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "ml", "cost-center": "c", "project": "p"},
        "software": {"channel": "2026.11"},
        **more,
    }


def instance(**tags: Any) -> dict[str, Any]:
    return {"type": INSTANCE, "props": {"tags": tags}}


@pytest.mark.parametrize("name", ["pr-17", "tmp-a", "temp-x", "test-load", "ana-scratch"])
def test_temporary_environment_without_a_date_is_found(name: str, ask: Ask) -> None:
    (found,) = ask(RULE, fleet=fleet(name))
    assert "no expiry date" in found.message


@pytest.mark.parametrize("name", ["prod", "dev", "sandbox", "pretrain", "prod-pr"])
def test_other_environments_need_no_date(name: str, ask: Ask) -> None:
    assert ask(RULE, instance(), fleet=fleet(name)) == []


def test_stack_with_a_temporary_name_counts_for_any_fleet_file(ask: Ask) -> None:
    assert len(ask(RULE, fleet=fleet("dev"), stack="pr-99")) == 1
    assert len(ask(RULE, fleet=fleet("dev"), stack="PR-99")) == 1


def test_stack_without_a_fleet_file_is_judged_by_its_name(ask: Ask) -> None:
    assert len(ask(RULE, stack="tmp-trial")) == 1
    assert ask(RULE) == []


@pytest.mark.parametrize(("date", "text"), [("2026-11-20", "expired on"), ("2027-01-31", "30 days at most")])
def test_date_in_the_past_or_too_far_ahead_is_found(date: str, text: str, ask: Ask) -> None:
    (found,) = ask(RULE, fleet=fleet(expires=date))
    assert text in found.message


def test_last_day_passes_and_the_settings_extend_the_limit(ask: Ask) -> None:
    assert ask(RULE, fleet=fleet(expires="2026-11-21")) == []
    assert ask(RULE, fleet=fleet(expires="2026-12-21")) == []
    assert ask(RULE, fleet=fleet(expires="2027-01-31"), settings={"max_days": 90}) == []


def test_expired_environment_of_any_name_is_found(ask: Ask) -> None:
    (found,) = ask(RULE, fleet=fleet("dev", expires="2026-11-20"))
    assert "expired on" in found.message
    assert ask(RULE, fleet=fleet("dev", expires="2029-01-01")) == []


@pytest.mark.parametrize("value", ["", "   ", "2026-12-02", "2026-12-01 ", None])
def test_capacity_without_the_tag_or_with_another_date_is_found(value: Any, ask: Ask) -> None:
    (found,) = ask(RULE, instance(**{TAG: value}), fleet=fleet(expires=SOON))
    assert found.violation.prop == "tags"
    assert not found.violation.unknown


@pytest.mark.parametrize("key", ["gpufleet:Expires", "expires"])
def test_tag_with_another_key_does_not_count(key: str, ask: Ask) -> None:
    assert len(ask(RULE, instance(**{key: SOON}), fleet=fleet(expires=SOON))) == 1


@pytest.mark.parametrize("tags", [UNKNOWN, {TAG: UNKNOWN}, {"team": UNKNOWN}])
def test_unknown_tags_fail_closed(tags: Any, ask: Ask) -> None:
    (found,) = ask(RULE, {"type": INSTANCE, "props": {"tags": tags}}, fleet=fleet(expires=SOON))
    assert found.violation.unknown


def test_tags_of_auto_scaling_groups_and_templates_count(ask: Ask) -> None:
    group = {"type": AUTO_SCALING_GROUP, "name": "g", "props": {"tags": [{"key": TAG, "value": SOON}]}}
    launches = [{"resourceType": "instance", "tags": {TAG: SOON}}]
    props = {"tags": {TAG: SOON}, "tagSpecifications": launches}
    template = {"type": LAUNCH_TEMPLATE, "name": "t", "props": props}
    assert ask(RULE, group, template, fleet=fleet(expires=SOON)) == []
    launches.append({"resourceType": "volume", "tags": {"team": "ml"}})
    (found,) = ask(RULE, group, template, fleet=fleet(expires=SOON))
    assert found.violation.prop == "tagSpecifications[1].tags"


def test_tag_with_ignored_changes_is_found(ask: Ask) -> None:
    ignored = {**instance(**{TAG: SOON}), "options": {"ignoreChanges": ["tags"]}}
    assert len(ask(RULE, ignored, fleet=fleet(expires=SOON))) == 1


def test_reservations_and_file_systems_are_capacity_and_a_bucket_is_not(ask: Ask) -> None:
    for kind in (CAPACITY_RESERVATION, LUSTRE):
        assert len(ask(RULE, {"type": kind, "props": {}}, fleet=fleet(expires=SOON))) == 1
    assert ask(RULE, {"type": "aws:s3/bucket:Bucket", "props": {}}, fleet=fleet(expires=SOON)) == []
