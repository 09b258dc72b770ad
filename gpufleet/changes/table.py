"""The effect of every field of the fleet file, cloud and racks together."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.changes.change import Change
from gpufleet.changes.table_fleet import FLEET
from gpufleet.changes.table_groups import NODE_GROUPS
from gpufleet.changes.table_sites import SITES
from gpufleet.changes.table_storage import STORAGE

CLOUD: Mapping[str, tuple[Change, ...]] = {**FLEET, **SITES, **NODE_GROUPS, **STORAGE}
"""Path of a field -> the ways to change it; of every field that is not a rack's."""

RACK = "onprem[]"

COSTS_ALONE = ("onprem[].power", "onprem[].ownership")
"""Fields of racks that are there to be counted with: no host hears of them."""


def is_rack(path: str) -> bool:
    """Whether a field is a rack site's."""
    return path == RACK or path.startswith(f"{RACK}.")


def counts_alone(path: str) -> bool:
    """Whether a field of a rack site only changes what it is taken to cost."""
    return any(path == each or path.startswith(f"{each}.") for each in COSTS_ALONE)
