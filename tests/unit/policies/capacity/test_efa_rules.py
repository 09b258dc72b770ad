"""EFA: all interfaces of the type, one zone, a separate security group, close together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.catalog import efa_layout, load_catalog
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    CAPACITY_RESERVATION,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    PLACEMENT_GROUP,
    SECURITY_GROUP,
    SECURITY_GROUP_EGRESS,
    SECURITY_GROUP_INGRESS,
    SECURITY_GROUP_RULE,
    SUBNET,
)

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
EFA = "efa-complete"
CLOSE = "efa-in-placement-group"
KIND = "p5.48xlarge"
ITSELF = {"securityGroupId": ["efa"], "referencedSecurityGroupId": ["efa"]}

GROUP: Described = {"type": SECURITY_GROUP, "name": "efa"}
IN: Described = {
    "type": SECURITY_GROUP_INGRESS,
    "name": "in",
    "props": {"ipProtocol": "-1"},
    "depends": ITSELF,
}
OUT: Described = {
    "type": SECURITY_GROUP_EGRESS,
    "name": "out",
    "props": {"ipProtocol": "-1"},
    "depends": ITSELF,
}
A: Described = {"type": SUBNET, "name": "a", "props": {"availabilityZone": "us-east-1a"}}
B: Described = {"type": SUBNET, "name": "b", "props": {"availabilityZone": "us-east-1b"}}
AROUND = (GROUP, IN, OUT, A, B)


def interfaces(kind: str = KIND, security: Any = None) -> list[dict[str, Any]]:
    return [
        {
            "networkCardIndex": each.network_card_index,
            "deviceIndex": each.device_index,
            "interfaceType": each.interface_type,
            "securityGroups": [UNKNOWN] if security is None else security,
        }
        for each in efa_layout(load_catalog().instance(kind))
    ]


def template(found: Any, **more: Any) -> Described:
    return {
        "type": LAUNCH_TEMPLATE,
        "name": "template",
        "props": {"networkInterfaces": found},
        "depends": {"networkInterfaces": ["efa"]},
        **more,
    }


def nodes(
    workload: str = "training", size: int = 2, zones: tuple[str, ...] = ("a",), **more: Any
) -> Described:
    props = {
        "instanceTypes": [KIND],
        "labels": {"gpufleet.io/workload": workload},
        "scalingConfig": {"minSize": 0, "maxSize": size},
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
        "subnetIds": UNKNOWN,
    }
    depends = {"launchTemplate": ["template"], "subnetIds": list(zones)}
    return {"type": NODE_GROUP, "name": "nodes", "props": {**props, **more}, "depends": depends}


def test_all_interfaces_of_the_type_pass(ask: Ask) -> None:
    assert ask(EFA, *AROUND, template(interfaces()), nodes()) == []


def test_missing_interface_is_found_with_both_numbers(ask: Ask) -> None:
    (found,) = ask(EFA, *AROUND, template(interfaces()[:-1]), nodes())
    assert "31 EFA interfaces, and p5.48xlarge has 32" in found.message


@pytest.mark.parametrize(
    ("index", "change"),
    [
        (1, {"deviceIndex": 0}),
        (5, {"networkCardIndex": 3}),
        (5, {"interfaceType": "interface"}),
        (5, {"interfaceType": "EFA-ONLY"}),
        (0, {"interfaceType": "efa-only"}),
    ],
)
def test_wrong_card_device_or_interface_type_is_found(index: int, change: dict[str, Any], ask: Ask) -> None:
    wrong = interfaces()
    wrong[index] = {**wrong[index], **change}
    (found,) = ask(EFA, *AROUND, template(wrong), nodes())
    assert "networkInterfaces have" in found.message


def test_training_without_efa_is_found_and_serving_without_efa_passes(ask: Ask) -> None:
    plain = template([{"interfaceType": "interface", "securityGroups": [UNKNOWN]}])
    (found,) = ask(EFA, *AROUND, plain, nodes())
    assert "0 EFA interfaces" in found.message
    assert ask(EFA, *AROUND, plain, nodes("inference")) == []
    assert ask(EFA, *AROUND, plain, nodes(size=1)) == []
    assert ask(EFA, *AROUND, plain, nodes("batch"), settings={"workloads": ["batch"]}) != []


def test_half_of_the_interfaces_is_found_for_any_workload(ask: Ask) -> None:
    assert len(ask(EFA, *AROUND, template(interfaces()[:9]), nodes("batch"))) == 1


def test_types_without_efa_need_no_interfaces(ask: Ask) -> None:
    plain = template([{"interfaceType": "interface"}])
    assert ask(EFA, *AROUND, plain, nodes(instanceTypes=["g6.xlarge"])) == []


def test_additional_type_with_another_layout_is_found(ask: Ask) -> None:
    found = ask(EFA, *AROUND, template(interfaces()), nodes(instanceTypes=[KIND, "p5en.48xlarge"]))
    assert any("p5en.48xlarge has 16" in each.message for each in found)
    found = ask(EFA, *AROUND, template(interfaces()), nodes(instanceTypes=[KIND, "g6.xlarge"]))
    assert any("g6.xlarge has no EFA" in each.message for each in found)


def test_training_without_a_launch_template_is_found(ask: Ask) -> None:
    bare = nodes()
    del bare["props"]["launchTemplate"]
    del bare["depends"]["launchTemplate"]
    (found,) = ask(EFA, *AROUND, bare)
    assert "no launch template" in found.message


@pytest.mark.parametrize(
    "made",
    [
        template(UNKNOWN),
        template([UNKNOWN]),
        template([{**interfaces()[0], "interfaceType": UNKNOWN}, *interfaces()[1:]]),
        template(interfaces(), options={"ignoreChanges": ["networkInterfaces"]}),
    ],
)
def test_unknown_or_ignored_interfaces_fail_closed(made: Described, ask: Ask) -> None:
    found = ask(EFA, *AROUND, made, nodes())
    assert any(each.violation.unknown for each in found)


def test_unknown_maximum_counts_as_several_nodes(ask: Ask) -> None:
    unknown = nodes(scalingConfig={"maxSize": UNKNOWN})
    assert ask(EFA, *AROUND, template(interfaces()[:3]), unknown) != []


@pytest.mark.parametrize(
    "rules",
    [
        (IN,),
        (OUT,),
        (IN, {**OUT, "props": {"ipProtocol": "tcp"}}),
        (IN, {**OUT, "depends": {"securityGroupId": ["efa"]}}),
        (),
    ],
)
def test_security_group_without_rules_to_and_from_itself_is_found(
    rules: tuple[Described, ...], ask: Ask
) -> None:
    (found,) = ask(EFA, GROUP, A, *rules, template(interfaces()), nodes())
    assert "no security group" in found.message


def test_inline_and_legacy_rules_count(ask: Ask) -> None:
    inline = {"ingress": [{"self": True, "protocol": "-1"}], "egress": [{"self": True, "protocol": "-1"}]}
    assert ask(EFA, {**GROUP, "props": inline}, A, template(interfaces()), nodes()) == []
    old = [
        {
            "type": SECURITY_GROUP_RULE,
            "name": kind,
            "props": {"type": kind, "protocol": "-1", "self": True},
            "depends": {"securityGroupId": ["efa"]},
        }
        for kind in ("ingress", "egress")
    ]
    assert ask(EFA, GROUP, A, *old, template(interfaces()), nodes()) == []
    assert len(ask(EFA, GROUP, A, old[0], template(interfaces()), nodes())) == 1


def test_interfaces_in_different_security_groups_are_found(ask: Ask) -> None:
    mixed = interfaces(security=["sg-1"])
    mixed[7] = {**mixed[7], "securityGroups": ["sg-2"]}
    (found,) = ask(EFA, *AROUND, template(mixed), nodes())
    assert "different security groups" in found.message


def test_efa_in_several_zones_is_found(ask: Ask) -> None:
    (found,) = ask(EFA, *AROUND, template(interfaces()), nodes(zones=("a", "b")))
    assert "us-east-1a, us-east-1b" in found.message
    (found,) = ask(EFA, *AROUND, template(interfaces()), nodes(zones=()))
    assert found.violation.unknown


def test_group_in_a_block_is_in_the_zone_of_the_block(ask: Ask) -> None:
    block = nodes(zones=("a", "b"), capacityType="CAPACITY_BLOCK")
    assert ask(EFA, *AROUND, template(interfaces()), block) == []


def test_on_demand_nodes_with_efa_need_a_cluster_placement_group(ask: Ask) -> None:
    (found,) = ask(CLOSE, *AROUND, template(interfaces()), nodes())
    assert "no placement group" in found.message


def placed(strategy: Any) -> tuple[Described, Described]:
    group = {"type": PLACEMENT_GROUP, "name": "close", "props": {"strategy": strategy}}
    made = template(interfaces())
    made["props"]["placement"] = {"groupName": UNKNOWN}
    made["depends"] = {**made["depends"], "placement": ["close"]}
    return group, made


def test_placement_group_of_the_stack_is_judged_by_its_strategy(ask: Ask) -> None:
    assert ask(CLOSE, *AROUND, *placed("cluster"), nodes()) == []
    for strategy in ("spread", "partition", "Cluster"):
        (found,) = ask(CLOSE, *AROUND, *placed(strategy), nodes())
        assert strategy in found.message
    (found,) = ask(CLOSE, *AROUND, *placed(UNKNOWN), nodes())
    assert found.violation.unknown


def test_placement_group_of_an_auto_scaling_group_counts_and_a_foreign_one_is_unknown(ask: Ask) -> None:
    group = {
        "type": AUTO_SCALING_GROUP,
        "name": "nodes",
        "props": {"maxSize": 2, "launchTemplate": {"id": UNKNOWN}, "placementGroup": "elsewhere"},
        "depends": {"launchTemplate": ["template"]},
    }
    (found,) = ask(CLOSE, *AROUND, template(interfaces()), group)
    assert found.violation.unknown


def test_blocks_reservations_spot_and_single_nodes_need_no_placement_group(ask: Ask) -> None:
    made = template(interfaces())
    assert ask(CLOSE, *AROUND, made, nodes(capacityType="CAPACITY_BLOCK")) == []
    assert ask(CLOSE, *AROUND, made, nodes(capacityType="SPOT")) == []
    assert len(ask(CLOSE, *AROUND, made, nodes(capacityType="SPOT"), settings={"spot": True})) == 1
    assert ask(CLOSE, *AROUND, made, nodes(size=1)) == []
    held = {"type": CAPACITY_RESERVATION, "name": "held", "props": {"instanceType": KIND}}
    targets = template(interfaces())
    spec = {"capacityReservationTarget": {"capacityReservationId": UNKNOWN}}
    targets["props"]["capacityReservationSpecification"] = spec
    targets["depends"] = {**targets["depends"], "capacityReservationSpecification": ["held"]}
    assert ask(CLOSE, *AROUND, held, targets, nodes()) == []
