"""How nodes are bought: on demand, on spot, or reserved by a Capacity Block or an ODCR.

The fleet file nests the options (`reserved: {odcr: ...}`); everything else reads `Capacity.option`,
one `PurchasingOption`, and matches its class.
"""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Field

from gpufleet.kinds import CapacityKind
from gpufleet.spec.base import Model
from gpufleet.spec.fields import (
    Code,
    NodeCount,
    PlacementGroupName,
    ReservationGroupArn,
    SharePrincipal,
    Switch,
)
from gpufleet.spec.quantity import Duration, HourlyPrice, Moment

_MIN = "Nodes that are kept at all times."
_MAX = "Nodes at most."
_DESIRED = "Nodes to start with; `min` if it is left out."


class OnDemand(Model):
    """On-demand nodes, scaled between `min` and `max`; starts at `desired` (default `min`)."""

    kind: ClassVar[CapacityKind] = "on-demand"
    path: ClassVar[tuple[str, ...]] = ("on_demand",)

    min: Annotated[NodeCount, Field(description=_MIN, examples=[0])] = 0
    max: Annotated[NodeCount, Field(description=_MAX, examples=[8])]
    desired: Annotated[NodeCount | None, Field(description=_DESIRED, examples=[2])] = None


class Spot(Model):
    """Spot nodes. `on_shortage` says, in order, what to try when there is no capacity."""

    kind: ClassVar[CapacityKind] = "spot"
    path: ClassVar[tuple[str, ...]] = ("spot",)

    min: Annotated[NodeCount, Field(description=_MIN, examples=[0])] = 0
    max: Annotated[NodeCount, Field(description=_MAX, examples=[16])]
    desired: Annotated[NodeCount | None, Field(description=_DESIRED, examples=[4])] = None
    on_shortage: Annotated[
        tuple[Literal["other-zone", "other-type", "on-demand", "wait"], ...],
        Field(
            description="What to try, in order, when there is no spot capacity.",
            examples=[["other-zone", "other-type", "wait"]],
        ),
    ] = ("other-zone",)
    max_price: Annotated[
        HourlyPrice | None,
        Field(
            description="What an hour of a spot node may cost (Slurm sites); the on-demand price if left out."
        ),
    ] = None

    @property
    def falls_back(self) -> bool:
        """Whether on-demand nodes are taken when there is no spot capacity."""
        return "on-demand" in self.on_shortage


class CapacityBlock(Model):
    """EC2 Capacity Block for ML: `nodes` of one type, in one zone, for a fixed time, paid upfront.

    Without `id` the earliest offering at or after `start` is bought, once, and kept in the stack's
    state. With `id` an existing block is used; `instance_type` and `zone` then say what it holds.
    A block has all its nodes or none, so `min` and `max`, if written, equal `nodes`.
    """

    kind: ClassVar[CapacityKind] = "capacity-block"
    path: ClassVar[tuple[str, ...]] = ("reserved", "capacity_block")

    nodes: Annotated[NodeCount, Field(description="Nodes of the block.", examples=[8])]
    duration: Annotated[
        Duration | None, Field(description="How long: whole days up to 14 d, then weeks up to 182 d.")
    ] = None
    start: Annotated[
        Moment | None, Field(description="The earliest start; settled once, when the block is bought.")
    ] = None
    min: Annotated[
        NodeCount | None, Field(description="Equals `nodes`, if it is written at all.", examples=[8])
    ] = None
    max: Annotated[
        NodeCount | None, Field(description="Equals `nodes`, if it is written at all.", examples=[8])
    ] = None
    id: Annotated[
        Code | None,
        Field(
            description="An existing block (cr-...), instead of buying one.",
            examples=["cr-0123456789abcdef0"],
        ),
    ] = None
    instance_type: Annotated[
        Code | None, Field(description="What an existing block holds.", examples=["p5.48xlarge"])
    ] = None
    zone: Annotated[
        Code | None, Field(description="The zone of an existing block.", examples=["us-east-1a"])
    ] = None
    instances: Annotated[
        NodeCount | None, Field(description="How many instances an existing block holds.", examples=[8])
    ] = None
    extensions: Annotated[
        tuple[Duration, ...],
        Field(
            description="What the block is extended by, each entry bought once and paid upfront, in order:"
            " whole days up to 14 d, then weeks. All that were bought stay listed.",
            examples=[["7 d"]],
        ),
    ] = ()
    remind_before: Annotated[
        Duration, Field(description="How long before the end of the block its end is a warning.")
    ] = Duration(timedelta(days=3))


class OnDemandReservation(Model):
    """On-Demand Capacity Reservation (ODCR): created here, or an existing one by `id`, or a `group` of them.

    With `id` or `group`, `instance_type`, `zone` and `instances` say what the reservation holds, or
    those of the group that the nodes use, and `placement_group` names the group it was created in, if any
    (a group forced onto a reservation that was made outside of it cannot use the reserved capacity).
    """

    kind: ClassVar[CapacityKind] = "odcr"
    path: ClassVar[tuple[str, ...]] = ("reserved", "odcr")

    nodes: Annotated[
        NodeCount, Field(description="Nodes of the group; one made here is paid used or not.", examples=[4])
    ]
    id: Annotated[
        Code | None,
        Field(
            description="An existing reservation (cr-...), instead of a new one.",
            examples=["cr-0123456789abcdef0"],
        ),
    ] = None
    group: Annotated[
        ReservationGroupArn | None,
        Field(
            description="ARN of an existing resource group of reservations, instead of a new one: nodes"
            " launch only into those of its reservations that fit their type and zone.",
            examples=["arn:aws:resource-groups:us-east-1:111122223333:group/training"],
        ),
    ] = None
    instance_type: Annotated[
        Code | None, Field(description="What an existing reservation holds.", examples=["p5.48xlarge"])
    ] = None
    zone: Annotated[
        Code | None, Field(description="The zone of an existing reservation.", examples=["us-east-1a"])
    ] = None
    instances: Annotated[
        NodeCount | None, Field(description="How many instances an existing reservation holds.", examples=[4])
    ] = None
    placement_group: Annotated[
        PlacementGroupName | None,
        Field(
            description="The placement group that an existing reservation was made in.", examples=["training"]
        ),
    ] = None
    share_with: Annotated[
        tuple[SharePrincipal, ...],
        Field(
            description="Accounts, organizational units or an organization that may launch into a reservation"
            " made here, by a resource share of AWS RAM.",
            examples=[["222233334444", "arn:aws:organizations::111122223333:organization/o-exampleorgid"]],
        ),
    ] = ()
    shared_nodes: Annotated[
        NodeCount,
        Field(
            description="Instances that are reserved besides `nodes`, for those in `share_with`. AWS keeps"
            " nothing apart: whoever launches first has the instances.",
            examples=[4],
        ),
    ] = 0
    share_outside_organization: Annotated[
        Switch,
        Field(
            description="Whether `share_with` may have accounts outside of the organization; AWS sends them"
            " an invitation.",
            examples=[True],
        ),
    ] = False

    @property
    def existing(self) -> str | None:
        """The reservation, or the group of them, that exists already; None for one that is created."""
        return self.id if self.id is not None else self.group


PurchasingOption = OnDemand | Spot | CapacityBlock | OnDemandReservation
"""What `Capacity.option` returns. `kind` is its name elsewhere, `path` where it stands below `capacity`."""


class Reserved(Model):
    """Reserved capacity: exactly one of a Capacity Block and an On-Demand Capacity Reservation."""

    exactly_one_of = ("capacity_block", "odcr")

    capacity_block: Annotated[
        CapacityBlock | None, Field(description="Nodes for a fixed time, paid at once.")
    ] = None
    odcr: Annotated[
        OnDemandReservation | None, Field(description="Nodes kept ready at the on-demand price.")
    ] = None


class Capacity(Model):
    """How nodes are bought: exactly one of the three."""

    exactly_one_of = ("on_demand", "spot", "reserved")

    on_demand: Annotated[
        OnDemand | None, Field(description="At the list price, whenever there is capacity.")
    ] = None
    spot: Annotated[
        Spot | None, Field(description="At the spot price, taken back at two minutes' notice.")
    ] = None
    reserved: Annotated[
        Reserved | None, Field(description="Capacity Block or On-Demand Capacity Reservation.")
    ] = None

    @property
    def option(self) -> PurchasingOption:
        """The option that is given."""
        chosen = self.chosen()
        option: PurchasingOption = chosen.chosen() if isinstance(chosen, Reserved) else chosen
        return option

    @property
    def most_nodes(self) -> int:
        """Nodes at most."""
        match self.option:
            case OnDemand() | Spot() as scaled:
                return scaled.max
            case CapacityBlock() | OnDemandReservation() as held:
                return held.nodes
            case other:
                assert_never(other)
