"""allowed-zones: zones by name and id, lists and overrides, and foreign subnets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_OFFERING,
    CAPACITY_RESERVATION,
    FLEET,
    INSTANCE,
    LAUNCH_TEMPLATE,
    LUSTRE,
    NODE_GROUP,
    SPOT_FLEET,
    SUBNET,
    VOLUME,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "allowed-zones"
A = {"zones": ["us-east-1a"]}


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (SUBNET, {"availabilityZone": "us-east-1b"}),
        (SUBNET, {"availabilityZoneId": "use1-az4"}),
        (SUBNET, {"availabilityZone": "US-EAST-1A"}),
        (INSTANCE, {"availabilityZone": "us-east-1b"}),
        (AUTO_SCALING_GROUP, {"availabilityZones": ["us-east-1a", "us-east-1b"]}),
        (CAPACITY_RESERVATION, {"availabilityZone": "us-east-1b"}),
        (VOLUME, {"availabilityZone": "us-east-1b"}),
        (LAUNCH_TEMPLATE, {"placement": {"availabilityZone": "us-east-1b"}}),
        (BLOCK_OFFERING, {"zones": ["us-east-1a", "us-east-1b"]}),
        (FLEET, {"launchTemplateConfigs": [{"overrides": [{"availabilityZone": "us-east-1b"}]}]}),
        (SPOT_FLEET, {"launchTemplateConfigs": [{"overrides": [{"availabilityZone": "us-east-1b"}]}]}),
        (NODE_GROUP, {"subnetIds": ["subnet-elsewhere"]}),
        (AUTO_SCALING_GROUP, {"vpcZoneIdentifiers": ["subnet-elsewhere"]}),
        (LUSTRE, {"subnetIds": "subnet-elsewhere"}),
    ],
)
def test_zone_that_is_not_allowed_is_found_in_any_property(
    kind: str, props: dict[str, Any], ask: Ask
) -> None:
    (found,) = ask(RULE, {"type": kind, "props": props}, settings=A)
    assert not found.violation.unknown


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (SUBNET, {"availabilityZone": UNKNOWN}),
        (SUBNET, {}),
        (CAPACITY_RESERVATION, {}),
        (AUTO_SCALING_GROUP, {"availabilityZones": UNKNOWN}),
        (NODE_GROUP, {"subnetIds": UNKNOWN}),
        (NODE_GROUP, {"subnetIds": [UNKNOWN]}),
    ],
)
def test_unknown_or_missing_zone_fails_closed(kind: str, props: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, {"type": kind, "props": props}, settings=A)
    assert found.violation.unknown


def test_subnets_of_this_stack_are_resolved_though_their_ids_are_unknown(ask: Ask) -> None:
    subnet = {"type": SUBNET, "name": "subnet", "props": {"availabilityZone": "us-east-1a"}}
    group = {"type": NODE_GROUP, "name": "nodes", "props": {"subnetIds": UNKNOWN}}
    assert ask(RULE, subnet, {**group, "depends": {"subnetIds": ["subnet"]}}, settings=A) == []


def test_foreign_subnet_passes_if_the_settings_list_it(ask: Ask) -> None:
    group = {"type": NODE_GROUP, "props": {"subnetIds": ["subnet-1", "subnet-2"]}}
    (found,) = ask(RULE, group, settings={**A, "subnets": ["subnet-1"]})
    assert "subnet-2" in found.message


def test_allowed_zone_passes(ask: Ask) -> None:
    assert ask(RULE, {"type": INSTANCE, "props": {"availabilityZone": "us-east-1a"}}, settings=A) == []


def test_no_zone_is_allowed_without_a_fleet_and_settings(ask: Ask) -> None:
    (found,) = ask(RULE, {"type": INSTANCE, "props": {"availabilityZone": "us-east-1a"}})
    assert "no zone" in found.message
