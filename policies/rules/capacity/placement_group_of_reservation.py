"""A reservation and the launches into it use the same placement group."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.capacity._placement import PlacementUse, placements
from gpufleet.policies.rules.capacity._reservations import reservations, uses_block
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, TEMPLATES, declared, launches
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CAPACITY_RESERVATION, INSTANCE, PLACEMENT_GROUP
from gpufleet.spec.models import OnDemandReservation

_RESERVATION = {
    "type": CAPACITY_RESERVATION,
    "name": "reservation",
    "props": {"instanceType": "p5.48xlarge", "instanceCount": 1, "availabilityZone": "us-east-1a"},
}
_INSTANCE = {
    "type": INSTANCE,
    "name": "node",
    "props": {
        "instanceType": "p5.48xlarge",
        "capacityReservationSpecification": {"capacityReservationTarget": {}},
    },
    "depends": {"capacityReservationSpecification": ["reservation"]},
}


@stack_rule(
    "placement-group-of-reservation",
    group="capacity",
    title="Nodes are in the placement group of their reservation",
    why="Capacity reserved outside a placement group cannot be used from inside one, and the other way "
    "round. Nodes start elsewhere or not at all, while the reservation is paid for.",
    fix="Reserve with `placementGroupArn` of the group that the nodes use, or use none for both.",
    severity="high",
    types=(*LAUNCHERS, *TEMPLATES, CAPACITY_RESERVATION),
    fleet_field="cloud",
    passes=Example((_RESERVATION, _INSTANCE)),
    fails=Example(
        (
            _RESERVATION,
            {
                **_INSTANCE,
                "props": {
                    "instanceType": "p5.48xlarge",
                    "capacityReservationSpecification": {"capacityReservationTarget": {}},
                    "placementGroup": "close-together",
                },
            },
        )
    ),
)
def placement_group_of_reservation(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check launches into a reservation; `capacity-block-no-placement-group` checks those into blocks."""
    found = reservations(stack)
    spec = context.shared.spec
    outside = {
        odcr.existing: odcr.placement_group
        for site in (spec.cloud if spec is not None else ())
        for group in site.node_groups
        if isinstance(odcr := group.capacity.option, OnDemandReservation) and odcr.existing
    }
    for launch in launches(stack):
        use = found.use(launch)
        if not use.targeted or uses_block(launch, use):
            continue
        placed = list(placements(stack, launch))
        for held in use.held:
            yield from _compare(stack, declared(held.resource), launch.resource, placed)
        for foreign in use.foreign:
            wanted = outside.get(foreign) if isinstance(foreign, str) else None
            for each in placed:
                if wanted is None or each.name != wanted:
                    yield Violation(
                        f"{each.prop} is {each.resource.show(each.prop)}, and the placement group of the "
                        "reservation is not known",
                        "remove the placement group, or write the reservation's as "
                        "`odcr.placement_group` in the fleet file",
                        urn=each.resource.urn,
                        prop=each.prop,
                        unknown=True,
                    )
            if wanted is not None and not placed:
                yield _outside(launch.resource, str(foreign), wanted)


def _compare(stack: Stack, held: Resource, node: Resource, placed: list[PlacementUse]) -> Iterator[Violation]:
    own = held.get("placementGroupArn")
    groups = {each.urn for each in stack.references(held, "placementGroupArn", types=(PLACEMENT_GROUP,))}
    if own is not None and not placed:
        yield _outside(node, held.name, held.show("placementGroupArn"))
    for each in placed:
        name = each.group.get("arn") if each.group is not None else None
        same = each.group is not None and (each.group.urn in groups or (name == own and isinstance(own, str)))
        if not same:
            yield Violation(
                f"{each.prop} is {each.resource.show(each.prop)}, and {held.name} is reserved in "
                + ("another placement group" if own is not None else "none"),
                "reserve with placementGroupArn of that group, or leave it out of the launch template",
                urn=each.resource.urn,
                prop=each.prop,
                unknown=own is UNKNOWN and not groups,
            )


def _outside(node: Resource, held: str, group: str) -> Violation:
    return Violation(
        f"it has no placement group, and {held} is reserved in {group}",
        "set that group in the launch template's placement.groupName",
        urn=node.urn,
        prop="placement.groupName",
    )
