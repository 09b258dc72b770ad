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
    assert {line.bought for line in found.lines} == {"on-demand", ""}


def test_group_that_can_have_no_nodes_needs_no_known_volumes() -> None:
    empty = scaling_group(minSize=0, desiredCapacity=0, maxSize=0)
    assert cost(template(blockDeviceMappings=None), empty).unknown == ()


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
    ("used", "reason"),
    [
        ({"id": "lt-template"}, ""),
        ({"id": "lt-template", "version": "$Latest"}, ""),
        ({"id": "lt-template", "version": "$Default"}, ""),
        ({"name": "train", "version": 3}, ""),
        ({"id": UNKNOWN, "version": "3"}, ""),
        ({"id": UNKNOWN, "version": 2}, "version 2 of the launch template template is requested"),
        ({"id": "lt-x", "name": "train"}, "the launch template lt-x, train is not in this stack"),
    ],
)
def test_last_version_of_the_referred_launch_template_counts(used: dict[str, Any], reason: str) -> None:
    launch = template(name="template", latestVersion=3)
    launch["props"]["name"] = "train"
    found = cost(template("other", instanceType=OTHER), launch, scaling_group(launchTemplate=used))
    assert [line.reason.startswith(reason) for line in found.unknown] == [True] * bool(reason)
    assert reason or amounts(found)[1] == 2 * NODE


def test_group_without_a_reference_to_a_launch_template_is_unknown() -> None:
    group = scaling_group() | {"depends": {}}
    assert why_unknown(cost(template(), group)) == (
        "the launch template that it refers to is not in this stack"
    )


@pytest.mark.parametrize(
    ("interfaces", "reason"),
    [
        (UNKNOWN, "networkInterfaces is not known yet"),
        ([UNKNOWN], "networkInterfaces.associatePublicIpAddress is not known yet"),
        (
            [{"associatePublicIpAddress": UNKNOWN}],
            "networkInterfaces.associatePublicIpAddress is not known yet",
        ),
    ],
)
def test_unknown_network_interfaces_make_the_cost_unknown(interfaces: Any, reason: str) -> None:
    assert why_unknown(cost(template(networkInterfaces=interfaces), scaling_group())) == reason


OTHER = "g6.8xlarge"
SPOT = CATALOG.spot(TYPE, "us-east-1")


def with_policy(overrides: Any, **distribution: Any) -> dict[str, Any]:
    """A group with a mixed instances policy over these overrides."""
    policy = mixed(**distribution)
    policy["launchTemplate"]["overrides"] = overrides
    return scaling_group(launchTemplate=None, mixedInstancesPolicy=policy)


@pytest.mark.parametrize(
    "overrides",
    [None, [], {"instanceType": TYPE}, [{"instanceType": TYPE}], [{"weightedCapacity": "1"}]],
)
def test_overrides_without_a_type_have_that_of_the_template(overrides: Any) -> None:
    named = isinstance(overrides, dict) or (overrides and "instanceType" in overrides[0])
    found = cost(template(instanceType=OTHER if named else TYPE), with_policy(overrides))
    assert amounts(found) == (NODE, 2 * NODE, 4 * NODE)


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (with_policy(UNKNOWN), "overrides is not known yet"),
        (with_policy([TYPE]), "overrides is"),
        (with_policy([{"instanceType": 7}]), "overrides.instanceType is"),
        (with_policy(None, percent=101), "onDemandPercentageAboveBaseCapacity is 101"),
        (node_group(launchTemplate=UNKNOWN), "launchTemplate is not known yet"),
        (node_group(instanceTypes=[UNKNOWN]), "instanceTypes is"),
        (node_group(capacityType="FAST"), "capacityType is FAST"),
        (node_group(capacityType="CAPACITY_BLOCK", launchTemplate=None), "no Capacity Block is set"),
        (scaling_group(warmPool=UNKNOWN), "warmPool is not known yet"),
    ],
)
def test_invalid_settings_of_a_group_are_the_reason(group: dict[str, Any], reason: str) -> None:
    (line,) = (line for line in cost(template(), group).unknown if line.kind == "compute")
    assert reason in line.reason


def test_launch_template_of_the_spot_market_has_spot_prices() -> None:
    assert SPOT is not None
    found = cost(template(instanceMarketOptions={"marketType": "spot"}), scaling_group())
    assert amounts(found)[1] == 2 * MONTH * SPOT.median


def test_eks_group_takes_its_type_from_the_template_and_is_on_demand_by_default() -> None:
    found = cost(template(), node_group(instanceTypes=None, capacityType=None))
    assert amounts(found) == (NODE, 2 * NODE, 4 * NODE)
    small = cost(template(), node_group(instanceTypes=None, launchTemplate=None)).lines[0]
    assert "t3.medium" in small.what + small.reason


def test_schedule_of_another_group_changes_nothing() -> None:
    foreign = schedule(maxSize=40) | {"depends": {}, "name": "foreign"}
    found = cost(template(), scaling_group(), foreign)
    assert 4 * NODE in [line.maximum for line in found.lines]
    assert [line.name for line in found.unknown] == ["foreign"]


def test_schedule_finds_its_group_by_name_or_dependency() -> None:
    for names in (("first", "second"), (UNKNOWN, UNKNOWN)):
        groups = [scaling_group(name=name) | {"name": f"group-{at}"} for at, name in enumerate(names)]
        later = schedule(maxSize=9) | {"depends": {"autoscalingGroupName": ["group-1"]}}
        later["props"]["autoscalingGroupName"] = names[1]
        found = cost(template(), *groups, later)
        most = {line.name: line.maximum for line in found.lines if line.kind == "compute"}
        assert most == {"group-0": 4 * NODE, "group-1": 9 * NODE}


@pytest.mark.parametrize(
    ("sizes", "pool", "nodes"),
    [
        ((1, 2, 4), {}, (1, 4, 4)),
        ((1, 2, 4), {"maxGroupPreparedCapacity": -1}, (1, 4, 4)),
        ((1, 2, 4), {"minSize": 1, "maxGroupPreparedCapacity": 2}, (2, 3, 4)),
        ((1, 1, 1), {"minSize": 5, "maxGroupPreparedCapacity": 2}, (6, 6, 6)),
    ],
)
def test_running_warm_pool_adds_nodes(
    sizes: tuple[int, int, int], pool: dict[str, int], nodes: tuple[int, int, int]
) -> None:
    least, wanted, most = sizes
    group = scaling_group(
        minSize=least, desiredCapacity=wanted, maxSize=most, warmPool=pool | {"poolState": "Running"}
    )
    assert amounts(cost(template(), group)) == tuple(number * NODE for number in nodes)


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


def test_nodes_of_a_stopped_warm_pool_have_no_public_address() -> None:
    public = template(networkInterfaces=[{"associatePublicIpAddress": "true"}])
    pool = {"minSize": 2, "maxGroupPreparedCapacity": 6, "poolState": "Stopped"}
    found = cost(public, scaling_group(warmPool=pool))
    assert amounts(found, "network") == amounts(cost(public, scaling_group()), "network")
    assert amounts(found, "storage") > amounts(cost(public, scaling_group()), "storage")


def test_launch_configuration_is_resolved() -> None:
    configuration: dict[str, Any] = {
        "type": "aws:ec2/launchConfiguration:LaunchConfiguration",
        "name": "old",
        "props": {"instanceType": TYPE, "rootBlockDevice": {"volumeSize": 200, "volumeType": "gp3"}},
    }
    group = scaling_group(launchTemplate=None, launchConfiguration=UNKNOWN)
    group["depends"] = {"launchConfiguration": ["old"]}
    found = cost(configuration, group)
    assert amounts(found) == (NODE, 2 * NODE, 4 * NODE)
    assert amounts(found, "storage")[2] == 4 * DISK
    assert {line.kind for line in found.lines} == {"compute", "storage"}
    configuration["props"]["associatePublicIpAddress"] = True
    assert amounts(cost(configuration, group), "network")[2] == 4 * MONTH * Decimal("0.005")
    configuration["props"]["associatePublicIpAddress"] = UNKNOWN
    assert "associatePublicIpAddress" in why_unknown(cost(configuration, group))


@pytest.mark.parametrize(
    ("used", "reason"),
    [("new", ""), ("lc-new", ""), ("old", "is not in this stack"), (UNKNOWN, "not in this")],
)
def test_launch_configuration_is_found_by_name_or_id(used: Any, reason: str) -> None:
    configurations = [
        {
            "type": "aws:ec2/launchConfiguration:LaunchConfiguration",
            "name": name,
            "props": {"instanceType": kind, "name": name, "id": f"lc-{name}", "spotPrice": "1"},
        }
        for name, kind in (("other", OTHER), ("new", TYPE))
    ]
    found = cost(*configurations, template(), scaling_group(launchTemplate=None, launchConfiguration=used))
    (line,) = (line for line in found.lines if line.kind == "compute")
    assert reason in line.reason
    assert SPOT is not None
    assert line.known is not bool(reason)
    assert line.expected in (2 * MONTH * SPOT.median, None)
