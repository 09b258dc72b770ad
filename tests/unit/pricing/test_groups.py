"""Auto Scaling groups and EKS node groups: sizes, markets, later maximums, unknown values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.resources.resource import UNKNOWN
from tests.unit.pricing.stacks import (
    CATALOG,
    DISK,
    MAPPING,
    MONTH,
    NODE,
    TYPE,
    amounts,
    cost,
    mixed,
    node_group,
    scaling_group,
    template,
    why_unknown,
)

SCHEDULE = "aws:autoscaling/schedule:Schedule"


def schedule(**props: Any) -> dict[str, Any]:
    return {
        "type": SCHEDULE,
        "name": "nights",
        "props": {"autoscalingGroupName": UNKNOWN, **props},
        "depends": {"autoscalingGroupName": ["group"]},
    }


@pytest.mark.parametrize("group", [scaling_group(), node_group()], ids=["auto-scaling", "eks"])
def test_group_costs_its_nodes_and_volumes_at_each_size(group: dict[str, Any]) -> None:
    found = cost(template(), group)
    assert amounts(found) == (NODE, 2 * NODE, 4 * NODE)
    assert amounts(found, "storage") == (DISK, 2 * DISK, 4 * DISK)
    assert found.unknown == ()


def test_each_line_has_the_source_and_date_of_its_price() -> None:
    line = next(line for line in cost(template(), scaling_group()).lines if line.kind == "compute")
    price = CATALOG.on_demand(TYPE, "us-east-1")
    assert line.source == price.source
    assert line.date == (price.date.isoformat() if price.date else None)
    assert "730 h" in line.basis


def test_group_without_a_desired_size_starts_at_its_minimum() -> None:
    assert amounts(cost(template(), scaling_group(desiredCapacity=None))) == (NODE, NODE, 4 * NODE)


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_on_demand_part_of_a_mixed_group_has_the_on_demand_price(percent: int) -> None:
    group = scaling_group(launchTemplate=None, mixedInstancesPolicy=mixed(TYPE, base=1, percent=percent))
    spot = CATALOG.spot(TYPE, "us-east-1")
    assert spot is not None
    least, expected, most = amounts(cost(template(), group))
    bought = {0: 1, 50: 3, 100: 4}[percent]
    assert least == NODE
    assert most == bought * NODE + (4 - bought) * MONTH * spot.high
    assert expected == (2 * NODE if percent else NODE + MONTH * spot.median)


def test_maximum_price_limits_the_cost_of_spot_nodes_in_a_mixed_group() -> None:
    policy = mixed(TYPE, base=0, percent=0)
    policy["instancesDistribution"]["spotMaxPrice"] = "0.0001"
    group = scaling_group(launchTemplate=None, mixedInstancesPolicy=policy)
    assert amounts(cost(template(), group)) == tuple(n * MONTH * Decimal("0.0001") for n in (1, 2, 4))


def test_mixed_group_without_spot_settings_is_all_on_demand() -> None:
    group = scaling_group(launchTemplate=None, mixedInstancesPolicy=mixed(TYPE))
    assert amounts(cost(template(), group)) == (NODE, 2 * NODE, 4 * NODE)


def test_most_expensive_type_counts_at_the_maximum() -> None:
    group = scaling_group(launchTemplate=None, mixedInstancesPolicy=mixed(TYPE, "g6.8xlarge"))
    dear = CATALOG.on_demand("g6.8xlarge", "us-east-1").amount
    assert dear is not None
    assert amounts(cost(template(), group))[2] == 4 * MONTH * dear


def test_weight_is_the_number_of_units_of_a_node() -> None:
    types = [{"instanceType": TYPE, "weightedCapacity": "2"}]
    group = scaling_group(launchTemplate=None, mixedInstancesPolicy=mixed(*types))
    least, expected, most = amounts(cost(template(), group))
    assert (least, expected) == (NODE / 2, NODE)
    # A group may exceed its maximum by the rest of its last node.
    assert most == 5 * NODE / 2


def test_eks_spot_nodes_have_the_median_price() -> None:
    spot = CATALOG.spot(TYPE, "us-east-1")
    assert spot is not None
    assert amounts(cost(template(), node_group(capacityType="SPOT")))[1] == 2 * MONTH * spot.median


def test_scheduled_action_that_raises_the_maximum_later_counts() -> None:
    found = cost(template(), scaling_group(), schedule(minSize=-1, maxSize=40, desiredCapacity=-1))
    assert amounts(found) == (NODE, 2 * NODE, 40 * NODE)


def test_scheduled_action_on_the_group_of_an_eks_node_group_counts() -> None:
    found = cost(template(), node_group(), schedule(maxSize=9, desiredCapacity=8))
    assert amounts(found) == (NODE, 8 * NODE, 9 * NODE)


def test_scheduled_action_by_group_name_counts_without_a_dependency() -> None:
    named = schedule(maxSize=9) | {"depends": {}}
    named["props"]["autoscalingGroupName"] = "trainers"
    assert amounts(cost(template(), scaling_group(name="trainers"), named))[2] == 9 * NODE


def test_scheduled_action_of_an_unknown_size_makes_its_group_unknown() -> None:
    assert "maxSize" in why_unknown(cost(template(), scaling_group(), schedule(maxSize=UNKNOWN)))


def test_scheduled_action_on_a_foreign_group_is_unknown() -> None:
    single = schedule(maxSize=40) | {"depends": {}}
    assert "not in this stack" in why_unknown(cost(single))


def test_running_warm_pool_costs_nodes_and_a_stopped_one_only_volumes() -> None:
    pool = {"maxGroupPreparedCapacity": 10, "minSize": 2}
    running = cost(template(), scaling_group(warmPool={**pool, "poolState": "Running"}))
    stopped = cost(template(), scaling_group(warmPool=pool))
    assert amounts(running)[1:] == (10 * NODE, 10 * NODE)
    assert amounts(stopped) == (NODE, 2 * NODE, 4 * NODE)
    assert amounts(stopped, "storage")[1:] == (10 * DISK, 10 * DISK)


def test_ignored_desired_size_belongs_to_the_autoscaler_and_passes() -> None:
    for group in (
        scaling_group(options={"ignoreChanges": ["desiredCapacity"]}),
        node_group(options={"ignoreChanges": ["scalingConfig.desiredSize"]}),
    ):
        assert amounts(cost(template(), group))[2] == 4 * NODE


@pytest.mark.parametrize(
    "group",
    [
        scaling_group(options={"ignoreChanges": ["maxSize"]}),
        scaling_group(options={"ignoreChanges": ["launchTemplate"]}),
        scaling_group(options={"ignoreChanges": ["*"]}),
        node_group(options={"ignoreChanges": ["scalingConfig"]}),
        node_group(options={"ignoreChanges": ["scalingConfig.maxSize"]}),
        node_group(options={"ignoreChanges": ["instanceTypes"]}),
    ],
)
def test_ignored_cost_properties_make_the_cost_unknown(group: dict[str, Any]) -> None:
    assert "are ignored" in why_unknown(cost(template(), group))


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (scaling_group(maxSize=UNKNOWN), "maxSize"),
        (scaling_group(desiredCapacity=UNKNOWN), "desiredCapacity"),
        (scaling_group(desiredCapacityType="vcpu"), "not nodes"),
        (scaling_group(launchTemplate=UNKNOWN), "launchTemplate"),
        (scaling_group(launchTemplate={"id": "lt-elsewhere"}), "not in this stack"),
        (scaling_group(launchTemplate={"id": UNKNOWN, "version": "1"}), "version '1'"),
        (scaling_group(launchTemplate=None, mixedInstancesPolicy=UNKNOWN), "is not known yet"),
        (
            scaling_group(
                launchTemplate=None,
                mixedInstancesPolicy=mixed(TYPE, percent=None)
                | {"instancesDistribution": {"onDemandBaseCapacity": UNKNOWN}},
            ),
            "onDemandBaseCapacity",
        ),
        (
            scaling_group(
                launchTemplate=None, mixedInstancesPolicy=mixed({"instanceRequirements": {"vcpuCount": {}}})
            ),
            "instanceRequirements",
        ),
        (
            scaling_group(
                launchTemplate=None,
                mixedInstancesPolicy=mixed(
                    {"instanceType": TYPE, "launchTemplateSpecification": {"id": "x"}}
                ),
            ),
            "other launch templates",
        ),
        (node_group(scalingConfig=UNKNOWN), "scalingConfig"),
        (node_group(instanceTypes=UNKNOWN), "instanceTypes"),
        (node_group(instanceTypes=["p9.48xlarge"]), "p9.48xlarge is not in the catalog"),
        (node_group(capacityType=UNKNOWN), "capacityType"),
    ],
)
def test_unknown_input_gives_a_reason_and_no_zero_cost(group: dict[str, Any], reason: str) -> None:
    assert reason in why_unknown(cost(template(), group))


def test_type_missing_in_the_launch_template_is_unknown() -> None:
    assert "instance type" in why_unknown(cost(template(instanceType=None), scaling_group()))


def test_eks_group_without_a_type_uses_the_eks_default() -> None:
    found = cost(template(instanceType=None), node_group(instanceTypes=None))
    assert "t3.medium" in (found.lines[0].what + found.lines[0].reason)


def test_eks_group_without_a_launch_template_costs_its_types() -> None:
    with_one = amounts(cost(template(), node_group()))
    assert amounts(cost(template(), node_group(launchTemplate=None))) == with_one


def test_dedicated_hosts_do_not_have_the_shared_price() -> None:
    assert "dedicated" in why_unknown(cost(template(placement={"tenancy": "dedicated"}), scaling_group()))


@pytest.mark.parametrize(
    "mappings",
    [
        None,
        UNKNOWN,
        [{"deviceName": "/dev/sdf", "ebs": MAPPING["ebs"]}],
        [{"deviceName": "/dev/xvda", "ebs": {"volumeType": "gp3"}}],
        [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200, "volumeType": "gp2"}}],
        [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": UNKNOWN, "volumeType": "gp3"}}],
    ],
)
def test_unknown_volumes_leave_the_nodes_priced(mappings: Any) -> None:
    found = cost(template(blockDeviceMappings=mappings), scaling_group())
    (line,) = found.unknown
    assert line.kind == "storage"
    assert amounts(found)[2] == 4 * NODE


def test_faster_volumes_cost_more() -> None:
    ebs = {"volumeSize": "200", "volumeType": "gp3", "iops": 4000, "throughput": 225}
    found = cost(template(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}]), scaling_group())
    assert amounts(found, "storage")[0] == DISK + 1000 * Decimal("0.005") + 100 * Decimal("0.04")


def test_public_addresses_of_nodes_have_an_hourly_price() -> None:
    public = template(networkInterfaces=[{"associatePublicIpAddress": "true"}])
    assert amounts(cost(public, scaling_group()), "network")[2] == 4 * MONTH * Decimal("0.005")
    private = template(networkInterfaces=[{"associatePublicIpAddress": "false"}])
    assert not [line for line in cost(private, scaling_group()).lines if line.kind == "network"]


def test_launch_configuration_is_resolved() -> None:
    configuration = {
        "type": "aws:ec2/launchConfiguration:LaunchConfiguration",
        "name": "old",
        "props": {"instanceType": TYPE, "rootBlockDevice": {"volumeSize": 200, "volumeType": "gp3"}},
    }
    group = scaling_group(launchTemplate=None, launchConfiguration=UNKNOWN)
    group["depends"] = {"launchConfiguration": ["old"]}
    found = cost(configuration, group)
    assert amounts(found) == (NODE, 2 * NODE, 4 * NODE)
    assert amounts(found, "storage")[2] == 4 * DISK
