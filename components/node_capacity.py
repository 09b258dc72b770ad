"""How the nodes of a `NodeGroup` are bought: one class for each kind, with the fields that it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pulumi

from gpufleet.kinds import CapacityKind


@dataclass(frozen=True, kw_only=True)
class OnDemandNodes:
    """On-demand nodes."""

    kind: ClassVar[CapacityKind] = "on-demand"


@dataclass(frozen=True, kw_only=True)
class SpotNodes:
    """Spot nodes. `on_demand_fallback` adds a second group, which buys on-demand and starts at zero.

    `max_price` is what an hour of a node may cost, in USD; the on-demand price without it.
    """

    on_demand_fallback: bool = False
    max_price: str | None = None

    kind: ClassVar[CapacityKind] = "spot"


@dataclass(frozen=True, kw_only=True)
class ReservedNodes:
    """Nodes of an On-Demand Capacity Reservation: they launch into it and nowhere else."""

    reservation_id: pulumi.Input[str]

    kind: ClassVar[CapacityKind] = "odcr"


@dataclass(frozen=True, kw_only=True)
class BlockNodes:
    """Nodes of a Capacity Block: they launch into it and nowhere else, while it runs."""

    reservation_id: pulumi.Input[str]

    kind: ClassVar[CapacityKind] = "capacity-block"


AllNodes = ReservedNodes | BlockNodes
"""Capacity of a fixed size: no node launches in it before another one has left."""

NodeCapacity = OnDemandNodes | SpotNodes | ReservedNodes | BlockNodes
