"""Reserved capacity, which is paid for either way, is used before on-demand is bought."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog import Catalog
from gpufleet.plan.karpenter import node_size
from gpufleet.policies.rules.capacity._reservations import HeldReservation, Reservations, reservations
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launch_inputs import Number
from gpufleet.resources.launches import LAUNCHERS, TEMPLATES, Launch
from gpufleet.resources.node_pools import POOL_REQUIREMENTS, Pool
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CAPACITY_BLOCK, CAPACITY_RESERVATION, INSTANCE, NODE_CLASS, NODE_POOL

_PREFERENCE = "capacityReservationSpecification.capacityReservationPreference"
_RESERVATION = {
    "type": CAPACITY_RESERVATION,
    "name": "reservation",
    "props": {
        "instanceType": "p5.4xlarge",
        "instanceCount": 1,
        "availabilityZone": "us-east-1a",
        "instanceMatchCriteria": "targeted",
    },
}


@stack_rule(
    "reservations-used-first",
    group="capacity",
    title="Reserved capacity is used before on-demand is bought",
    why="A reservation is paid for, used or not. A node group of the same type that does not target it "
    "pays for the same nodes a second time.",
    fix="Let the node group's launch template target the reservation, or release the reservation.",
    severity="high",
    types=(*LAUNCHERS, *TEMPLATES, CAPACITY_BLOCK, CAPACITY_RESERVATION, NODE_POOL, NODE_CLASS),
    fleet_field="cloud",
    passes=Example(
        (
            _RESERVATION,
            {
                "type": INSTANCE,
                "name": "node",
                "props": {
                    "instanceType": "p5.4xlarge",
                    "capacityReservationSpecification": {"capacityReservationTarget": {}},
                },
                "depends": {"capacityReservationSpecification": ["reservation"]},
            },
        )
    ),
    fails=Example(
        (_RESERVATION, {"type": INSTANCE, "name": "node", "props": {"instanceType": "p5.4xlarge"}})
    ),
)
def reservations_used_first(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Report unused reservations, launches that do not use them, and launches that do not fit."""
    found = reservations(stack)
    spare: dict[str, list[HeldReservation]] = {}
    for held in found.held:
        into, pools = found.into(held), found.pools_into(held)
        open_to = held.open and any(found.falls_into(each, held) for each in found.launches)
        nodes = _most(held, into, pools, context.shared.catalog)
        counted = not held.block and not held.shared
        if counted and held.type is not UNKNOWN and _has_room(held, nodes, used=bool(into or pools)):
            spare.setdefault(held.type, []).append(held)
        if not into and not pools and not open_to:
            yield Violation(
                f"nothing in this stack launches into these {_what(held)}, and they are paid for",
                "target it from a node group (`reserved:` in the fleet file), or remove it",
                urn=held.resource.urn,
            )
        for launch in into:
            yield from _fits(held, launch, found)
        for pool in pools:
            yield from _pool_fits(held, pool)
        if held.count is not UNKNOWN and nodes is not UNKNOWN and nodes > held.count:
            users = ", ".join(
                [*(each.resource.name for each in into), *(each.resource.name for each in pools)]
            )
            yield Violation(
                f"{users} may launch {nodes} instances into it, and it holds {held.count}: the remaining ones"
                " never start",
                f"reserve {nodes}, or lower the maximum to {held.count}",
                urn=held.resource.urn,
                prop="" if held.block else "instanceCount",
            )
    for launch in found.launches:
        yield from _passed_by(launch, found, spare)


def _has_room(held: HeldReservation, nodes: Number, *, used: bool) -> bool:
    if held.count is UNKNOWN or nodes is UNKNOWN:
        return not used
    return nodes < held.count


def _most(held: HeldReservation, into: list[Launch], pools: list[Pool], catalog: Catalog) -> Number:
    """Return the most nodes that launches and pools may start in a reservation."""
    known = catalog.instances.get(held.type) if held.type is not UNKNOWN else None
    taken = [launch.nodes(1) for launch in into]
    taken += [UNKNOWN if known is None else pool.most(node_size(known)) for pool in pools]
    found = [each for each in taken if each is not UNKNOWN]
    return sum(found) if len(found) == len(taken) else UNKNOWN


def _what(held: HeldReservation) -> str:
    count = "?" if held.count is UNKNOWN else held.count
    kind = "a type not known yet" if held.type is UNKNOWN else held.type
    return f"{count} x {kind}"


def _fits(held: HeldReservation, launch: Launch, found: Reservations) -> Iterator[Violation]:
    resource = launch.resource
    others = [name for name in launch.types.names if name != held.type]
    if others and held.type is not UNKNOWN:
        yield Violation(
            f"it launches {', '.join(others)} into a reservation of {held.type}, and these never start",
            f"launch only {held.type}",
            urn=resource.urn,
            prop="instanceTypes",
        )
    if "spot" in launch.markets:
        yield Violation(
            "it buys spot instances, which do not use a reservation",
            "use on-demand: the reservation guarantees the capacity",
            urn=resource.urn,
        )
    zones = found.zones[resource.urn]
    if zones is not UNKNOWN and held.zones is not UNKNOWN and not zones & held.zones:
        yield Violation(
            f"its subnets are in {', '.join(sorted(zones))}, and the reservation is in "
            f"{', '.join(sorted(held.zones))}",
            "use a subnet of the reservation's zone",
            urn=resource.urn,
            prop="subnetIds",
        )


def _pool_fits(held: HeldReservation, pool: Pool) -> Iterator[Violation]:
    others = [name for name in pool.types or () if name != held.type]
    if others and held.type is not UNKNOWN:
        yield Violation(
            f"it launches {', '.join(others)} into a reservation of {held.type}, and these never start",
            f"list only {held.type}",
            urn=pool.resource.urn,
            prop=POOL_REQUIREMENTS,
        )
    if pool.zones is not None and held.zones is not UNKNOWN and not held.zones & set(pool.zones):
        yield Violation(
            f"its zones are {', '.join(sorted(pool.zones))}, and the reservation is in "
            f"{', '.join(sorted(held.zones))}",
            "list the reservation's zone",
            urn=pool.resource.urn,
            prop=POOL_REQUIREMENTS,
        )


def _passed_by(
    launch: Launch, found: Reservations, spare: dict[str, list[HeldReservation]]
) -> Iterator[Violation]:
    use, zones = found.use(launch), found.zones[launch.resource.urn]
    same = [
        held
        for name in launch.types.names
        for held in spare.get(name, ())
        if zones is UNKNOWN or held.zones is UNKNOWN or zones & held.zones
    ]
    if not same or use.targeted or launch.markets == {"spot"}:
        return
    names = ", ".join(f"{held.resource.name} ({_what(held)})" for held in same)
    if use.preference == "none" or use.preference is UNKNOWN:
        yield Violation(
            f"capacityReservationPreference is "
            f"{'not known yet' if use.preference is UNKNOWN else 'none'!r}, and {names} is reserved",
            "target the reservation, or remove the preference",
            urn=launch.resource.urn,
            prop=_PREFERENCE,
            unknown=use.preference is UNKNOWN,
        )
    elif not any(held.open for held in same):
        yield Violation(
            f"it buys {', '.join(launch.types.names)} on demand, and {names} is reserved and has room",
            "set the reservation in capacityReservationSpecification of its launch template",
            urn=launch.resource.urn,
            prop="capacityReservationSpecification",
            unknown=zones is UNKNOWN,
        )
