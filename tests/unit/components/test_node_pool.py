"""The objects of a node group that Karpenter scales."""

from __future__ import annotations

import dataclasses
import re
from email import message_from_string
from typing import Any

import pytest

from gpufleet.components.node_group import NodeImageArgs, NodeInterfaceArgs, TaintArgs
from gpufleet.components.node_pool import POOL, NodePool, NodePoolArgs, pool_names
from gpufleet.errors import InputError
from tests.unit.components.recording import EchoMocks, Recording, record

ARGS = NodePoolArgs(
    group="train",
    instance_types=["g6e.xlarge", "g6e.2xlarge"],
    zones=["us-east-1a", "us-east-1b"],
    capacity_types=["spot", "on-demand"],
    limits={"nodes": 4, "cpu": 32, "nvidia.com/gpu": 4},
    weight=20,
    subnet_ids=["subnet-a", "subnet-b"],
    security_group_ids=["sg-nodes"],
    instance_profile="atlas-node",
    image=NodeImageArgs(ami_id="ami-0123456789abcdef0"),
    labels={"gpufleet.io/site": "use1", "gpufleet.io/node-group": "train"},
    taints=[TaintArgs(key="nvidia.com/gpu", value="present"), TaintArgs(key="dedicated")],
    tags={"team": "ml"},
)
EFA = (
    NodeInterfaceArgs(),
    NodeInterfaceArgs(device_index=1, interface_type="efa-only"),
    NodeInterfaceArgs(network_card_index=1, interface_type="efa-only"),
)


def build(**changes: Any) -> Recording:
    return record(lambda: NodePool("atlas-train", dataclasses.replace(ARGS, **changes)), EchoMocks())


def node_class(**changes: Any) -> dict[str, Any]:
    return dict(build(**changes).one("EC2NodeClass").inputs["spec"])


def pools(**changes: Any) -> dict[str, dict[str, Any]]:
    return {each.inputs["metadata"]["name"]: each.inputs["spec"] for each in build(**changes).of(POOL)}


def test_pool_offers_types_zones_and_kinds_of_capacity_of_the_group() -> None:
    (spec,) = pools().values()
    template = spec["template"]["spec"]
    assert {each["key"]: (each["operator"], each["values"]) for each in template["requirements"]} == {
        "node.kubernetes.io/instance-type": ("In", ["g6e.xlarge", "g6e.2xlarge"]),
        "topology.kubernetes.io/zone": ("In", ["us-east-1a", "us-east-1b"]),
        "karpenter.sh/capacity-type": ("In", ["spot", "on-demand"]),
    }
    assert spec["limits"] == {"nodes": "4", "cpu": "32", "nvidia.com/gpu": "4"}
    assert spec["weight"] == 20
    assert template["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "train",
    }
    assert spec["template"]["metadata"]["labels"] == ARGS.labels
    assert template["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "dedicated", "effect": "NoSchedule"},
    ]


def test_nodes_end_only_without_work_and_never_by_age() -> None:
    (spec,) = pools().values()
    assert spec["template"]["spec"]["expireAfter"] == "Never"
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert spec["disruption"]["consolidateAfter"] == "600s"
    (kept,) = pools(ends_after_s=None).values()
    assert kept["disruption"]["consolidateAfter"] == "Never"
    (moved,) = pools(moves_pods=True).values()
    assert moved["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"


@pytest.mark.parametrize(("changed", "nodes"), [("one-at-a-time", "1"), ("when-idle", "0")])
def test_changed_nodes_end_one_at_a_time_or_without_work(changed: Any, nodes: str) -> None:
    (spec,) = pools(changed_nodes=changed).values()
    budgets = {reason: each["nodes"] for each in spec["disruption"]["budgets"] for reason in each["reasons"]}
    assert budgets == {"Empty": "100%", "Underutilized": "10%", "Drifted": nodes}


def test_nodes_that_always_run_are_a_pool_of_their_own() -> None:
    found = pools(always=2)
    assert sorted(found) == pool_names("train", ARGS.limits, 2) == ["train", "train.always"]
    held = found["train.always"]
    assert held["replicas"] == 2
    # The new node starts before the old one ends.
    assert held["limits"] == {"nodes": "3"}
    assert "weight" not in held
    assert pools(always=2, changed_nodes="when-idle")["train.always"]["limits"] == {"nodes": "2"}
    assert list(pools(always=2, limits={})) == pool_names("train", {}, 2) == ["train.always"]


def test_node_class_is_as_safe_as_a_launch_template() -> None:
    spec = node_class()
    assert spec["metadataOptions"]["httpTokens"] == "required"
    assert spec["metadataOptions"]["httpPutResponseHopLimit"] == 1
    ((device),) = spec["blockDeviceMappings"]
    assert (device["deviceName"], device["rootVolume"]) == ("/dev/xvda", True)
    assert (device["ebs"]["encrypted"], device["ebs"]["volumeSize"]) == (True, "200Gi")
    assert spec["tags"] == {"team": "ml", "Name": "atlas-train"}
    assert spec["instanceProfile"] == "atlas-node"
    assert "role" not in spec


def test_nodes_start_from_one_image_in_the_given_places() -> None:
    spec = node_class()
    assert spec["amiSelectorTerms"] == [{"id": "ami-0123456789abcdef0"}]
    assert spec["amiFamily"] == "AL2023"
    assert spec["subnetSelectorTerms"] == [{"id": "subnet-a"}, {"id": "subnet-b"}]
    assert spec["securityGroupSelectorTerms"] == [{"id": "sg-nodes"}]


def test_nodes_have_all_efa_adapters_and_no_public_address() -> None:
    spec = node_class(interfaces=EFA)
    assert spec["networkInterfaces"] == [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        {"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "efa-only"},
    ]
    assert "associatePublicIPAddress" not in spec
    assert node_class()["associatePublicIPAddress"] is False
    assert node_class(public_ip=True)["associatePublicIPAddress"] is True
    assert "networkInterfaces" not in node_class()


def test_placement_group_is_selected_by_its_name() -> None:
    made = build(placement_group=True)
    group = made.one("PlacementGroup")
    assert group.inputs["strategy"] == "cluster"
    selector = made.one("EC2NodeClass").inputs["spec"]["placementGroupSelector"]
    assert re.fullmatch(r"atlas-train-[0-9a-f]{7}", selector["name"])
    assert build().of("PlacementGroup") == []
    assert "placementGroupSelector" not in node_class()


RESERVED: dict[str, Any] = {
    "capacity_types": ["reserved"],
    "reservation_id": "cr-0123456789abcdef0",
    "placement_group": "ring",
}


@pytest.mark.parametrize(("block", "kind"), [(False, "default"), (True, "capacity-block")])
def test_reserved_nodes_run_in_one_reservation_and_nowhere_else(block: bool, kind: str) -> None:
    made = build(**RESERVED, block=block)
    spec = made.one("EC2NodeClass").inputs["spec"]
    assert spec["capacityReservationSelectorTerms"] == [{"id": "cr-0123456789abcdef0"}]
    needs = made.one(POOL).inputs["spec"]["template"]["spec"]["requirements"]
    values = {each["key"]: each["values"] for each in needs}
    assert values["karpenter.sh/capacity-type"] == ["reserved"]
    assert values["karpenter.k8s.aws/capacity-reservation-type"] == [kind]
    # Reserved in a placement group, capacity is used from inside that one only.
    assert spec["placementGroupSelector"] == {"name": "ring"}
    assert made.of("PlacementGroup") == []
    assert "capacityReservationSelectorTerms" not in node_class()


@pytest.mark.parametrize("lacking", ["capacity_types", "reservation_id"])
def test_reserved_nodes_without_a_reservation_and_the_reverse_are_refused(lacking: str) -> None:
    with pytest.raises(InputError, match="needs a reservation"):
        build(**{key: value for key, value in RESERVED.items() if key != lacking})


def test_user_data_is_a_document_that_karpenter_extends() -> None:
    spec = node_class(user_data=["#!/bin/sh\nsysctl -w vm.max_map_count=1000000\n"], stripes_nvme=True)
    found = message_from_string(spec["userData"])
    assert found.is_multipart()
    (part,) = (each for each in found.walk() if not each.is_multipart())
    assert part.get_content_type() == "text/x-shellscript"
    assert "vm.max_map_count" in str(part.get_payload())
    assert spec["instanceStorePolicy"] == "RAID0"
    assert {"userData", "instanceStorePolicy"} & set(node_class()) == set()


def test_pools_are_deleted_before_their_class_and_wait_for_their_nodes() -> None:
    made = build(always=1)
    owner = made.one("EC2NodeClass")
    found = made.of(POOL)
    assert {each.name for each in found} == {"atlas-train", "atlas-train.always"}
    assert all(owner.urn in each.dependencies for each in found)


def test_pool_without_a_limit_is_refused() -> None:
    with pytest.raises(InputError, match="no limit"):
        build(limits={})
    with pytest.raises(InputError, match="no limit"):
        build(limits={"cpu": 0})


def test_interface_that_a_node_class_cannot_have_is_refused() -> None:
    with pytest.raises(InputError, match="'efa'"):
        build(interfaces=[NodeInterfaceArgs(interface_type="efa")])
