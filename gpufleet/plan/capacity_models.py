"""How the nodes of a group are bought: one class for each way, with the fields that it has and no others.

`min`, `max`, `desired` and `kind` exist in all of them; `match` and `assert_never` tell them apart.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, ClassVar

from msgspec import Struct

from gpufleet.kinds import CapacityKind
from gpufleet.plan.json import ELSEWHERE


class _Capacity(Struct, frozen=True):
    """A way to buy nodes: the JSON has the fields of all ways for each of them."""

    json_defaults = MappingProxyType[str, object](
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


class OnDemandPlan(_Capacity, frozen=True):
    """On-demand nodes. `desired` lies between `min` and `max`."""

    kind: ClassVar[CapacityKind] = "on-demand"
    min: int
    max: int
    desired: int


class SpotPlan(_Capacity, frozen=True):
    """Spot nodes. With `on_demand_fallback` the group takes on-demand nodes when there is no spot capacity.

    `spot_max_price` is what an hour of a node may cost, in USD.
    """

    kind: ClassVar[CapacityKind] = "spot"
    min: int
    max: int
    desired: int
    on_demand_fallback: bool = False
    spot_max_price: Decimal | None = None


class _AllNodes(_Capacity, frozen=True):
    """Capacity of a fixed size: all of its nodes, or none."""

    nodes: Annotated[int, ELSEWHERE]

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


class ReservationPlan(_AllNodes, frozen=True):
    """An On-Demand Capacity Reservation that the stack makes, in one zone.

    It holds `shared_nodes` more for the principals of `share_with`.
    """

    kind: ClassVar[CapacityKind] = "odcr"
    reservation_zone: str
    shared_nodes: int = 0
    share_with: tuple[str, ...] = ()
    share_outside_organization: bool = False

    @property
    def instances(self) -> int:
        """The instances that are reserved."""
        return self.nodes + self.shared_nodes


class ExistingReservationPlan(_AllNodes, frozen=True):
    """An On-Demand Capacity Reservation from outside of the stack, and the placement group it was made in."""

    kind: ClassVar[CapacityKind] = "odcr"
    reservation_id: str
    reservation_zone: str
    reservation_placement_group: str | None = None


class ReservationGroupPlan(_AllNodes, frozen=True):
    """A resource group of On-Demand Capacity Reservations from outside of the stack, in one or more of
    `zones`, and the placement group that those for these nodes were made in."""

    kind: ClassVar[CapacityKind] = "odcr"
    reservation_group: str
    zones: Annotated[tuple[str, ...], ELSEWHERE]
    reservation_placement_group: str | None = None

    @property
    def reservation_zone(self) -> str | None:
        """The zone of the nodes where there is no other."""
        return self.zones[0] if len(self.zones) == 1 else None


class CapacityBlockPlan(_AllNodes, frozen=True):
    """A Capacity Block that the stack buys: the offering decides in which of `zones`.

    `start` is the fleet file's own text ("in 14 d" or an ISO date): it is resolved once, when the
    block is bought, and kept in the state.
    """

    kind: ClassVar[CapacityKind] = "capacity-block"
    zones: Annotated[tuple[str, ...], ELSEWHERE]
    start: str
    duration: Annotated[timedelta, ELSEWHERE]
    extensions: Annotated[tuple[timedelta, ...], ELSEWHERE] = ()

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


class ExistingBlockPlan(_AllNodes, frozen=True):
    """A Capacity Block from outside of the stack. Only the fleet file can declare its `start` and
    `duration`."""

    kind: ClassVar[CapacityKind] = "capacity-block"
    reservation_id: str
    reservation_zone: str
    start: str | None = None
    duration: Annotated[timedelta | None, ELSEWHERE] = None
    extensions: Annotated[tuple[timedelta, ...], ELSEWHERE] = ()

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
