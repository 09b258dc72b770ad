"""Node pools of Karpenter in reservations: rules count them as launches into these, and they have a price."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.policy import examples
from gpufleet.pricing import FleetCost, price_stack
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import CAPACITY_BLOCK, CAPACITY_RESERVATION
from tests.unit.plan.fleets import CATALOG
from tests.unit.policies.test_karpenter import CAPACITY, TYPE, ZONE, ask, need, node_class, pool

TERMS = "capacityReservationSelectorTerms"
HELD = need("karpenter.k8s.aws/capacity-reservation-type", "default")


def reserved_cost(terms: Any, *more: dict[str, Any]) -> FleetCost:
    """The cost of a pool of four nodes at most in reservations of these terms."""
    needs = (need(TYPE, "g6.xlarge"), need(CAPACITY, "reserved"), ZONE, *more)
    return price_stack(examples.stack([node_class(TERMS, terms), pool(*needs)]), CATALOG, None)


def test_pool_in_a_reservation_costs_all_of_its_nodes_used_or_not() -> None:
    found = reserved_cost([{"id": "cr-0123456789abcdef0"}], HELD)
    (nodes,) = [line for line in found.lines if line.kind == "compute"]
    monthly = 4 * 730 * CATALOG.on_demand("g6.xlarge", "us-east-1").amount
    assert (nodes.minimum, nodes.expected, nodes.maximum, nodes.bought) == (monthly, monthly, monthly, "odcr")
    assert [each.what for each in found.lines if each.kind == "storage"] == ["0 root volumes, gp3 100 GiB"]


@pytest.mark.parametrize(
    ("terms", "more", "why"),
    [
        ([{"id": "cr-0123456789abcdef0"}], [], "may be a Capacity Block"),
        (
            [{"id": "cr-0123456789abcdef0"}],
            [need("karpenter.k8s.aws/capacity-reservation-type", "capacity-block")],
            "no node group of the fleet file declares its duration",
        ),
        ([{"tags": {"team": "ml"}}], [HELD], "does not name one reservation"),
        ([{"id": "cr-0123456789abcdef0"}, {"id": "cr-1123456789abcdef0"}], [HELD], "does not name one"),
        ([], [HELD], "does not name one"),
        (UNKNOWN, [HELD], "does not name one"),
    ],
)
def test_pool_whose_reservation_is_not_clear_has_an_unknown_cost(
    terms: Any, more: list[dict[str, Any]], why: str
) -> None:
    assert any(why in each.reason for each in reserved_cost(terms, *more).unknown)


FIRST = "reservations-used-first"
IDS = ["cr-0123456789abcdef0", UNKNOWN]
"""Once the reservation exists, and before."""


def held(count: Any = 4, **more: Any) -> dict[str, Any]:
    props = {"instanceType": "g6.xlarge", "instanceCount": count, "availabilityZone": "us-east-1a"}
    known = {"instanceMatchCriteria": "targeted", "instancePlatform": "Linux/UNIX", "id": IDS[0]}
    return {"type": CAPACITY_RESERVATION, "name": "held", "props": {**props, **known, **more}}


def selecting(identity: Any = UNKNOWN) -> dict[str, Any]:
    """A node class that selects the reservation of the stack."""
    return {
        **node_class(TERMS, [{"id": identity}]),
        "depends": {"spec": ["held"]} if identity is UNKNOWN else {},
    }


def in_reservation(*needs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return pool(*(needs or (need(TYPE, "g6.xlarge"), need(CAPACITY, "reserved"), ZONE, HELD)), **spec)


@pytest.mark.parametrize("identity", IDS)
def test_pool_uses_the_reservation_that_its_class_selects(identity: Any) -> None:
    assert ask(FIRST, held(), selecting(identity), in_reservation()) == []
    (found,) = ask(FIRST, held(), node_class(), pool())
    assert "nothing in this stack launches into these 4 x g6.xlarge" in found.message
    (found,) = ask(FIRST, held(id="cr-of-another"), selecting(IDS[0]), in_reservation())
    assert "nothing in this stack" in found.message


def test_pool_that_buys_other_capacity_does_not_use_it() -> None:
    bought = pool(need(TYPE, "g6.xlarge"), need(CAPACITY, "spot", "on-demand"), ZONE)
    assert "nothing in this stack" in ask(FIRST, held(), selecting(), bought)[0].message


def test_pool_larger_than_its_reservation_is_found() -> None:
    (found,) = ask(FIRST, held(3), selecting(), in_reservation())
    assert "pool may launch 4 instances into it, and it holds 3" in found.message
    assert ask(FIRST, held(5), selecting(), in_reservation()) == []


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (
            (need(TYPE, "g6.xlarge", "g6.2xlarge"), need(CAPACITY, "reserved"), ZONE),
            "launches g6.2xlarge into",
        ),
        (
            (
                need(TYPE, "g6.xlarge"),
                need(CAPACITY, "reserved"),
                need("topology.kubernetes.io/zone", "us-east-1b"),
            ),
            "its zones are us-east-1b, and the reservation is in us-east-1a",
        ),
    ],
)
def test_pool_that_cannot_start_in_its_reservation_is_found(needs: tuple[Any, ...], why: str) -> None:
    (found,) = ask(FIRST, held(), selecting(), in_reservation(*needs))
    assert why in found.message


def test_room_beside_the_pool_is_for_other_groups_and_a_full_reservation_has_none() -> None:
    group = {
        "type": "aws:eks/nodeGroup:NodeGroup",
        "name": "more",
        "props": {"instanceTypes": ["g6.xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 2}},
    }
    (found,) = ask(FIRST, held(5), selecting(), in_reservation(), group)
    assert found.urn.endswith("::more")
    assert ask(FIRST, held(4), selecting(), in_reservation(), group) == []


def test_reservation_and_its_pool_count_once() -> None:
    assert ask("maximum-gpus", held(), selecting(), in_reservation(), max_gpus={"L4": 4}) == []
    (found,) = ask("maximum-gpus", held(), selecting(), in_reservation(), max_gpus={"L4": 3})
    assert "4 GPUs (L4)" in found.message
    (found,) = ask("maximum-gpus", held(), node_class(), pool(), max_gpus={"L4": 7})
    assert "8 GPUs (L4)" in found.message


def test_pool_in_a_reservation_of_the_stack_costs_the_reservation_only() -> None:
    for identity in IDS:
        cost = price_stack(examples.stack([held(), selecting(identity), in_reservation()]), CATALOG, None)
        assert [each.name for each in cost.lines if each.kind == "compute"] == ["held"]
        assert cost.unknown == ()
    block = {
        "type": CAPACITY_BLOCK,
        "name": "held",
        "props": {"instanceType": "p5.48xlarge", "instanceCount": 1, "id": IDS[0]}
        | {"startDate": "2031-05-01T11:30:00Z", "endDate": "2031-05-02T11:30:00Z"},
    }
    needs = (need(TYPE, "p5.48xlarge"), need(CAPACITY, "reserved"), ZONE)
    wanted = in_reservation(*needs, limits={"nvidia.com/gpu": "8"})
    cost = price_stack(examples.stack([block, selecting(IDS[0]), wanted]), CATALOG, None)
    assert [each.name for each in cost.lines if each.kind == "compute"] == ["held"]
    (disks,) = [each for each in cost.lines if each.kind == "storage"]
    # A day of a month.
    assert disks.maximum is not None and disks.maximum < 1
