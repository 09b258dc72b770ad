"""running-jobs for node pools of Karpenter: deleted ones, and those whose nodes it replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.types import NODE_CLASS, NODE_POOL

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "running-jobs"
JOBS = {"use1/sweep": 3}
TAGS = {"gpufleet:site": "use1", "gpufleet:node-group": "sweep"}


def node_class(image: str = "ami-1", **more: Any) -> Described:
    spec = {"amiSelectorTerms": [{"id": image}], "tags": TAGS, **more}
    return {"type": NODE_CLASS, "name": "class", "props": {"metadata": {"name": "sweep"}, "spec": spec}}


def pool(drifted: str = "1", taints: tuple[str, ...] = (), **spec: Any) -> Described:
    template = {
        "metadata": {"labels": {"gpufleet.io/workload": "training"}},
        "spec": {"nodeClassRef": {"name": "sweep"}, "taints": list(taints)},
    }
    budgets = [{"nodes": "100%", "reasons": ["Empty"]}, {"nodes": drifted, "reasons": ["Drifted"]}]
    props = {"metadata": {"name": "sweep"}, "spec": {"template": template, "limits": {"cpu": "4"}, **spec}}
    props["spec"]["disruption"] = {"budgets": budgets}
    return {"type": NODE_POOL, "name": "pool", "props": props}


BEFORE = [node_class(), pool()]


def test_pool_with_jobs_is_not_deleted(ask: Ask) -> None:
    (found,) = ask(RULE, BEFORE, [node_class()], jobs=JOBS)
    assert "3 jobs run on it (use1/sweep)" in found.message
    assert found.urn.endswith("::pool")
    assert ask(RULE, BEFORE, [node_class()], jobs={"use1/sweep": 0}) == []


@pytest.mark.parametrize(
    ("after", "by"),
    [
        ([node_class("ami-2"), pool()], "by spec of its EC2NodeClass"),
        ([node_class(userData="#!/bin/sh"), pool()], "by spec of its EC2NodeClass"),
        ([node_class(), pool(taints=("dedicated",))], "by spec.template"),
    ],
)
def test_nodes_with_jobs_are_not_replaced_by_drift(after: list[Described], by: str, ask: Ask) -> None:
    (found,) = ask(RULE, BEFORE, after, jobs=JOBS)
    assert by in found.message


@pytest.mark.parametrize(
    "after",
    [
        [node_class(), pool(limits={"cpu": "8"})],
        [node_class(), pool(weight=5)],
        [node_class(), pool(drifted="0")],
        [node_class("ami-2"), pool(drifted="0")],
        BEFORE,
    ],
)
def test_change_that_ends_no_node_with_work_passes(after: list[Described], ask: Ask) -> None:
    assert ask(RULE, BEFORE, after, jobs=JOBS) == []


def test_nodes_that_always_run_count_in_the_blast_radius(ask: Ask) -> None:
    before = [node_class(), pool(replicas=40)]
    found = ask("blast-radius", before, [node_class()])
    assert sorted(each.message.split(" would")[0] for each in found) == [
        "40 of the 40 nodes of the fleet",
        "40 of the 40 nodes of use1",
    ]
