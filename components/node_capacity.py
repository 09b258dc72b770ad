"""How the nodes of a `NodeGroup` are bought: one class per kind."""

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
    """Spot nodes. `on_demand_fallback` adds a second group, which buys on-demand and starts at 0 nodes.

    `max_price` is the maximum price of a node in USD per hour; by default the on-demand price.
    """

    on_demand_fallback: bool = False
    max_price: str | None = None

    kind: ClassVar[CapacityKind] = "spot"


@dataclass(frozen=True, kw_only=True)
class ReservedNodes:
    """Nodes that launch only into an On-Demand Capacity Reservation."""

    reservation_id: pulumi.Input[str]

    kind: ClassVar[CapacityKind] = "odcr"


@dataclass(frozen=True, kw_only=True)
class ReservationGroupNodes:
    """Nodes that launch only into the On-Demand Capacity Reservations of a resource group, those that fit
    their type, zone and placement group."""

    resource_group_arn: pulumi.Input[str]

    kind: ClassVar[CapacityKind] = "odcr"


@dataclass(frozen=True, kw_only=True)
class BlockNodes:
    """Nodes that launch only into a Capacity Block, while it runs."""

    reservation_id: pulumi.Input[str]

    kind: ClassVar[CapacityKind] = "capacity-block"


AllNodes = ReservedNodes | ReservationGroupNodes | BlockNodes
"""Capacity of a fixed size: a node must leave before another one can launch."""

NodeCapacity = OnDemandNodes | SpotNodes | ReservedNodes | ReservationGroupNodes | BlockNodes
