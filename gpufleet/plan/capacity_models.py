"""How the nodes of a group are bought: one class for each way, with the fields that it has and no others.

`min`, `max`, `desired` and `kind` exist in all of them; `match` and `assert_never` tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import ClassVar

from gpufleet.capacity_kind import CapacityKind


@dataclass(frozen=True, slots=True)
class OnDemandPlan:
    """On-demand nodes. `desired` lies between `min` and `max`."""

    min: int
    max: int
    desired: int

    kind: ClassVar[CapacityKind] = "on-demand"


@dataclass(frozen=True, slots=True)
class SpotPlan:
    """Spot nodes. With `on_demand_fallback` the group takes on-demand nodes when there is no spot capacity.

    `max_price` is what an hour of a node may cost, in USD.
    """

    min: int
    max: int
    desired: int
    on_demand_fallback: bool = False
    max_price: Decimal | None = None

    kind: ClassVar[CapacityKind] = "spot"


@dataclass(frozen=True, slots=True)
class _AllNodes:
    """Capacity of a fixed size: all of its nodes, or none."""

    nodes: int

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
    """An On-Demand Capacity Reservation that the stack makes, in one zone."""

    zone: str

    kind: ClassVar[CapacityKind] = "odcr"


@dataclass(frozen=True, slots=True)
class ExistingReservationPlan(_AllNodes):
    """An On-Demand Capacity Reservation from outside of the stack, and the placement group it was made in."""

    id: str
    zone: str
    placement_group: str | None = None

    kind: ClassVar[CapacityKind] = "odcr"


@dataclass(frozen=True, slots=True)
class CapacityBlockPlan(_AllNodes):
    """A Capacity Block that the stack buys: the offering decides in which of `zones`.

    `start` is the fleet file's own text ("in 14 d" or an ISO date): it is resolved once, when the
    block is bought, and kept in the state.
    """

    zones: tuple[str, ...]
    start: str
    duration: timedelta

    kind: ClassVar[CapacityKind] = "capacity-block"


@dataclass(frozen=True, slots=True)
class ExistingBlockPlan(_AllNodes):
    """A Capacity Block from outside of the stack. Only the fleet file may tell its `start` and `duration`."""

    id: str
    zone: str
    start: str | None = None
    duration: timedelta | None = None

    kind: ClassVar[CapacityKind] = "capacity-block"


CapacityPlan = (
    OnDemandPlan
    | SpotPlan
    | ReservationPlan
    | ExistingReservationPlan
    | CapacityBlockPlan
    | ExistingBlockPlan
)
