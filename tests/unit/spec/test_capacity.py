"""The purchase option of nodes, in any nesting of the fleet file."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.spec.models import Capacity, CapacityBlock, OnDemand, OnDemandReservation, Spot


@pytest.mark.parametrize(
    ("written", "option", "kind", "nodes"),
    [
        ({"on_demand": {"min": 1, "max": 4}}, OnDemand(min=1, max=4), "on-demand", 4),
        ({"spot": {"max": 5}}, Spot(max=5), "spot", 5),
        ({"reserved": {"odcr": {"nodes": 6}}}, OnDemandReservation(nodes=6), "odcr", 6),
        ({"reserved": {"capacity_block": {"nodes": 7}}}, CapacityBlock(nodes=7), "capacity-block", 7),
    ],
)
def test_written_purchase_option_has_its_kind_and_place(
    written: dict[str, Any], option: Any, kind: str, nodes: int
) -> None:
    capacity = Capacity.model_validate(written)
    assert capacity.option == option
    assert capacity.option.kind == kind
    assert capacity.most_nodes == nodes
    place: Any = capacity
    for name in capacity.option.path:
        place = getattr(place, name)
    assert place is capacity.option
