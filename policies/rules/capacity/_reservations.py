"""Reservations of a stack: what each holds, and which launches and node pools use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from msgspec import Struct

from gpufleet.resources.launch_inputs import Number, number
from gpufleet.resources.launches import Launch, declared, launches
from gpufleet.resources.node_pools import RESERVATION_TERMS, Pool, node_pools
from gpufleet.resources.resource import UNKNOWN, Resource, Unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    BLOCK_OFFERING,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    SHARED_RESOURCE,
    SUBNET,
)

_SPEC = "capacityReservationSpecification"
_TARGET = f"{_SPEC}.capacityReservationTarget"
_SUBNETS = ("subnetIds", "vpcZoneIdentifiers", "subnetId", "launchTemplateConfigs", "computeResources")


class HeldReservation(Struct, frozen=True):
    """A Capacity Block or On-Demand Capacity Reservation of the stack, and what it holds.

    Other accounts may use a `shared` one.
    """

    resource: Resource
    type: str | Unknown
    count: Number
    zones: frozenset[str] | Unknown
    open: bool
    shared: bool = False

    @property
    def block(self) -> bool:
        """Return whether it is a Capacity Block."""
        return self.resource.type == CAPACITY_BLOCK


class ReservationUse(Struct, frozen=True):
    """How one launch uses reservations: those of the stack, and others by id (or UNKNOWN).

    `preference` is its setting for open reservations (`open`, `none`, ...), empty if not set.
    """

    held: tuple[HeldReservation, ...] = ()
    foreign: tuple[str | Unknown, ...] = ()
    preference: str | Unknown = ""

    @property
    def targeted(self) -> bool:
        """Return whether it refers to a reservation."""
        return bool(self.held or self.foreign)


class Reservations:
    """The reservations of one stack and their use."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._shared = {
            each.urn
            for shared in stack.of_type(SHARED_RESOURCE)
            for each in stack.of_type(CAPACITY_RESERVATION)
            if stack.refers(shared, "resourceArn", each, "arn")
        }
        self.held = tuple(self._held(each) for each in stack.of_type(CAPACITY_BLOCK, CAPACITY_RESERVATION))
        self._by_urn = {each.resource.urn: each for each in self.held}
        self._by_id = {value: each for each in self.held if isinstance(value := each.resource.get("id"), str)}
        self._subnets = {
            value: each for each in stack.of_type(SUBNET) if isinstance(value := each.get("id"), str)
        }
        self.launches = launches(stack)
        self.uses = {launch.resource.urn: self._use(launch) for launch in self.launches}
        self.zones = {launch.resource.urn: self._zones(launch) for launch in self.launches}
        self._into: dict[str, list[Launch]] = {}
        for launch in self.launches:
            for each in self.use(launch).held:
                self._into.setdefault(each.resource.urn, []).append(launch)
        self._pools: dict[str, list[Pool]] = {}
        for pool in node_pools(stack):
            for each in self._selected(pool):
                self._pools.setdefault(each.resource.urn, []).append(pool)

    def use(self, launch: Launch) -> ReservationUse:
        """Return how the launch uses reservations."""
        return self.uses[launch.resource.urn]

    def into(self, held: HeldReservation) -> list[Launch]:
        """Return the launches that refer to the reservation."""
        return self._into.get(held.resource.urn, [])

    def pools_into(self, held: HeldReservation) -> list[Pool]:
        """Return the node pools of Karpenter that launch into the reservation."""
        return self._pools.get(held.resource.urn, [])

    def _selected(self, pool: Pool) -> list[HeldReservation]:
        node_class = pool.node_class
        if node_class is None or (pool.capacity_types is not None and "reserved" not in pool.capacity_types):
            return []
        terms = [each for _, each in node_class.items(RESERVATION_TERMS)]
        if not terms:
            return []
        ids = {each.get("id") for each in terms if isinstance(each, Mapping)}
        found = self._stack.references(node_class, "spec", types=(CAPACITY_BLOCK, CAPACITY_RESERVATION))
        urns = {each.urn for each in found}
        return [each for each in self.held if each.resource.urn in urns or each.resource.get("id", "") in ids]

    def falls_into(self, launch: Launch, held: HeldReservation) -> bool:
        """Return whether every instance of the launch matches an open reservation."""
        return (
            held.open
            and not self.use(launch).targeted
            and self.use(launch).preference in ("", "open", "default", "capacity-reservations-first")
            and launch.markets == {"on-demand"}
            and launch.types.names == (held.type,)
            and self.zones[launch.resource.urn] == held.zones
        )

    def _held(self, original: Resource) -> HeldReservation:
        if original.type == CAPACITY_RESERVATION:
            resource = declared(original)
            zone = resource.get("availabilityZone", UNKNOWN)
            return HeldReservation(
                original,
                resource.get("instanceType", UNKNOWN),
                UNKNOWN if resource.ignores("instanceCount") else number(resource.get("instanceCount")),
                UNKNOWN if zone is UNKNOWN else frozenset({str(zone)}),
                resource.get("instanceMatchCriteria", "open") == "open",
                original.urn in self._shared,
            )
        kind, count, zone = (
            original.get("instanceType", UNKNOWN),
            number(original.get("instanceCount")),
            original.get("availabilityZone", UNKNOWN),
        )
        zones: frozenset[str] | Unknown = UNKNOWN if zone is UNKNOWN else frozenset({str(zone)})
        for offering in self._stack.references(original, "capacityBlockOfferingId", types=(BLOCK_OFFERING,)):
            asked = declared(offering)
            kind = asked.get("instance_type", UNKNOWN) if kind is UNKNOWN else kind
            count = number(asked.get("count")) if count is UNKNOWN else count
            wanted = asked.get("zones")
            if zones is UNKNOWN and isinstance(wanted, (list, tuple)) and UNKNOWN not in wanted:
                zones = frozenset(wanted)
        return HeldReservation(original, kind, count, zones, open=False)

    def _use(self, launch: Launch) -> ReservationUse:
        held: dict[str, HeldReservation] = {}
        foreign: list[str | Unknown] = []
        preference: str | Unknown = ""
        for source in (launch.resource, *launch.templates):
            if source.get(_SPEC) is None:
                continue
            named = self._stack.references(source, _SPEC, types=(CAPACITY_BLOCK, CAPACITY_RESERVATION))
            held.update((each.urn, self._by_urn[each.urn]) for each in named)
            preference = source.get(f"{_SPEC}.capacityReservationPreference", preference)
            for value in _targets(source):
                known = self._by_id.get(value) if isinstance(value, str) else None
                if known is not None:
                    held[known.resource.urn] = known
                elif not (value is UNKNOWN and named):
                    foreign.append(value)
        return ReservationUse(tuple(held.values()), tuple(foreign), preference)

    def _zones(self, launch: Launch) -> frozenset[str] | Unknown:
        props = [prop for prop in _SUBNETS if launch.resource.get(prop) is not None]
        subnets = {
            each.urn: each for each in self._stack.references(launch.resource, *props, types=(SUBNET,))
        }
        for prop in props:
            for _, value in launch.resource.items(prop):
                if isinstance(value, str) and value in self._subnets:
                    subnets[self._subnets[value].urn] = self._subnets[value]
        zones = {declared(subnet).get("availabilityZone", UNKNOWN) for subnet in subnets.values()}
        return UNKNOWN if not zones or UNKNOWN in zones else frozenset(zones)


_known: WeakKeyDictionary[Stack, Reservations] = WeakKeyDictionary()


def reservations(stack: Stack) -> Reservations:
    """Return the reservations of a stack, computed once per stack."""
    found = _known.get(stack)
    if found is None:
        found = _known[stack] = Reservations(stack)
    return found


def _targets(source: Resource) -> Iterator[str | Unknown]:
    if source.get(_TARGET) is UNKNOWN:
        yield UNKNOWN
        return
    for prop in (
        "capacityReservationId",
        "capacityReservationIds",
        "capacityReservationResourceGroupArn",
        "capacityReservationResourceGroupArns",
    ):
        for _, value in source.items(f"{_TARGET}.{prop}"):
            yield UNKNOWN if value is UNKNOWN else str(value)


def uses_block(launch: Launch, use: ReservationUse) -> bool:
    """Return whether the launch uses a Capacity Block."""
    return "capacity-block" in launch.markets or any(each.block for each in use.held)
