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
    """For slurmd: what it has to start anew for."""
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
    Variable("bmc", "address", "str", "host", "Where the node's management controller is reached.", _address),
    Variable("bmc", "protocol", "str", "site", "`redfish` or `ipmi`.", _of(lambda m: m.protocol)),
    Variable("bmc", "port", "int", "site", "Its port.", _of(lambda m: m.port)),
    Variable("bmc", "user", "str", "site", "Who logs in.", _of(lambda m: m.user)),
    Variable("bmc", "ca", "str", "site", "Certificates that sign the controllers'.", _of(lambda m: m.ca)),
    Variable(
        "bmc",
        "certificates",
        "dict",
        "site",
        "SHA-256 of controllers' certificates, by node.",
        _of(lambda m: dict(m.certificates)),
    ),
    Variable("bmc", "model", "str", "site", "The model that they have to report.", _of(lambda m: m.model)),
    Variable("bmc", "serials", "dict", "site", "Serial numbers by node.", _of(lambda m: dict(m.serials))),
    Variable(
        "bmc",
        "firmware",
        "dict",
        "site",
        "Versions that firmware has to have, by component.",
        _of(lambda m: dict(m.firmware)),
    ),
    Variable(
        "bmc", "power_cap_w", "int", "site", "The most that a node may draw.", _of(lambda m: m.power_cap_w)
    ),
    Variable(
        "bmc", "boot_order", "list", "site", "What is booted from first.", _of(lambda m: list(m.boot_order))
    ),
    Variable("bmc", "bios", "dict", "site", "BIOS attributes.", _of(lambda m: dict(m.bios))),
    Variable(
        "mig",
        "layout",
        "dict",
        "host",
        "GPU index -> profile -> how many instances; empty: all GPUs are whole.",
        _layout,
    ),
    Variable(
        "mig",
        "scheduler",
        "str",
        "site",
        "Who places jobs on the node, and has to have drained it.",
        lambda c: c.site.scheduler,
    ),
    Variable(
        "slurm_controller",
        "mig",
        "list",
        "site",
        "`{nodes, gpus, profiles}` of divided GPUs: their instances are GRES types of their own.",
        _slurm_layouts,
    ),
    Variable(
        "slurm_node",
        "mig",
        "dict",
        "host",
        "How the node's GPUs are divided: slurmd starts anew when that changes.",
        _slurm_layout,
    ),
)
