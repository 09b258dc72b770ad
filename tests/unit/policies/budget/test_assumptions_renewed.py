"""budget-assumption-renewed: an assumed amount must be renewed when its resource changes."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gpufleet.policies.rules.budget._caps import example_fleet
from gpufleet.policies.rules.budget.budget_assumption_renewed import budget_assumption_renewed
from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.rule import Example
from gpufleet.policy.settings import configure
from gpufleet.resources.types import AUTO_SCALING_GROUP, LAUNCH_TEMPLATE, LUSTRE

NAT = "aws:ec2/natGateway:NatGateway"


def fleet(**assume: str) -> dict[str, Any]:
    return {**example_fleet(), "policies": {"budget-unknown-cost": {"settings": {"assume": assume}}}}


def lustre(gib: int = 1200, **more: Any) -> dict[str, Any]:
    props = {"deploymentType": "SCRATCH_2", "storageCapacity": gib, **more}
    return {"type": LUSTRE, "name": "scratch", "region": "us-gov-west-1", "props": props}


def judged(
    before: list[dict[str, Any]], after: list[dict[str, Any]], was: dict[str, Any], now: dict[str, Any]
) -> list[RuleViolation]:
    example = Example(tuple(after), before=tuple(before), fleet=now, fleet_before=was)
    return examples.evaluate(budget_assumption_renewed, example)


def test_larger_file_system_needs_a_new_amount() -> None:
    assumed = fleet(scratch="300 USD")
    (found,) = judged([lustre()], [lustre(120_000)], assumed, assumed)
    assert "storageCapacity of scratch changes, and 300 USD stay assumed" in found.message
    assert judged([lustre()], [lustre(120_000)], assumed, fleet(scratch="30000 USD")) == []


def test_free_resource_may_change() -> None:
    assumed = fleet(scratch="300 USD")
    assert judged([lustre()], [lustre(tags={"team": "x"})], assumed, assumed) == []
    assert judged([lustre()], [lustre()], assumed, assumed) == []


def test_priced_resource_needs_no_assumption() -> None:
    here = [{**lustre(gib), "region": "us-east-1"} for gib in (1200, 2400)]
    assumed = fleet(scratch="300 USD")
    assert judged(here[:1], here[1:], assumed, assumed) == []


def test_changed_launch_template_changes_its_group() -> None:
    def nodes(size: int) -> list[dict[str, Any]]:
        disk = {"ebs": {"volumeSize": size, "volumeType": "gp3"}}
        template = {"instanceType": "g6.xlarge", "blockDeviceMappings": [{"deviceName": "/dev/xvda", **disk}]}
        group = {"minSize": 0, "maxSize": 4, "launchTemplate": {"id": "lt-1", "version": "$Latest"}}
        return [
            {
                "type": LAUNCH_TEMPLATE,
                "name": "lt",
                "region": "us-gov-west-1",
                "props": {"id": "lt-1", **template},
            },
            {
                "type": AUTO_SCALING_GROUP,
                "name": "nodes",
                "region": "us-gov-west-1",
                "props": group,
                "depends": {"launchTemplate": ["lt"]},
            },
        ]

    assumed = fleet(**{"nodes": "50 USD", "nodes/compute": "900 USD"})
    (found,) = judged(nodes(100), nodes(16_000), assumed, assumed)
    assert "blockDeviceMappings of lt changes" in found.message


def test_pattern_covers_no_new_resource_of_another_type() -> None:
    gateway = {"type": NAT, "name": "nat-a", "region": "us-gov-west-1", "props": {}}
    another = {**gateway, "name": "nat-b"}
    database = {"type": "aws:rds/instance:Instance", "name": "nat-db", "props": {}}
    assumed = fleet(**{"nat-*": "50 USD"})
    assert judged([gateway], [gateway, another], assumed, assumed) == []
    (found,) = judged([gateway], [gateway, database], assumed, assumed)
    assert "nat-db is a aws:rds/instance:Instance" in found.message


def test_missing_previous_fleet_file_fails_closed() -> None:
    assumed = fleet(scratch="300 USD")
    shared = examples.policy_context(assumed)
    made = examples.change(examples.stack([lustre()]), examples.stack([lustre(120_000)]), shared)
    judge = RuleEvaluator(configure([budget_assumption_renewed]), shared)
    assert judge.change(made) == []
    assert judge.change(replace(made, spec_before=shared.spec)) == []
