"""Node groups: interfaces, capacity, placement, labels, taints, tags."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpufleet.errors import InputError
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    CapacityPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationGroupPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.plan.models import NetworkInterface
from tests.unit.plan.fleets import block, first_group, group, odcr, on_demand, plan_of, spot

KUBERNETES: dict[str, Any] = {"scheduler": "kubernetes"}
ONE_ZONE: dict[str, Any] = {"zones": ["us-east-1a"]}
ID = "cr-0123456789abcdef0"
POOL = "arn:aws:resource-groups:us-east-1:111122223333:group/training"


@pytest.mark.parametrize(
    ("instance", "efa", "first_card"),
    [
        ("p4d.24xlarge", 4, 0),
        ("p4de.24xlarge", 4, 0),
        ("p5.48xlarge", 32, 0),
        ("p5e.48xlarge", 32, 0),
        ("p5en.48xlarge", 16, 0),
        ("p6-b200.48xlarge", 8, 0),
        ("p6-b300.48xlarge", 16, 1),
        ("g6e.48xlarge", 4, 0),
        ("g6e.24xlarge", 2, 0),
        ("g6e.12xlarge", 1, 0),
    ],
)
def test_efa_group_has_one_ena_interface_and_all_efa_interfaces_of_its_type(
    instance: str, efa: int, first_card: int
) -> None:
    planned = first_group(group("train", instance, on_demand(0, 1), network="efa"))
    interfaces = planned.network_interfaces
    assert interfaces[0] == NetworkInterface(0, 0, "interface")
    assert interfaces[1:] == tuple(
        NetworkInterface(card, 1 if card == 0 else 0, "efa-only")
        for card in range(first_card, first_card + efa)
    )
    assert planned.efa


def test_group_without_efa_has_only_the_primary_interface() -> None:
    planned = first_group(group("serve", "p5.48xlarge", on_demand(0, 1)))
    assert planned.network_interfaces == (NetworkInterface(0, 0, "interface"),)
    assert not planned.efa


@pytest.mark.parametrize(
    ("changes", "addresses"),
    [({}, 0), ({"public_ip": True}, 1), ({"public_ip": True, "network": "efa"}, 0)],
)
def test_node_has_a_public_address_on_request_unless_it_has_several_interfaces(
    changes: dict[str, Any], addresses: int
) -> None:
    planned = first_group(group("a", "p5.48xlarge", on_demand(0, 1), **changes))
    assert planned.public_addresses == addresses


def test_efa_on_a_type_without_it_is_an_error() -> None:
    with pytest.raises(InputError, match=r"g6\.xlarge"):
        plan_of(group("serve", "g6.xlarge", on_demand(0, 1), network="efa"))


def test_desired_defaults_to_min() -> None:
    assert first_group(group("a", "p5.48xlarge", on_demand(2, 5))).capacity.desired == 2
    assert first_group(group("a", "p5.48xlarge", on_demand(2, 5, 4))).capacity.desired == 4


@pytest.mark.parametrize(("capacity", "kind"), [(block(3), "capacity-block"), (odcr(3), "odcr")])
def test_reservation_runs_all_of_its_nodes(capacity: dict[str, Any], kind: str) -> None:
    planned = first_group(group("a", "p5.48xlarge", capacity)).capacity
    assert planned.kind == kind
    assert (planned.min, planned.desired, planned.max) == (3, 3, 3)


def test_reservation_holds_instances_for_others_besides_its_nodes() -> None:
    shared = odcr(3, shared_nodes=2, share_with=["222233334444"])
    planned = first_group(group("a", "p5.48xlarge", shared)).capacity
    assert isinstance(planned, ReservationPlan)
    assert (planned.instances, planned.max) == (5, 3)


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (on_demand(1, 4, 2), OnDemandPlan(1, 4, 2)),
        (
            {"spot": {"min": 1, "max": 4, "max_price": "2.5 USD/h"}},
            SpotPlan(1, 4, 1, on_demand_fallback=False, spot_max_price=Decimal("2.5")),
        ),
        (odcr(3, zone="us-east-1b"), ReservationPlan(3, "us-east-1b")),
        (odcr(3, zone="us-east-1b", id=ID), ExistingReservationPlan(3, ID, "us-east-1b")),
        (
            odcr(3, zone="us-east-1b", shared_nodes=2, share_with=["222233334444"]),
            ReservationPlan(3, "us-east-1b", 2, ("222233334444",)),
        ),
        (odcr(3, group=POOL), ReservationGroupPlan(3, POOL, ("us-east-1a", "us-east-1b"))),
        (
            odcr(3, group=POOL, zone="us-east-1b", placement_group="pg-1"),
            ReservationGroupPlan(3, POOL, ("us-east-1b",), "pg-1"),
        ),
        (block(3), CapacityBlockPlan(3, ("us-east-1a", "us-east-1b"), "in 14 d", timedelta(days=14))),
        (
            block(3, extensions=["1 d", "7 d"]),
            CapacityBlockPlan(
                3,
                ("us-east-1a", "us-east-1b"),
                "in 14 d",
                timedelta(days=14),
                (timedelta(days=1), timedelta(days=7)),
            ),
        ),
        (
            block(3, id=ID, zone="us-east-1a", start=None),
            ExistingBlockPlan(3, ID, "us-east-1a", duration=timedelta(days=14)),
        ),
    ],
)
def test_each_purchase_option_has_exactly_its_own_fields(
    capacity: dict[str, Any], expected: CapacityPlan
) -> None:
    assert first_group(group("a", "p5.48xlarge", capacity)).capacity == expected


def test_zone_of_reservations_is_known_where_there_is_one() -> None:
    one, several = odcr(3, group=POOL, zone="us-east-1b"), odcr(3, group=POOL)
    zones = [
        first_group(group("a", "p5.48xlarge", each)).capacity.reservation_zone for each in (one, several)
    ]
    assert zones == ["us-east-1b", None]


def test_lengths_of_blocks_are_in_hours() -> None:
    extended = {"extensions": ["1 d", "7 d"]}
    for made in (block(3, **extended), block(3, id=ID, zone="us-east-1a", start=None, **extended)):
        planned = first_group(group("a", "p5.48xlarge", made)).capacity
        assert isinstance(planned, CapacityBlockPlan | ExistingBlockPlan)
        assert (planned.duration_hours, planned.extension_hours) == (14 * 24, [24, 7 * 24])
    unknown = block(3, id=ID, zone="us-east-1a", start=None, duration=None)
    planned = first_group(group("a", "p5.48xlarge", unknown)).capacity
    assert isinstance(planned, ExistingBlockPlan)
    assert planned.duration_hours is None


@pytest.mark.parametrize("missing", ["start", "duration"])
def test_block_that_cannot_be_bought_is_an_error(missing: str) -> None:
    with pytest.raises(InputError, match="node group a"):
        plan_of(group("a", "p5.48xlarge", block(3, **{missing: None})))


def test_start_of_a_block_stays_as_written() -> None:
    capacity = first_group(group("a", "p5.48xlarge", block(3, start="in 14 d"))).capacity
    assert isinstance(capacity, CapacityBlockPlan)
    assert capacity.start == "in 14 d"
    assert capacity.duration.days == 14


def test_on_demand_replaces_spot_only_on_request() -> None:
    asked = first_group(group("a", "p5.48xlarge", spot(0, 2, "other-zone", "on-demand")))
    assert asked.capacity == SpotPlan(0, 2, 0, on_demand_fallback=True)
    other = first_group(group("a", "p5.48xlarge", spot(0, 2, "other-zone")))
    assert other.capacity == SpotPlan(0, 2, 0, on_demand_fallback=False)


@pytest.mark.parametrize("placement", ["auto", "cluster", "none"])
@pytest.mark.parametrize("zones", [[], ["us-east-1a"]])
def test_capacity_block_never_gets_a_placement_group(placement: str, zones: list[str]) -> None:
    planned = first_group(
        group("a", "p5.48xlarge", block(2), network="efa", placement=placement, zones=zones)
    )
    assert not planned.placement_group


@pytest.mark.parametrize(
    ("capacity", "changes", "expected"),
    [
        (on_demand(0, 2), {"network": "efa", **ONE_ZONE}, True),
        (spot(0, 2), {"network": "efa", **ONE_ZONE}, True),
        (on_demand(0, 2), {"network": "efa"}, False),
        (on_demand(0, 2), {"network": "efa", "placement": "none", **ONE_ZONE}, False),
        (on_demand(0, 2), ONE_ZONE, False),
        (on_demand(0, 2), {"placement": "cluster", **ONE_ZONE}, True),
        (odcr(2, zone="us-east-1b"), {"network": "efa"}, True),
        (odcr(2, zone="us-east-1b"), {}, False),
        (odcr(2, zone="us-east-1b", id=ID), {"network": "efa"}, False),
        (odcr(2, zone="us-east-1b", id=ID, placement_group="pg-1"), {"network": "efa"}, False),
        (odcr(2, group=POOL), {"network": "efa", **ONE_ZONE}, False),
    ],
)
def test_placement_group_is_created_only_where_it_applies(
    capacity: dict[str, Any], changes: dict[str, Any], expected: bool
) -> None:
    assert first_group(group("a", "p5.48xlarge", capacity, **changes)).placement_group is expected


def test_type_that_cannot_be_in_a_cluster_placement_group_gets_none() -> None:
    for types in (["t3.large"], ["m7i.xlarge", "t3.large"]):
        planned = first_group(group("a", types, on_demand(0, 2), placement="cluster", **ONE_ZONE))
        assert not planned.placement_group


def test_existing_reservation_keeps_its_own_placement_group() -> None:
    capacity = odcr(2, zone="us-east-1b", id=ID, placement_group="pg-1")
    planned = first_group(group("a", "p5.48xlarge", capacity, network="efa")).capacity
    assert planned == ExistingReservationPlan(2, ID, "us-east-1b", "pg-1")


def test_group_uses_the_zone_of_its_reservation_its_own_zones_or_those_of_the_site() -> None:
    assert first_group(group("a", "p5.48xlarge", odcr(1, zone="us-east-1b"))).zones == ("us-east-1b",)
    assert first_group(group("a", "p5.48xlarge", on_demand(0, 1), zones=["us-east-1a"])).zones == (
        "us-east-1a",
    )
    assert first_group(group("a", "p5.48xlarge", on_demand(0, 1))).zones == ("us-east-1a", "us-east-1b")
    assert first_group(group("a", "p5.48xlarge", block(1))).zones == ("us-east-1a", "us-east-1b")


def test_gpu_nodes_of_a_kubernetes_site_are_tainted_for_their_device_plugin() -> None:
    (taint,) = first_group(group("a", "p5.48xlarge", on_demand(0, 1)), **KUBERNETES).taints
    assert (taint.key, taint.effect) == ("nvidia.com/gpu", "NoSchedule")
    (taint,) = first_group(group("a", "trn1.32xlarge", on_demand(0, 1)), **KUBERNETES).taints
    assert taint.key == "aws.amazon.com/neuron"


def test_nodes_without_gpus_and_slurm_nodes_get_no_taint() -> None:
    assert first_group(group("a", "m7i.xlarge", on_demand(0, 1)), **KUBERNETES).taints == ()
    assert first_group(group("a", "p5.48xlarge", on_demand(0, 1))).taints == ()


def test_taint_of_the_fleet_file_replaces_the_default() -> None:
    own = [{"key": "nvidia.com/gpu", "value": "mine", "effect": "PreferNoSchedule"}, {"key": "x"}]
    taints = first_group(group("a", "p5.48xlarge", on_demand(0, 1), taints=own), **KUBERNETES).taints
    assert [(taint.key, taint.value) for taint in taints] == [("nvidia.com/gpu", "mine"), ("x", "")]
    beside = first_group(group("a", "p5.48xlarge", on_demand(0, 1), taints=own[1:]), **KUBERNETES).taints
    assert [(taint.key, taint.value) for taint in beside] == [("nvidia.com/gpu", "present"), ("x", "")]


def test_labels_have_what_a_workload_selects_by() -> None:
    planned = first_group(
        group(
            "train",
            "p5.48xlarge",
            on_demand(0, 1),
            workload="training",
            team="research",
            labels={"tier": "gold"},
        ),
        **KUBERNETES,
    )
    assert planned.labels == {
        "gpufleet.io/fleet": "atlas",
        "gpufleet.io/environment": "test",
        "gpufleet.io/site": "use1",
        "gpufleet.io/node-group": "train",
        "gpufleet.io/capacity": "on-demand",
        "gpufleet.io/workload": "training",
        "gpufleet.io/gpu": "h100",
        "gpufleet.io/team": "research",
        "tier": "gold",
    }


def test_group_without_a_team_or_gpu_has_no_such_label_or_tag() -> None:
    planned = first_group(group("cpu", "m7i.xlarge", on_demand(0, 1)))
    assert "gpufleet.io/team" not in planned.labels
    assert "gpufleet.io/gpu" not in planned.labels
    assert "gpufleet:team" not in planned.tags
    assert planned.gpus_per_node == 0


def test_tags_are_those_of_the_fleet_with_owner_and_group() -> None:
    planned = first_group(group("train", "p5.48xlarge", on_demand(0, 1), team="research"))
    assert planned.tags == {
        "team": "ml",
        "cost-center": "cc-1",
        "project": "atlas",
        "gpufleet:environment": "test",
        "gpufleet:fleet": "atlas",
        "gpufleet:site": "use1",
        "gpufleet:node-group": "train",
        "gpufleet:team": "research",
    }


def test_first_type_is_the_type_of_the_group_and_the_others_follow() -> None:
    planned = first_group(group("a", ["p4de.24xlarge", "p4d.24xlarge"], spot(0, 1)))
    assert planned.instance_type == "p4de.24xlarge"
    assert planned.instance_types == ("p4de.24xlarge", "p4d.24xlarge")
    assert planned.gpus_per_node == 8


def test_unknown_type_is_an_error_that_names_it() -> None:
    with pytest.raises(InputError, match=r"p5\.48xlagre"):
        plan_of(group("a", "p5.48xlagre", on_demand(0, 1)))


@pytest.mark.parametrize(
    ("zones", "zone"), [(("us-east-1a",), "us-east-1a"), (("us-east-1a", "us-east-1b"), None)]
)
def test_block_has_a_zone_before_purchase_only_if_there_is_no_other(
    zones: tuple[str, ...], zone: str | None
) -> None:
    assert CapacityBlockPlan(3, zones, "in 14 d", timedelta(days=14)).reservation_zone == zone
