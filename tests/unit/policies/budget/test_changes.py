"""What one change adds, what open changes add together, what is paid upfront, and what is committed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policies.rules.budget._caps import example_fleet, example_nodes
from gpufleet.policies.rules.budget.budget_commitment_end import budget_commitment_end
from gpufleet.policies.rules.budget.budget_increase import budget_increase
from gpufleet.policies.rules.budget.budget_open_changes import budget_open_changes
from gpufleet.policies.rules.budget.budget_upfront import budget_upfront
from gpufleet.policies.rules.budget.price_catalog_age import price_catalog_age
from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.rule import Example, Rule
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import BLOCK_EXTENSION, CAPACITY_BLOCK, CAPACITY_RESERVATION
from gpufleet.resources.types import BLOCK_OFFERING as OFFERING


def judged(
    rule: Rule[Any],
    resources: Any,
    before: Any = (),
    *,
    settings: Any = None,
    open_changes: Any = None,
    **budget: Any,
) -> list[RuleViolation]:
    example = Example(
        tuple(resources),
        before=tuple(before),
        settings=settings,
        fleet=example_fleet(**budget),
        open_changes=open_changes or {},
    )
    return examples.evaluate(rule, example)


@pytest.mark.parametrize("rule", [budget_increase, budget_open_changes, budget_commitment_end])
def test_missing_fleet_file_fails_closed(rule: Rule[Any]) -> None:
    (found,) = examples.evaluate(rule, Example(example_nodes(1)))
    assert "has no fleet file" in found.message


def test_increase_is_reported_with_before_after_and_limit() -> None:
    (found,) = judged(budget_increase, example_nodes(4), example_nodes(1), max_increase="1000 USD")
    assert "adds 1,811 USD a month (604 USD before, 2,414 USD after)" in found.message
    assert found.violation.fleet_field == "budget.max_increase"


def test_any_increase_passes_without_a_limit_and_in_a_new_environment() -> None:
    assert judged(budget_increase, example_nodes(8), example_nodes(1)) == []
    assert judged(budget_increase, example_nodes(8), max_increase="1000 USD") == []


def test_rest_of_an_interrupted_first_creation_is_not_an_increase() -> None:
    rest = Example(
        example_nodes(8),
        before=example_nodes(1),
        fleet=example_fleet(max_increase="1000 USD"),
        unfinished=True,
    )
    assert examples.evaluate(budget_increase, rest) == []
    assert len(examples.evaluate(budget_increase, replace(rest, unfinished=False))) == 1


def test_lower_cost_is_not_an_increase() -> None:
    assert judged(budget_increase, example_nodes(1), example_nodes(8), max_increase="1 USD") == []


def test_increase_that_cannot_be_computed_fails_closed() -> None:
    host = {"type": "aws:ec2/dedicatedHost:DedicatedHost", "name": "host"}
    (found,) = judged(budget_increase, (*example_nodes(1), host), example_nodes(1), max_increase="1000 USD")
    assert found.violation.unknown
    assert "host" in found.message
    both = (*example_nodes(1), host)
    assert judged(budget_increase, both, both, max_increase="1000 USD") == []


def test_increase_can_be_limited_at_maximum_size() -> None:
    def group(most: int) -> tuple[dict[str, Any], ...]:
        template = {
            "type": "aws:ec2/launchTemplate:LaunchTemplate",
            "name": "t",
            "props": {
                "id": "lt-1",
                "instanceType": "g6.xlarge",
                "blockDeviceMappings": [
                    {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200, "volumeType": "gp3"}}
                ],
            },
        }
        props = {"minSize": 0, "maxSize": most, "launchTemplate": {"id": "lt-1"}}
        return template, {"type": "aws:autoscaling/group:Group", "name": "g", "props": props}

    cap = {"max_increase": "1000 USD"}
    assert judged(budget_increase, group(50), group(1), **cap) == []
    assert judged(budget_increase, group(50), group(1), settings={"size": "maximum"}, **cap) != []


def test_open_changes_that_exceed_the_budget_together_are_listed() -> None:
    open_changes = {"#7": "2500", "#9": "2000", "#11": "-4000"}
    (found,) = judged(budget_open_changes, example_nodes(2), example_nodes(1), open_changes=open_changes)
    assert "#7 (+2,500 USD), #9 (+2,000 USD)" in found.message
    # A change that saves money may never be merged.
    assert "#11" not in found.message


@pytest.mark.parametrize(
    ("after", "before", "open_changes"),
    [
        (2, 1, {}),
        (2, 1, {"#7": "100"}),
        (1, 2, {"#7": "9000"}),
        (1, 1, {"#7": "9000"}),
        (9, 1, {"#7": "9000"}),
    ],
    ids=["no other change", "room for both", "saves", "adds nothing", "too expensive without the others"],
)
def test_change_is_not_charged_for_existing_excess(after: int, before: int, open_changes: Any) -> None:
    nodes = example_nodes
    assert judged(budget_open_changes, nodes(after), nodes(before), open_changes=open_changes) == []


def block(**props: Any) -> dict[str, Any]:
    return {
        "type": CAPACITY_BLOCK,
        "name": "pretrain",
        "props": {"capacityBlockOfferingId": UNKNOWN, **props},
        "depends": {"capacityBlockOfferingId": ["offering"]},
    }


def offering(**props: Any) -> dict[str, Any]:
    given = {"instance_type": "p5.48xlarge", "count": 2, "duration_hours": 24, "start": "in 14 d"}
    return {"type": OFFERING, "name": "offering", "props": {**given, **props}}


def test_upfront_payment_needs_a_cap() -> None:
    (found,) = judged(budget_upfront, (offering(), block()))
    assert "2,292 USD are paid upfront" in found.message
    assert judged(budget_upfront, example_nodes(1)) == []


def test_upfront_payment_is_compared_with_its_own_cap() -> None:
    assert judged(budget_upfront, (offering(), block()), upfront="2293 USD") == []
    (found,) = judged(budget_upfront, (offering(), block()), upfront="2200 USD")
    assert found.violation.fleet_field == "budget.upfront"


def extension(number: int = 1, **props: Any) -> dict[str, Any]:
    given = {
        "instance_type": "p5.48xlarge",
        "count": 2,
        "hours": 24,
        "hours_before": 24,
        "region": "us-east-1",
        "reservation_id": UNKNOWN,
    }
    return {
        "type": BLOCK_EXTENSION,
        "name": f"pretrain-extension-{number}",
        "props": {**given, **props},
        "depends": {"reservation_id": ["pretrain"]},
    }


def test_extension_counts_against_the_cap_of_upfront_payments() -> None:
    resources = (offering(), block(), extension())
    assert judged(budget_upfront, resources, upfront="4585 USD") == []
    (found,) = judged(budget_upfront, resources, upfront="4584 USD")
    assert "4,585 USD are paid upfront" in found.message


@pytest.mark.parametrize("props", [{"count": UNKNOWN}, {"hours": UNKNOWN}, {"instance_type": "g6.xlarge"}])
def test_extension_of_unknown_price_fails_closed(props: dict[str, Any]) -> None:
    (found,) = judged(budget_upfront, (offering(), block(), extension(**props)), upfront="99999 USD")
    assert found.violation.unknown
    assert found.urn.endswith("::pretrain-extension-1")


def test_extension_moves_the_end_of_the_commitment() -> None:
    resources = (offering(), block(endDate="2026-12-10T11:30:00Z"), extension(), extension(2, hours=48))
    assert judged(budget_commitment_end, resources, ends="2026-12-13") == []
    assert len(judged(budget_commitment_end, resources, ends="2026-12-12")) == 1
    bought = extension(end_date="2026-12-11T11:30:00Z")
    # A refreshed block has the new end already, which does not count twice.
    refreshed = (offering(), block(endDate="2026-12-11T11:30:00Z"), bought)
    assert judged(budget_commitment_end, refreshed, ends="2026-12-11") == []
    (found,) = judged(
        budget_commitment_end, (offering(), block(), extension(hours=UNKNOWN)), ends="2099-12-31"
    )
    assert found.violation.unknown


@pytest.mark.parametrize("props", [{"count": UNKNOWN}, {"duration_hours": 0}, {"upfront_fee": "0"}])
def test_upfront_payment_of_unknown_size_fails_closed(props: dict[str, Any]) -> None:
    (found,) = judged(budget_upfront, (offering(**props), block()), upfront="99999 USD")
    assert found.violation.unknown
    assert found.urn.endswith("::pretrain")


def test_relative_start_is_resolved_from_now() -> None:
    # From 2026-11-21: 14 days, up to 36 hours later, and a day long.
    resources = (offering(), block())
    assert judged(budget_commitment_end, resources, ends="2026-12-08") == []
    (found,) = judged(budget_commitment_end, resources, ends="2026-12-07")
    assert "2026-12-08 at the latest" in found.message
    assert judged(budget_commitment_end, resources) == []


def test_bought_block_ends_at_the_end_reported_by_aws() -> None:
    known = block(endDate="2027-01-05T11:30:00.000Z")
    assert judged(budget_commitment_end, (offering(), known), ends="2026-12-31") != []
    assert judged(budget_commitment_end, (offering(), known), ends="2027-01-05") == []


@pytest.mark.parametrize(
    "resources",
    [
        (offering(start=UNKNOWN), block()),
        (offering(duration_hours=UNKNOWN), block()),
        (offering(start="some day"), block()),
        (offering(), block() | {"depends": {}}),
        (offering(), block(endDate="soon")),
    ],
)
def test_unknown_end_fails_closed(resources: Any) -> None:
    (found,) = judged(budget_commitment_end, resources, ends="2099-12-31")
    assert found.violation.unknown


def reservation(**props: Any) -> dict[str, Any]:
    return {"type": CAPACITY_RESERVATION, "name": "odcr", "props": {"instanceCount": 1, **props}}


def test_reservation_with_an_end_is_a_commitment_and_one_without_depends_on_settings() -> None:
    late = reservation(endDateType="limited", endDate="2027-03-01T00:00:00Z")
    assert judged(budget_commitment_end, (late,), ends="2026-12-31") != []
    assert judged(budget_commitment_end, (late,), ends="2027-03-01") == []
    (unknown,) = judged(budget_commitment_end, (reservation(endDate=UNKNOWN),), ends="2026-12-31")
    assert unknown.violation.unknown
    for endless in (reservation(endDateType="unlimited"), reservation()):
        assert judged(budget_commitment_end, (endless,), ends="2026-12-31") == []
        strict = judged(budget_commitment_end, (endless,), settings={"open_ended": False}, ends="2026-12-31")
        assert len(strict) == 1


def test_foreign_block_has_no_known_end() -> None:
    fleet = example_fleet(ends="2099-12-31")
    fleet["cloud"][0]["node_groups"] = [
        {
            "name": "pretrain",
            "instance_types": ["p5.48xlarge"],
            "capacity": {"reserved": {"capacity_block": {"nodes": 2, "duration": "1 d", "id": "cr-0abc"}}},
        }
    ]
    (found,) = examples.evaluate(budget_commitment_end, Example((), fleet=fleet))
    assert "cr-0abc" in found.message
    assert found.violation.unknown


def test_old_prices_are_advisory_by_default() -> None:
    assert price_catalog_age.enforcement == "advisory"
    (found,) = judged(price_catalog_age, example_nodes(1), settings={"days": 1})
    assert found.level == "advisory"
    assert "2026-" in found.message
    assert judged(price_catalog_age, example_nodes(1), settings={"days": 5000}) == []
