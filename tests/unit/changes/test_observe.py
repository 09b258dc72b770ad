"""The effect of steps."""

from __future__ import annotations

from typing import Any

from gpufleet.changes.observe import Effect, ObservedStep, observed_steps, short_type
from gpufleet.engine.api import Op, ResourceEvent
from tests.effects import effect_of

NODES = "aws:eks/nodeGroup:NodeGroup"
RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"


def step(kind: str, how: str, *diff: str) -> ObservedStep:
    return ObservedStep(f"urn::{kind}", kind, "a", how, frozenset(diff))


def event(kind: str, op: Op, *, urn: str = "urn:a", **more: Any) -> ResourceEvent:
    return ResourceEvent(urn=urn, type=kind, name="a", op=op, **{"status": "done", **more})


def test_no_step_is_no_effect() -> None:
    assert effect_of([]) is Effect.NOTHING


def test_an_update_is_in_place() -> None:
    assert effect_of([step(NODES, "update", "scalingConfig")]) is Effect.IN_PLACE


def test_new_launch_template_version_rolls_a_managed_node_group() -> None:
    assert effect_of([step(NODES, "update", "launchTemplate")]) is Effect.ROLLING


def test_same_update_of_another_type_is_not_rolling() -> None:
    assert effect_of([step("aws:autoscaling/group:Group", "update", "launchTemplate")]) is Effect.IN_PLACE


def test_replacement_has_the_highest_effect() -> None:
    steps = [step(NODES, "update", "version"), step(NODES, "replace", "subnetIds"), step(RULE, "create")]
    assert effect_of(steps) is Effect.REPLACEMENT


def test_rolling_update_outranks_an_in_place_update_in_any_order() -> None:
    steps = [step(RULE, "create"), step(NODES, "update", "version")]
    assert effect_of(steps) is effect_of(steps[::-1]) is Effect.ROLLING


def test_firewall_rule_can_be_replaced_without_effect() -> None:
    assert effect_of([step(RULE, "replace"), step(RULE, "delete")]) is Effect.IN_PLACE


def test_unlisted_type_counts_as_a_replacement() -> None:
    assert effect_of([step("aws:new/thing:Thing", "delete")]) is Effect.REPLACEMENT


def test_three_steps_of_a_replacement_count_as_one() -> None:
    events = [
        event(NODES, Op.CREATE_REPLACEMENT, diff=("subnetIds", "tags")),
        event(NODES, Op.REPLACE, diff=("subnetIds", "tags"), replace_keys=("subnetIds",)),
        event(NODES, Op.DELETE_REPLACED),
    ]
    (seen,) = observed_steps(events)
    assert (seen.how, seen.diff, seen.forced) == ("replace", {"subnetIds", "tags"}, {"subnetIds"})


def test_components_providers_and_unchanged_resources_are_not_steps() -> None:
    events = [
        event("gpufleet:node_group:NodeGroup", Op.CREATE, urn="a"),
        event("pulumi:providers:aws", Op.UPDATE, urn="b"),
        event("pulumi:pulumi:Stack", Op.UPDATE, urn="c"),
        event(NODES, Op.SAME, urn="d"),
        event(NODES, Op.UPDATE, urn="e", status="started"),
    ]
    assert observed_steps(events) == ()


def test_types_of_other_packages_keep_their_package_name() -> None:
    assert short_type("kubernetes:core/v1:Namespace") == "kubernetes.Namespace"
