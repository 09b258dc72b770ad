"""The effect of every field of the fleet file, cloud and racks together."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.changes.change import FieldChange
from gpufleet.changes.table_fleet import FLEET
from gpufleet.changes.table_groups import NODE_GROUPS
from gpufleet.changes.table_sites import SITES
from gpufleet.changes.table_storage import STORAGE

CLOUD: Mapping[str, tuple[FieldChange, ...]] = {**FLEET, **SITES, **NODE_GROUPS, **STORAGE}
"""Path of a field -> the ways to change it, for every field outside racks."""

RACK = "onprem[]"

COSTS_ONLY = ("onprem[].power", "onprem[].ownership", "onprem[].running_costs")
"""Fields of racks that only affect costs: `configure` applies nothing to the hosts."""


def is_rack(path: str) -> bool:
    """Return whether a field belongs to a rack site."""
    return path == RACK or path.startswith(f"{RACK}.")


SERVERS = "cloud[].slurm.servers"

_OF_HOSTS = tuple(
    f"{SERVERS}.{name}"
    for name in (
        "teams[]",
        "groups[]",
        "users[]",
        "qos[]",
        "preemption",
        "billing",
        "package_mirror",
        "backups",
    )
)


def is_server_setting(path: str) -> bool:
    """Return whether a field of a cloud site is applied to the hosts of its Slurm, and to nothing in AWS."""
    return any(path == each or path.startswith(f"{each}.") for each in _OF_HOSTS)


def affects_costs_only(path: str) -> bool:
    """Return whether a field of a rack site changes only its computed cost."""
    return any(path == each or path.startswith(f"{each}.") for each in COSTS_ONLY)
