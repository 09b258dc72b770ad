"""How the nodes of a group are bought: one class for each way, with the fields that it has and no others.

`min`, `max`, `desired` and `kind` exist in all of them; `match` and `assert_never` tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar

from gpufleet.kinds import CapacityKind
from gpufleet.plan.json import ELSEWHERE


class _Capacity:
    """A way to buy nodes: the JSON has the fields of all ways for each of them."""

    __slots__ = ()

    json_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "reservation_id": None,
            "reservation_zone": None,
            "reservation_placement_group": None,
            "reservation_group": None,
            "shared_nodes": 0,
            "share_with": [],
            "share_outside_organization": False,
            "start": None,
            "duration_hours": None,
            "extension_hours": [],
            "on_demand_fallback": False,
            "spot_max_price": None,
        }
    )


@dataclass(frozen=True, slots=True)
class OnDemandPlan(_Capacity):
    """On-demand nodes. `desired` lies between `min` and `max`."""

    kind: CapacityKind = field(default="on-demand", init=False)
    min: int
    max: int
    desired: int


@dataclass(frozen=True, slots=True)
class SpotPlan(_Capacity):
    """Spot nodes. With `on_demand_fallback` the group takes on-demand nodes when there is no spot capacity.

    `spot_max_price` is what an hour of a node may cost, in USD.
    """

    kind: CapacityKind = field(default="spot", init=False)
    min: int
    max: int
    desired: int
    on_demand_fallback: bool = False
    spot_max_price: Decimal | None = None


@dataclass(frozen=True, slots=True)
class _AllNodes(_Capacity):
    """Capacity of a fixed size: all of its nodes, or none."""

    nodes: int = field(metadata=ELSEWHERE)

    @property
    def min(self) -> int:
        """All nodes."""
        return self.nodes

    @property
    def max(self) -> int:
        """All nodes."""
        return self.nodes

    @property
    def desired(self) -> int:
        """All nodes."""
        return self.nodes


@dataclass(frozen=True, slots=True)
class ReservationPlan(_AllNodes):
    """An On-Demand Capacity Reservation that the stack makes, in one zone.

    It holds `shared_nodes` more for the principals of `share_with`.
    """

    kind: CapacityKind = field(default="odcr", init=False)
    reservation_zone: str
    shared_nodes: int = 0
    share_with: tuple[str, ...] = ()
    share_outside_organization: bool = False

    @property
    def instances(self) -> int:
        """The instances that are reserved."""
        return self.nodes + self.shared_nodes


@dataclass(frozen=True, slots=True)
class ExistingReservationPlan(_AllNodes):
    """An On-Demand Capacity Reservation from outside of the stack, and the placement group it was made in."""

    kind: CapacityKind = field(default="odcr", init=False)
    reservation_id: str
    reservation_zone: str
    reservation_placement_group: str | None = None


@dataclass(frozen=True, slots=True)
class ReservationGroupPlan(_AllNodes):
    """A resource group of On-Demand Capacity Reservations from outside of the stack, in one or more of
    `zones`, and the placement group that those for these nodes were made in."""

    kind: CapacityKind = field(default="odcr", init=False)
    reservation_group: str
    zones: tuple[str, ...] = field(metadata=ELSEWHERE)
    reservation_placement_group: str | None = None

    @property
    def reservation_zone(self) -> str | None:
        """The zone of the nodes where there is no other."""
        return self.zones[0] if len(self.zones) == 1 else None


@dataclass(frozen=True, slots=True)
class CapacityBlockPlan(_AllNodes):
    """A Capacity Block that the stack buys: the offering decides in which of `zones`.

    `start` is the fleet file's own text ("in 14 d" or an ISO date): it is resolved once, when the
    block is bought, and kept in the state.
    """

    kind: CapacityKind = field(default="capacity-block", init=False)
    zones: tuple[str, ...] = field(metadata=ELSEWHERE)
    start: str
    duration: timedelta = field(metadata=ELSEWHERE)
    extensions: tuple[timedelta, ...] = field(default=(), metadata=ELSEWHERE)

    @property
    def reservation_zone(self) -> str | None:
        """The zone of the block where there is no other."""
        return self.zones[0] if len(self.zones) == 1 else None

    @property
    def duration_hours(self) -> float:
        """The length of the block in hours, without its extensions."""
        return self.duration / timedelta(hours=1)

    @property
    def extension_hours(self) -> list[float]:
        """The lengths of its extensions in hours."""
        return [each / timedelta(hours=1) for each in self.extensions]


@dataclass(frozen=True, slots=True)
class ExistingBlockPlan(_AllNodes):
    """A Capacity Block from outside of the stack. Only the fleet file can declare its `start` and
    `duration`."""

    kind: CapacityKind = field(default="capacity-block", init=False)
    reservation_id: str
    reservation_zone: str
    start: str | None = None
    duration: timedelta | None = field(default=None, metadata=ELSEWHERE)
    extensions: tuple[timedelta, ...] = field(default=(), metadata=ELSEWHERE)

    @property
    def duration_hours(self) -> float | None:
        """The length of the block in hours, without its extensions."""
        return None if self.duration is None else self.duration / timedelta(hours=1)

    @property
    def extension_hours(self) -> list[float]:
        """The lengths of its extensions in hours."""
        return [each / timedelta(hours=1) for each in self.extensions]


CapacityPlan = (
    OnDemandPlan
    | SpotPlan
    | ReservationPlan
    | ExistingReservationPlan
    | ReservationGroupPlan
    | CapacityBlockPlan
    | ExistingBlockPlan
)
