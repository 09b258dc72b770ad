"""running-jobs: changes that remove nodes, and the known jobs on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import AUTO_SCALING_GROUP, LAUNCH_TEMPLATE, NODE_GROUP

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "running-jobs"
JOBS = {"use1/pretrain": 3}
IDLE = {"use1/pretrain": 0}
TAGS = {"gpufleet:site": "use1", "gpufleet:node-group": "pretrain"}


def nodes(workload: str = "training", size: int = 4, **more: Any) -> Described:
    props = {
        "tags": TAGS,
        "labels": {"gpufleet.io/workload": workload},
        "instanceTypes": ["p5.48xlarge"],
        "scalingConfig": {"minSize": 0, "maxSize": size, "desiredSize": size},
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
    }
    return {
        "type": NODE_GROUP,
        "name": "pretrain",
        "props": {**props, **more},
        "depends": {"launchTemplate": ["template"]},
    }


def template(**more: Any) -> Described:
    return {"type": LAUNCH_TEMPLATE, "name": "template", "props": more}


def test_group_with_jobs_is_neither_deleted_nor_replaced(ask: Ask) -> None:
    before = [template(), nodes()]
    (found,) = ask(RULE, before, [template()], jobs=JOBS)
    assert "3 jobs run" in found.message
    assert found.urn.endswith("::pretrain")
    replaced = nodes(instanceTypes=["p5en.48xlarge"], __replace=["instanceTypes"])
    (found,) = ask(RULE, before, [template(), replaced], jobs={"use1/pretrain": 1})
    assert "1 job runs" in found.message


@pytest.mark.parametrize(
    "more", [{"version": "1.36"}, {"releaseVersion": "x"}, {"launchTemplate": {"id": "lt-2", "version": "1"}}]
)
def test_group_with_jobs_is_not_rolled_by_its_properties(more: dict[str, Any], ask: Ask) -> None:
    assert len(ask(RULE, [template(), nodes()], [template(), nodes(**more)], jobs=JOBS)) == 1


def test_new_launch_template_version_rolls_a_group(ask: Ask) -> None:
    (found,) = ask(RULE, [template(userData="a"), nodes()], [template(userData="b"), nodes()], jobs=JOBS)
    assert "userData of its launch template" in found.message
    assert found.urn.endswith("::pretrain")


@pytest.mark.parametrize("more", [{"tags": {"a": "b"}}, {"description": "other"}])
def test_tags_of_the_template_roll_nothing(more: dict[str, Any], ask: Ask) -> None:
    assert ask(RULE, [template(), nodes()], [template(**more), nodes()], jobs=JOBS) == []


def test_labels_tags_and_a_larger_maximum_disrupt_no_job(ask: Ask) -> None:
    harmless: list[dict[str, Any]] = [{"labels": {"a": "b"}}, {"tags": {**TAGS, "x": "y"}}, {"taints": []}]
    for more in harmless:
        assert ask(RULE, [template(), nodes()], [template(), nodes(**more)], jobs=JOBS) == []
    assert ask(RULE, [template(), nodes()], [template(), nodes(size=8)], jobs=JOBS) == []


def test_maximum_below_the_running_nodes_stops_some(ask: Ask) -> None:
    (found,) = ask(RULE, [template(), nodes()], [template(), nodes(size=2)], jobs=JOBS)
    assert "lowers its maximum to 2" in found.message


def test_idle_group_may_be_deleted(ask: Ask) -> None:
    assert ask(RULE, [template(), nodes()], [], jobs=IDLE) == []


def test_unknown_number_of_jobs_fails_closed_only_for_training(ask: Ask) -> None:
    (found,) = ask(RULE, [template(), nodes()])
    assert found.violation.unknown
    assert ask(RULE, [template(), nodes("batch")]) == []
    assert len(ask(RULE, [template(), nodes("batch")], settings={"unknown_fails": ["batch"]})) == 1
    assert len(ask(RULE, [template(), nodes("batch")], jobs=JOBS)) == 1
    assert len(ask(RULE, [template(), nodes()], jobs={"use1/other": 0})) == 1


def test_workload_renamed_by_the_change_counts_as_before(ask: Ask) -> None:
    after = nodes("batch", __replace=["instanceTypes"])
    assert len(ask(RULE, [template(), nodes()], [template(), after])) == 1


def test_only_an_instance_refresh_rolls_an_auto_scaling_group(ask: Ask) -> None:
    def group(**more: Any) -> Described:
        props = {
            "tags": [{"key": key, "value": value} for key, value in TAGS.items()],
            "minSize": 0,
            "maxSize": 4,
            "desiredCapacity": 4,
            "launchTemplate": {"id": UNKNOWN},
        }
        return {
            "type": AUTO_SCALING_GROUP,
            "name": "pretrain",
            "props": {**props, **more},
            "depends": {"launchTemplate": ["template"]},
        }

    old, new = template(userData="a"), template(userData="b")
    assert ask(RULE, [old, group()], [new, group()], jobs=JOBS) == []
    refresh = {"instanceRefresh": {"strategy": "Rolling"}}
    assert len(ask(RULE, [old, group(**refresh)], [new, group(**refresh)], jobs=JOBS)) == 1
    assert len(ask(RULE, [old, group()], [new, group(**refresh)], jobs=JOBS)) == 1
    assert len(ask(RULE, [old, group()], [], jobs=JOBS)) == 1


def test_alias_keeps_the_nodes_and_their_jobs(ask: Ask) -> None:
    renamed = {**nodes(), "name": "train", "options": {"aliases": ["pretrain"]}}
    assert ask(RULE, [template(), nodes()], [template(), renamed], jobs=JOBS) == []


def test_group_without_tags_is_recognized_by_its_name(ask: Ask) -> None:
    bare = nodes(tags={})
    assert ask(RULE, [template(), bare], jobs={"pretrain": 0}) == []
    assert len(ask(RULE, [template(), bare], jobs={"pretrain": 2})) == 1


def test_new_environment_has_no_jobs(ask: Ask) -> None:
    assert ask(RULE, [], [template(), nodes()]) == []
