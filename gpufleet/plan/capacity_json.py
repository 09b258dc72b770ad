"""Capacity as JSON: one flat object for every way to buy nodes, null where a way has no such field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_never

from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    CapacityPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationPlan,
    SpotPlan,
)


def capacity_to_json(capacity: CapacityPlan) -> dict[str, Any]:
    """The capacity of a node group; `reservation_zone` is null where an offering decides."""
    return {
        "kind": capacity.kind,
        "min": capacity.min,
        "max": capacity.max,
        "desired": capacity.desired,
        "reservation_id": None,
        "reservation_zone": None,
        "reservation_placement_group": None,
        "start": None,
        "duration_hours": None,
        "on_demand_fallback": False,
        "spot_max_price": None,
    } | _own(capacity)


def _own(capacity: CapacityPlan) -> dict[str, Any]:
    match capacity:
        case OnDemandPlan():
            return {}
        case SpotPlan(on_demand_fallback=fallback, max_price=price):
            return {
                "on_demand_fallback": fallback,
                "spot_max_price": None if price is None else float(price),
            }
        case ReservationPlan(zone=zone):
            return {"reservation_zone": zone}
        case ExistingReservationPlan(id=held, zone=zone, placement_group=group):
            return {"reservation_id": held, "reservation_zone": zone, "reservation_placement_group": group}
        case CapacityBlockPlan(zones=zones, start=start, duration=length):
            only = zones[0] if len(zones) == 1 else None
            return {"reservation_zone": only, "start": start, "duration_hours": _hours(length)}
        case ExistingBlockPlan(id=held, zone=zone, start=asked, duration=length):
            return {
                "reservation_id": held,
                "reservation_zone": zone,
                "start": asked,
                "duration_hours": _hours(length),
            }
        case other:
            assert_never(other)


def _hours(length: timedelta | None) -> float | None:
    return None if length is None else length / timedelta(hours=1)
