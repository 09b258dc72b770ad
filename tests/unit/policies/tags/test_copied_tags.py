"""copied-tags: backups, snapshots, tasks and claimed volumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policies.rules.tags.copied_tags import ADDON, COPIES, ECS, JOB_DEFINITION, LIFECYCLE, MADE_WITH
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.aws_types import besides, taggable_types
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import LUSTRE

Ask = Callable[..., list[RuleViolation]]
RULE = "copied-tags"
GOOD = {"team": "research", "cost-center": "cc-4711", "project": "atlas"}
SWITCHES = sorted((token, prop) for token, props in COPIES.items() for prop in props)


def addon(values: Any, name: str = "aws-ebs-csi-driver") -> dict[str, Any]:
    return {"type": ADDON, "props": {"addonName": name, "configurationValues": values}}


def configured(tags: Any) -> str:
    return json.dumps({"controller": {"extraVolumeTags": tags}})


def lifecycle(*schedules: Any) -> dict[str, Any]:
    return {"type": LIFECYCLE, "props": {"policyDetails": {"schedules": list(schedules)}}}


def test_every_tag_copying_property_of_pulumi_aws_is_known() -> None:
    known = {token for token in taggable_types() if any(p.startswith("copyTagsTo") for p in besides(token))}
    assert known - set(COPIES) == {
        "aws:rds/clusterInstance:ClusterInstance",
        "aws:docdb/clusterInstance:ClusterInstance",
    }
    assert LUSTRE in COPIES


@pytest.mark.parametrize(("token", "prop"), SWITCHES)
def test_tag_copying_property_must_be_enabled(ask: Ask, token: str, prop: str) -> None:
    props = {"deploymentType": "PERSISTENT_2", **dict.fromkeys(COPIES[token], True)}
    assert ask(RULE, {"type": token, "props": props}) == []
    for value in (False, None, UNKNOWN, "yes"):
        (found,) = ask(RULE, {"type": token, "props": {**props, prop: value}})
        assert found.violation.prop == prop
        assert found.violation.unknown == (value is UNKNOWN)


@pytest.mark.parametrize("kind", ["SCRATCH_1", "SCRATCH_2", None])
def test_scratch_file_system_has_no_backups(ask: Ask, kind: str | None) -> None:
    assert ask(RULE, {"type": LUSTRE, "props": {"deploymentType": kind}}) == []


def test_file_system_of_an_unknown_type_fails_closed(ask: Ask) -> None:
    assert len(ask(RULE, {"type": LUSTRE, "props": {"deploymentType": UNKNOWN}})) == 1


@pytest.mark.parametrize("token", ECS)
def test_tasks_get_tags_only_if_the_service_propagates_them(ask: Ask, token: str) -> None:
    assert ask(RULE, {"type": token, "props": {"propagateTags": "SERVICE"}}) == []
    for value in (None, "NONE", UNKNOWN):
        assert len(ask(RULE, {"type": token, "props": {"propagateTags": value}})) == 1


def test_batch_jobs_get_the_tags_of_their_definition(ask: Ask) -> None:
    assert ask(RULE, {"type": JOB_DEFINITION, "props": {"propagateTags": True}}) == []
    assert len(ask(RULE, {"type": JOB_DEFINITION, "props": {"tags": GOOD}})) == 1


@pytest.mark.parametrize(("token", "prop"), sorted(MADE_WITH.items()))
def test_resources_created_by_a_service_template_are_tagged(ask: Ask, token: str, prop: str) -> None:
    assert ask(RULE, {"type": token, "props": {prop: GOOD}}) == []
    for tags in (None, {}, {**GOOD, "team": " "}, UNKNOWN):
        assert len(ask(RULE, {"type": token, "props": {prop: tags}})) == 1


def test_snapshots_of_a_lifecycle_policy_copy_or_set_tags(ask: Ask) -> None:
    assert ask(RULE, lifecycle({"copyTags": True}, {"tagsToAdd": GOOD})) == []
    assert len(ask(RULE, lifecycle({"copyTags": True}, {}))) == 1
    assert len(ask(RULE, lifecycle({"tagsToAdd": {"Team": "research"}}))) == 1
    for unknown in (lifecycle(UNKNOWN), lifecycle({"copyTags": UNKNOWN})):
        assert [each.violation.unknown for each in ask(RULE, unknown)] == [True]


def test_driver_tags_volumes_that_pods_claim(ask: Ask) -> None:
    assert ask(RULE, addon(configured(GOOD))) == []
    yaml = "controller:\n  extraVolumeTags:\n    team: a\n    cost-center: b\n    project: c\n"
    assert ask(RULE, addon(yaml)) == []
    for values in (None, "", "{", "- a", configured({}), configured({**GOOD, "team": " "})):
        assert len(ask(RULE, addon(values))) == 1
    assert [each.violation.unknown for each in ask(RULE, addon(UNKNOWN))] == [True]


def test_other_add_ons_create_nothing_billed(ask: Ask) -> None:
    assert ask(RULE, addon(None, "coredns")) == []


def test_secret_configuration_is_not_shown(ask: Ask) -> None:
    (found,) = ask(RULE, {**addon(configured({**GOOD, "team": "hush "})), "secrets": ["configurationValues"]})
    assert "hush" not in found.message
