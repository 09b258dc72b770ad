"""The resources that a change touches, with their owners."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.policy.change import ChangeStep
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.models import ChangedResource
from gpufleet.verdict.sides import Side


def changed_resources(
    steps: Sequence[ChangeStep], locator: Locator, before: Side
) -> tuple[ChangedResource, ...]:
    """Return the steps that change a resource, with its site and owner."""
    fleet = before.fleet
    former = Locator(fleet.spec, fleet.source, (before.stack,)) if fleet is not None else locator
    found: list[ChangedResource] = []
    for step in steps:
        if step.operation == "same":
            continue
        place = (locator if step.after is not None else former).place(step.urn)
        found.append(
            ChangedResource(
                urn=step.urn,
                type=step.resource.type,
                name=step.resource.name,
                operation=step.operation,
                site=place.site,
                owner=place.owner,
                diff=step.diff,
                replace_keys=step.replace_keys,
                protected=step.before is not None and step.before.options.protect,
            )
        )
    return tuple(found)
