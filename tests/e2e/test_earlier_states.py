"""What earlier versions provisioned: `up` keeps every resource that the changelog does not name.

Each archive of `earlier_states` has a version's fleet file of the sandbox, and the state after its `up`. A
test that fails here means that resources of users would be replaced or deleted. If that is intended, name it
in CHANGELOG.md, and add an archive of the new version.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Checkout

STATES = Path(__file__).parent / "earlier_states"

pytestmark = pytest.mark.xdist_group("e2e")


def _preview(checkout: Checkout, state: str) -> dict[str, set[str]]:
    """Operation to the types of the resources that `up` would do it to."""
    shutil.unpack_archive(STATES / f"{state}.zip", checkout.root)
    shown = checkout.json("preview", "sandbox", "--engine", "embedded", "--skip-policies")
    types: dict[str, set[str]] = defaultdict(set)
    resources: list[dict[str, Any]] = [each for site in shown["sites"] for each in site["resources"]]
    for each in resources:
        types[each["op"]].add(each["type"])
    assert shown["changes"]["same"] > 200
    return types


def test_state_of_this_version_is_unchanged(checkout: Checkout) -> None:
    assert _preview(checkout, "2026-12-01") == {}


def test_state_of_before_budgets_named_a_metric_keeps_every_resource(checkout: Checkout) -> None:
    assert _preview(checkout, "2026-11-30") == {"update": {"aws:budgets/budget:Budget"}}


def test_state_of_before_images_were_locked_keeps_every_resource_but_node_groups(checkout: Checkout) -> None:
    changes = _preview(checkout, "2026-11-23")
    assert changes["replace"] == {
        "aws:eks/nodeGroup:NodeGroup",
        "pulumi-python:dynamic/capacity:CapacityBlockSchedule",
    }
    assert changes["update"] == {
        "aws:autoscaling/group:Group",
        "aws:budgets/budget:Budget",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:eks/addon:Addon",
        "aws:kms/key:Key",
    }
    assert set(changes) == {"replace", "update", "create"}
