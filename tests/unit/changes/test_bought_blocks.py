"""Which Capacity Blocks are bought already."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from gpufleet.changes.bought_blocks import blocks_of_fleet, blocks_of_state
from gpufleet.resources.types import BLOCK_EXTENSION, BLOCK_OFFERING, CAPACITY_BLOCK
from gpufleet.spec.load import load_fleet

ROOT = Path(__file__).resolve().parents[3]
NAME = "atlas-prod-use1-pretrain"


def resource(kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "urn": f"urn:pulumi:prod::gpufleet::gpufleet:capacity:CapacityBlock${kind}::{NAME}",
        "type": kind,
    } | fields


OFFERING = resource(
    BLOCK_OFFERING,
    inputs={
        "start": "2031-01-01",
        "count": 64.0,
        "duration_hours": 336.0,
        "instance_type": "p5.48xlarge",
        "zones": ["us-east-1a"],
    },
    outputs={"end_date": "2031-01-15T11:30:00Z"},
)
BLOCK = resource(CAPACITY_BLOCK)


def state(*resources: dict[str, Any], pending: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    operations = [{"type": "creating", "resource": each} for each in pending]
    return {"version": 3, "deployment": {"resources": list(resources), "pending_operations": operations}}


def test_block_in_the_state_has_its_request_and_its_end() -> None:
    (block,) = blocks_of_state(state(OFFERING, BLOCK))
    assert (block.name, block.start, block.nodes) == (NAME, "2031-01-01", 64)
    assert (block.duration, block.instance_type) == (dt.timedelta(days=14), "p5.48xlarge")
    assert block.end == dt.datetime(2031, 1, 15, 11, 30, tzinfo=dt.UTC)


def test_offering_that_was_not_bought_is_not_a_block() -> None:
    assert blocks_of_state(None) == ()
    assert blocks_of_state(state(OFFERING)) == ()
    assert blocks_of_state(state(OFFERING, BLOCK | {"delete": True})) == ()


def test_pending_purchase_of_a_crashed_run_counts_as_bought() -> None:
    assert len(blocks_of_state(state(OFFERING, pending=(BLOCK,)))) == 1


def test_blocks_of_a_fleet_file_have_their_resource_names() -> None:
    (block,) = blocks_of_fleet(load_fleet("prod", root=ROOT).spec)
    assert block.name == NAME
    assert (block.start, block.nodes, block.duration) == ("in 21 d", 64, dt.timedelta(days=14))


def extension(number: int, end: str | None, name: str = NAME) -> dict[str, Any]:
    made = resource(BLOCK_EXTENSION, outputs={"end_date": end})
    return made | {"urn": f"{made['urn'].rpartition('::')[0]}::{name}-extension-{number}"}


def test_extended_block_ends_with_its_last_extension() -> None:
    extensions = (
        extension(1, "2031-01-22T11:30:00Z"),
        extension(2, "2031-01-29T11:30:00Z"),
        extension(3, None),
    )
    (block,) = blocks_of_state(state(OFFERING, BLOCK, *extensions))
    assert block.end == dt.datetime(2031, 1, 29, 11, 30, tzinfo=dt.UTC)
    # What was asked for at the purchase stays.
    assert block.duration == dt.timedelta(days=14)


def test_extension_of_another_block_does_not_count() -> None:
    other = extension(1, "2031-02-22T11:30:00Z", "atlas-prod-use1-other")
    (block,) = blocks_of_state(state(OFFERING, BLOCK, other))
    assert block.end == dt.datetime(2031, 1, 15, 11, 30, tzinfo=dt.UTC)
