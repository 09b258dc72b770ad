"""Capacity Blocks that are already bought, from a stack's state or the fleet file before a change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.checks.rules import BoughtBlock
from gpufleet.kinds import EXTENSION_SUFFIX
from gpufleet.resources.types import BLOCK_EXTENSION, BLOCK_OFFERING, CAPACITY_BLOCK
from gpufleet.spec.models import CapacityBlock, FleetSpec


def blocks_of_state(exported: Mapping[str, Any] | None) -> tuple[BoughtBlock, ...]:
    """Return the blocks of a stack's exported state (Pulumi's deployment JSON, version 3); none for None.

    A purchase that an interrupted run left pending counts: the next run determines its result.
    """
    deployment = (exported or {}).get("deployment") or {}
    resources = [each for each in deployment.get("resources") or () if not each.get("delete")]
    pending = [each.get("resource") or {} for each in deployment.get("pending_operations") or ()]
    paid = {_name(each) for each in [*resources, *pending] if each.get("type") == CAPACITY_BLOCK}
    offerings = [each for each in resources if each.get("type") == BLOCK_OFFERING and _name(each) in paid]
    extensions = [each for each in resources if each.get("type") == BLOCK_EXTENSION]
    return tuple(_block(_name(each), each, extensions) for each in offerings)


def _name(resource: Mapping[str, Any]) -> str:
    return str(resource.get("urn") or "").rpartition("::")[2]


def _block(name: str, offering: Mapping[str, Any], extensions: Sequence[Mapping[str, Any]]) -> BoughtBlock:
    # Numbers are floating point in Pulumi's protocol.
    inputs = offering.get("inputs") or {}
    ends = [
        dt.datetime.fromisoformat(end)
        for each in (offering, *(one for one in extensions if _name(one).startswith(name + EXTENSION_SUFFIX)))
        if isinstance(end := (each.get("outputs") or {}).get("end_date"), str)
    ]
    return BoughtBlock(
        name=name,
        start=str(inputs.get("start")),
        nodes=int(inputs.get("count") or 0),
        duration=dt.timedelta(hours=float(inputs.get("duration_hours") or 0)),
        instance_type=str(inputs.get("instance_type")),
        end=max(ends, default=None),
    )


def blocks_of_fleet(spec: FleetSpec) -> Iterator[BoughtBlock]:
    """Yield the blocks of a fleet file. Those in the base of a change are not bought by the change."""
    for site in spec.cloud:
        for group in site.node_groups:
            block = group.capacity.option
            if isinstance(block, CapacityBlock) and block.start is not None and block.duration is not None:
                yield BoughtBlock(
                    name=f"{spec.fleet}-{spec.environment}-{site.site}-{group.name}",
                    start=block.start.text,
                    nodes=block.nodes,
                    duration=block.duration.delta,
                    instance_type=group.instance_types[0],
                )
