"""Variables of the roles `bmc` and `mig`, and what Slurm's roles get of divided GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.plan.management import mig_layout
from gpufleet.plan.rack_models import ManagementPlan
from gpufleet.racks.variables.variable import Context, Variable


def _of(read: Callable[[ManagementPlan], Any]) -> Callable[[Context], Any]:
    """A value that exists on sites with management controllers only."""

    def value(context: Context) -> Any:
        found = context.site.rack.management_settings
        return None if found is None else read(found)

    return value


def _address(context: Context) -> str | None:
    return None if context.site.rack.management_settings is None else context.host.bmc


def _layout(context: Context) -> dict[str, dict[str, int]] | None:
    layouts = context.site.rack.mig
    if layouts is None or context.host.role != "gpu":
        return None
    return mig_layout(layouts, context.host.name, context.site.gpus_per_node)


def _slurm_layout(context: Context) -> dict[str, dict[str, int]] | None:
    """The MIG layout for slurmd, which restarts when it changes."""
    return (_layout(context) or None) if context.site.rack.slurm is not None else None


def _slurm_layouts(context: Context) -> list[dict[str, Any]] | None:
    layouts = context.site.rack.mig
    if context.site.rack.slurm is None or not layouts:
        return None
    return [
        {
            "nodes": list(item.hosts),
            "gpus": list(item.gpus or range(context.site.gpus_per_node)),
            "profiles": dict(item.profiles),
        }
        for item in layouts
    ]


MANAGEMENT_VARIABLES = (
    Variable("bmc", "address", "host", _address),
    Variable("bmc", "protocol", "site", _of(lambda m: m.protocol)),
    Variable("bmc", "port", "site", _of(lambda m: m.port)),
    Variable("bmc", "user", "site", _of(lambda m: m.user)),
    Variable("bmc", "ca", "site", _of(lambda m: m.ca)),
    Variable("bmc", "certificates", "site", _of(lambda m: dict(m.certificates))),
    Variable("bmc", "model", "site", _of(lambda m: m.model)),
    Variable("bmc", "serials", "site", _of(lambda m: dict(m.serials))),
    Variable("bmc", "firmware", "site", _of(lambda m: dict(m.firmware))),
    Variable("bmc", "power_cap_w", "site", _of(lambda m: m.power_cap_w)),
    Variable("bmc", "boot_order", "site", _of(lambda m: list(m.boot_order))),
    Variable("bmc", "bios", "site", _of(lambda m: dict(m.bios))),
    Variable("mig", "layout", "host", _layout),
    Variable("slurm_controller", "mig", "site", _slurm_layouts),
    Variable("slurm_node", "mig", "host", _slurm_layout),
)
