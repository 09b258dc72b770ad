"""NodeGroup and its launch template: launches, placement, and refusals."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pulumi.runtime.mocks import MockCallArgs

from gpufleet.components.node_group import (
    AutoScalingNodesArgs,
    BlockNodes,
    EksNodesArgs,
    HeldSize,
    LaunchedNodesArgs,
    NodeCapacity,
    NodeGroup,
    NodeGroupArgs,
    NodeImageArgs,
    NodeInterfaceArgs,
    OnDemandNodes,
    ReservationGroupNodes,
    ReservedNodes,
    SpotNodes,
    TaintArgs,
    VolumeArgs,
)
from gpufleet.errors import InputError
from tests.unit.components.recording import EchoMocks, Recording, record

P6_B300 = (
    NodeInterfaceArgs(),
    *(
        NodeInterfaceArgs(network_card_index=card, device_index=0, interface_type="efa-only")
        for card in range(1, 17)
    ),
)
BASE = NodeGroupArgs(
    instance_types=["p5.48xlarge"],
    min_size=2,
    max_size=2,
    subnet_ids=["subnet-a"],
    security_group_ids=["sg-efa", "sg-cluster"],
    tags={"team": "ml"},
    eks=EksNodesArgs(cluster_name="atlas", version="1.35", node_role_arn="arn:node"),
)
NAME = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260929"
BLOCK: dict[str, Any] = {"capacity": BlockNodes(reservation_id="cr-1")}
SLURM: dict[str, Any] = {
    "eks": None,
    "auto_scaling": AutoScalingNodesArgs(instance_profile_arn="arn:profile", image=NodeImageArgs(name=NAME)),
}


def group(**changes: Any) -> Recording:
    return record(lambda: NodeGroup("pretrain", dataclasses.replace(BASE, **changes)))


def template(**changes: Any) -> Any:
    return group(**changes).one("LaunchTemplate").inputs


def test_imdsv2_is_required_and_pods_cannot_reach_it() -> None:
    assert template()["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }


def test_root_volume_is_encrypted_gp3_and_deleted_with_its_node() -> None:
    (mapping,) = template()["blockDeviceMappings"]
    assert mapping["ebs"]["encrypted"] == "true"
    (own,) = template(volume=VolumeArgs(kms_key_id="arn:key"))["blockDeviceMappings"]
    assert own["ebs"]["kmsKeyId"] == "arn:key"
    assert mapping["ebs"]["volumeType"] == "gp3"
    assert mapping["ebs"]["deleteOnTermination"] == "true"


@pytest.mark.parametrize(("changes", "device"), [({}, "/dev/xvda"), (SLURM, "/dev/sda1")])
def test_root_device_is_that_of_the_image(changes: dict[str, Any], device: str) -> None:
    assert template(**changes)["blockDeviceMappings"][0]["deviceName"] == device


def test_interfaces_match_the_input_and_card_0_of_p6_b300_has_no_efa() -> None:
    built = template(interfaces=P6_B300)["networkInterfaces"]
    layout = [(i["networkCardIndex"], i["deviceIndex"], i["interfaceType"]) for i in built]
    assert layout == [(0, 0, "interface"), *((card, 0, "efa-only") for card in range(1, 17))]


def test_every_interface_has_every_security_group() -> None:
    for interface in template(interfaces=P6_B300)["networkInterfaces"]:
        assert interface["securityGroups"] == ["sg-efa", "sg-cluster"]


def test_public_address_is_disabled_on_one_interface_and_unset_on_several() -> None:
    (single,) = template()["networkInterfaces"]
    assert single["associatePublicIpAddress"] == "false"
    for interface in template(interfaces=P6_B300)["networkInterfaces"]:
        assert "associatePublicIpAddress" not in interface


def test_instances_volumes_and_interfaces_are_tagged_at_launch() -> None:
    specifications = template()["tagSpecifications"]
    assert {s["resourceType"] for s in specifications} == {"instance", "volume", "network-interface"}
    assert all(s["tags"] == {"team": "ml", "Name": "pretrain"} for s in specifications)


def test_spot_requests_are_tagged_only_for_pure_spot_groups() -> None:
    def kinds(**changes: Any) -> set[str]:
        return {each["resourceType"] for each in template(**changes)["tagSpecifications"]}

    assert "spot-instances-request" in kinds(**SLURM, capacity=SpotNodes())
    assert "spot-instances-request" not in kinds(**SLURM, capacity=SpotNodes(on_demand_fallback=True))
    assert "spot-instances-request" not in kinds(**SLURM)
    assert "spot-instances-request" not in kinds(capacity=SpotNodes())


def test_no_placement_group_is_created_by_default() -> None:
    built = group()
    assert built.of("PlacementGroup") == []
    assert "placement" not in built.one("LaunchTemplate").inputs


def test_cluster_placement_group_is_created_and_used() -> None:
    built = group(placement_group=True)
    assert built.one("PlacementGroup").inputs["strategy"] == "cluster"
    assert built.one("LaunchTemplate").inputs["placement"] == {"groupName": "pretrain-1234567"}


def test_existing_placement_group_is_used_and_none_is_created() -> None:
    built = group(placement_group="theirs", capacity=ReservedNodes(reservation_id="cr-1"))
    assert built.of("PlacementGroup") == []
    assert built.one("LaunchTemplate").inputs["placement"] == {"groupName": "theirs"}


def test_capacity_block_never_gets_a_placement_group() -> None:
    assert "placement" not in template(**BLOCK)
    for placement in (True, "theirs"):
        with pytest.raises(InputError, match="Capacity Block cannot launch into a placement group"):
            group(**BLOCK, placement_group=placement)


def test_capacity_block_is_targeted_with_its_market_type_and_instance_type() -> None:
    built = group(**BLOCK, min_size=8, max_size=8)
    inputs = built.one("LaunchTemplate").inputs
    assert inputs["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert inputs["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": "cr-1"}
    }
    assert inputs["instanceType"] == "p5.48xlarge"
    nodes = built.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert nodes["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in nodes


def test_capacity_block_group_starts_at_zero_and_ignores_its_desired_size() -> None:
    nodes = group(**BLOCK, min_size=8, max_size=8).one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 8, "desiredSize": 0}
    assert nodes.ignore_changes == ("scalingConfig.desiredSize",)


def test_reservation_is_targeted_without_a_market_type() -> None:
    built = group(capacity=ReservedNodes(reservation_id="cr-1"))
    inputs = built.one("LaunchTemplate").inputs
    assert "instanceMarketOptions" not in inputs
    assert inputs["capacityReservationSpecification"]["capacityReservationTarget"] == {
        "capacityReservationId": "cr-1"
    }
    nodes = built.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert nodes["capacityType"] == "ON_DEMAND"
    assert nodes["scalingConfig"]["desiredSize"] == 2


POOL = "arn:aws:resource-groups:us-east-1:111122223333:group/training"


def test_nodes_of_a_resource_group_never_launch_outside_of_its_reservations() -> None:
    built = group(capacity=ReservationGroupNodes(resource_group_arn=POOL))
    inputs = built.one("LaunchTemplate").inputs
    assert inputs["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationResourceGroupArn": POOL},
    }
    assert "instanceMarketOptions" not in inputs
    nodes = built.one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["capacityType"] == "ON_DEMAND"
    assert nodes.inputs["labels"]["gpufleet.io/capacity"] == "odcr"


RESERVATION: dict[str, Any] = {"capacity": ReservedNodes(reservation_id="cr-1")}
POOLED: dict[str, Any] = {"capacity": ReservationGroupNodes(resource_group_arn=POOL)}


@pytest.mark.parametrize("changes", [BLOCK, RESERVATION, POOLED, {"placement_group": True}])
def test_update_stops_the_old_node_first_without_spare_capacity(
    changes: dict[str, Any],
) -> None:
    nodes = group(**changes).one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}


@pytest.mark.parametrize("capacity", [OnDemandNodes(), SpotNodes()], ids=["on-demand", "spot"])
def test_update_starts_the_new_node_first_with_spare_capacity(capacity: NodeCapacity) -> None:
    nodes = group(capacity=capacity).one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["updateConfig"] == {"maxUnavailable": 1}
    assert not nodes.delete_before_replace


@pytest.mark.parametrize("changes", [BLOCK, RESERVATION])
def test_group_in_a_reservation_is_deleted_before_its_replacement(changes: dict[str, Any]) -> None:
    assert group(**changes).one("aws:eks/nodeGroup:NodeGroup").delete_before_replace


@pytest.mark.parametrize(("asked", "starts"), [(0, 1), (3, 3), (9, 4), (None, 1)])
def test_initial_size_is_kept_within_the_limits(asked: int | None, starts: int) -> None:
    nodes = group(min_size=1, max_size=4, desired_size=asked).one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["scalingConfig"] == {"minSize": 1, "maxSize": 4, "desiredSize": starts}


def test_on_demand_targets_no_reservation() -> None:
    assert not {"capacityReservationSpecification", "instanceMarketOptions"} & template().keys()


def test_eks_sets_image_profile_and_types_and_the_template_does_not() -> None:
    built = group()
    assert not {"imageId", "iamInstanceProfile", "instanceType"} & built.one("LaunchTemplate").inputs.keys()
    nodes = built.one("aws:eks/nodeGroup:NodeGroup").inputs
    assert nodes["amiType"] == "AL2023_x86_64_NVIDIA"
    assert nodes["instanceTypes"] == ["p5.48xlarge"]


def test_group_of_fixed_size_manages_its_size() -> None:
    nodes = group().one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.inputs["scalingConfig"] == {"minSize": 2, "maxSize": 2, "desiredSize": 2}
    assert nodes.ignore_changes == ()


def test_group_that_scales_leaves_its_size_to_the_autoscaler() -> None:
    assert group(min_size=0).one("aws:eks/nodeGroup:NodeGroup").ignore_changes == (
        "scalingConfig.desiredSize",
    )
    built = group(min_size=0, **SLURM)
    assert built.one("aws:autoscaling/group:Group").ignore_changes == ("desiredCapacity",)


def test_spot_gets_an_on_demand_fallback_group_only_on_request() -> None:
    single = group(capacity=SpotNodes(), min_size=1, max_size=4).of("aws:eks/nodeGroup:NodeGroup")
    assert [g.inputs["capacityType"] for g in single] == ["SPOT"]
    both = group(capacity=SpotNodes(on_demand_fallback=True), min_size=1, max_size=4).of(
        "aws:eks/nodeGroup:NodeGroup"
    )
    by_type = {g.inputs["capacityType"]: g.inputs for g in both}
    assert by_type.keys() == {"SPOT", "ON_DEMAND"}
    assert by_type["ON_DEMAND"]["scalingConfig"] == {"minSize": 0, "maxSize": 4, "desiredSize": 0}
    assert by_type["SPOT"]["labels"]["gpufleet.io/capacity"] == "spot"
    assert by_type["ON_DEMAND"]["labels"]["gpufleet.io/capacity"] == "on-demand"


def test_taints_use_the_eks_api_effects() -> None:
    eks = dataclasses.replace(
        BASE.eks, taints=[TaintArgs(key="nvidia.com/gpu", value="true", effect="NoSchedule")]
    )
    nodes = group(eks=eks).one("aws:eks/nodeGroup:NodeGroup").inputs
    assert nodes["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


def test_auto_scaling_group_propagates_every_tag() -> None:
    tags = group(**SLURM).one("aws:autoscaling/group:Group").inputs["tags"]
    assert {(t["key"], t["value"], t["propagateAtLaunch"]) for t in tags} == {
        ("team", "ml", True),
        ("Name", "pretrain", True),
    }


def test_spot_in_an_auto_scaling_group_uses_price_capacity_optimized() -> None:
    built = group(
        **SLURM,
        capacity=SpotNodes(),
        min_size=0,
        max_size=4,
        instance_types=["p4d.24xlarge", "p4de.24xlarge"],
    )
    inputs = built.one("aws:autoscaling/group:Group").inputs
    assert "launchTemplate" not in inputs
    policy = inputs["mixedInstancesPolicy"]
    assert policy["instancesDistribution"]["spotAllocationStrategy"] == "price-capacity-optimized"
    assert policy["instancesDistribution"]["onDemandPercentageAboveBaseCapacity"] == 0
    assert [o["instanceType"] for o in policy["launchTemplate"]["overrides"]] == [
        "p4d.24xlarge",
        "p4de.24xlarge",
    ]


def test_maximum_spot_price_reaches_the_auto_scaling_group() -> None:
    inputs = group(**SLURM, capacity=SpotNodes(max_price="1.5")).one("aws:autoscaling/group:Group").inputs
    assert inputs["mixedInstancesPolicy"]["instancesDistribution"]["spotMaxPrice"] == "1.5"


def test_no_maximum_price_is_sent_by_default() -> None:
    inputs = group(**SLURM, capacity=SpotNodes()).one("aws:autoscaling/group:Group").inputs
    assert "spotMaxPrice" not in inputs["mixedInstancesPolicy"]["instancesDistribution"]


def test_maximum_price_is_refused_where_it_is_not_supported() -> None:
    with pytest.raises(InputError, match="max_price"):
        group(capacity=SpotNodes(max_price="1.5"))


@pytest.mark.parametrize("kind", [OnDemandNodes, ReservedNodes, BlockNodes])
def test_only_spot_has_a_maximum_price(kind: Any) -> None:
    with pytest.raises(TypeError, match="max_price"):
        kind(max_price="1.5")


@pytest.mark.parametrize("kind", [ReservedNodes, BlockNodes])
def test_reserved_nodes_need_their_reservation(kind: Any) -> None:
    with pytest.raises(TypeError, match="reservation_id"):
        kind()


def test_one_on_demand_type_needs_no_mixed_instances_policy() -> None:
    inputs = group(**SLURM).one("aws:autoscaling/group:Group").inputs
    assert "mixedInstancesPolicy" not in inputs
    assert inputs["launchTemplate"] == {"id": "pretrain-id", "version": "1"}


def test_several_on_demand_types_are_never_bought_on_spot() -> None:
    inputs = (
        group(**SLURM, instance_types=["p4d.24xlarge", "p4de.24xlarge"])
        .one("aws:autoscaling/group:Group")
        .inputs
    )
    distribution = inputs["mixedInstancesPolicy"]["instancesDistribution"]
    assert distribution["onDemandPercentageAboveBaseCapacity"] == 100
    assert "capacityRebalance" not in inputs


def test_size_of_a_fixed_auto_scaling_group_is_managed() -> None:
    assert group(**SLURM).one("aws:autoscaling/group:Group").ignore_changes == ()
    scaling = group(**SLURM, max_size=4).one("aws:autoscaling/group:Group")
    assert scaling.ignore_changes == ("desiredCapacity",)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (NodeImageArgs(name=NAME), "ami-by-name"),
        (NodeImageArgs(parameter="/golden/gpu:7"), "ami-0123456789abcdef0"),
        (NodeImageArgs(ami_id="ami-mine"), "ami-mine"),
    ],
)
def test_template_has_exactly_the_image_that_is_given(image: NodeImageArgs, expected: str) -> None:
    args = AutoScalingNodesArgs(instance_profile_arn="arn:profile", image=image)
    made = group(eks=None, auto_scaling=args).one("LaunchTemplate")
    assert made.inputs["imageId"] == expected
    assert made.ignore_changes == ()


def test_image_is_searched_by_its_exact_name_among_those_of_amazon_deprecated_ones_too() -> None:
    mocks = AskedMocks()
    record(lambda: NodeGroup("pretrain", dataclasses.replace(BASE, **SLURM)), mocks)
    assert mocks.asked == [
        {
            "owners": ["amazon"],
            "includeDeprecated": True,
            "filters": [{"name": "name", "values": [NAME]}],
        }
    ]


def test_eks_group_with_an_image_has_it_in_the_launch_template_and_sets_no_version() -> None:
    assert BASE.eks is not None
    own = dataclasses.replace(BASE.eks, image=NodeImageArgs(ami_id="ami-mine"))
    built = group(eks=own, user_data="Zm9v")
    nodes = built.one("aws:eks/nodeGroup:NodeGroup")
    assert nodes.name == "pretrain"
    assert nodes.inputs["amiType"] == "CUSTOM"
    assert not {"version", "releaseVersion"} & nodes.inputs.keys()
    template = built.one("LaunchTemplate").inputs
    assert (template["imageId"], template["userData"]) == ("ami-mine", "Zm9v")
    assert template["blockDeviceMappings"][0]["deviceName"] == "/dev/xvda"


class AskedMocks(EchoMocks):
    """Keeps what images were searched for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def call(self, args: MockCallArgs) -> Any:
        if args.token == "aws:ec2/getAmi:getAmi":
            self.asked.append({key: value for key, value in args.args.items() if value is not None})
        return super().call(args)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            SLURM
            | {"auto_scaling": AutoScalingNodesArgs(instance_profile_arn="arn:p", image=NodeImageArgs())},
            "exactly one of ami_id, name and parameter, and has 0",
        ),
        ({"eks": None}, "exactly one of eks, auto_scaling and launched"),
        (SLURM | {"eks": BASE.eks}, "exactly one of eks, auto_scaling and launched"),
        ({"capacity": "odcr"}, "not a kind of capacity"),
        (BLOCK | {"instance_types": ["p5.48xlarge", "p5e.48xlarge"]}, "one instance type"),
        ({"public_ip": True, "interfaces": P6_B300}, "no public address"),
    ],
)
def test_invalid_group_is_refused_before_anything_is_registered(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        group(**changes)
    assert refused.value.remedy


LAUNCHED: dict[str, Any] = {
    "eks": None,
    "launched": LaunchedNodesArgs(instance_profile_arn="arn:profile", image=NodeImageArgs(name=NAME)),
}


def test_nodes_that_slurm_launches_have_a_template_and_no_group() -> None:
    made = group(**LAUNCHED, instance_types=["g6e.xlarge", "g6e.2xlarge"])
    assert not made.of("aws:autoscaling/group:Group") and not made.of("aws:eks/nodeGroup:NodeGroup")
    inputs = made.one("LaunchTemplate").inputs
    # They read their names from their tags.
    assert inputs["metadataOptions"]["instanceMetadataTags"] == "enabled"
    assert inputs["instanceType"] == "g6e.xlarge"
    assert inputs["iamInstanceProfile"] == {"arn": "arn:profile"}


def test_tags_of_other_nodes_are_not_in_their_metadata() -> None:
    assert "instanceMetadataTags" not in template(**SLURM)["metadataOptions"]


def test_spot_nodes_that_slurm_launches_tag_no_spot_request() -> None:
    kinds = [each["resourceType"] for each in template(**LAUNCHED, capacity=SpotNodes())["tagSpecifications"]]
    assert "spot-instances-request" not in kinds


DRAIN = ("gpufleet:budget-drain", "spot")


def test_only_the_spot_part_of_a_group_may_be_drained_and_its_template_is_as_before() -> None:
    spot: dict[str, Any] = {"capacity": SpotNodes(on_demand_fallback=True), "min_size": 1, "max_size": 4}
    built, before = group(drains=True, **spot), group(**spot)
    tagged = {
        g.inputs["capacityType"]: DRAIN[0] in g.inputs["tags"]
        for g in built.of("aws:eks/nodeGroup:NodeGroup")
    }
    assert tagged == {"SPOT": True, "ON_DEMAND": False}
    (tag,) = built.of("aws:autoscaling/tag:Tag")
    assert (tag.inputs["tag"]["key"], tag.inputs["tag"]["value"]) == DRAIN
    assert not tag.inputs["tag"]["propagateAtLaunch"]
    assert built.one("LaunchTemplate").inputs == before.one("LaunchTemplate").inputs
    assert before.of("aws:autoscaling/tag:Tag") == []
    groups = {
        g.name: [(t["key"], t["propagateAtLaunch"]) for t in g.inputs["tags"] if t["key"] == DRAIN[0]]
        for g in group(drains=True, **spot, **SLURM).of("aws:autoscaling/group:Group")
    }
    assert groups == {"pretrain": [(DRAIN[0], False)], "pretrain-fallback": []}


@pytest.mark.parametrize("capacity", [OnDemandNodes(), ReservedNodes(reservation_id="cr-1")])
def test_other_capacity_has_no_tag_by_which_it_could_drain(capacity: NodeCapacity) -> None:
    built = group(drains=True, capacity=capacity)
    assert DRAIN[0] not in built.one("aws:eks/nodeGroup:NodeGroup").inputs["tags"]
    assert built.of("aws:autoscaling/tag:Tag") == []


def test_group_that_drains_has_no_minimum_and_keeps_its_size() -> None:
    held = {"pretrain": HeldSize(max_size=6, desired_size=3, min_size=0)}
    (nodes,) = group(capacity=SpotNodes(), min_size=1, max_size=8, held=held).of(
        "aws:eks/nodeGroup:NodeGroup"
    )
    assert nodes.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 6, "desiredSize": 3}
