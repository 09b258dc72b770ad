"""Management controllers of a rack site, and how its GPUs are divided."""

from __future__ import annotations

from gpufleet.plan.rack_models import ManagementPlan, MigPlan
from gpufleet.spec.models import OnPremSite

PORTS = {"redfish": 443, "ipmi": 623}
"""HTTPS (DSP0266), and RMCP+ (IPMI 2.0)."""


def reported_model(system: str) -> str | None:
    """Return the model that a controller of the system type reports, None if it depends on the vendor.

    NVIDIA's servers report the type. An HGX is a board in another vendor's server.
    """
    return system.replace("-", "").upper() if system.startswith("dgx-") else None


def plan_management(site: OnPremSite) -> ManagementPlan | None:
    """Return the access to controllers, None if the site does not declare `management`."""
    found = site.management
    if found is None:
        return None
    return ManagementPlan(
        protocol=found.protocol,
        port=found.port or PORTS[found.protocol],
        user=found.user,
        ca=found.ca,
        certificates=found.certificates,
        model=found.model or reported_model(site.system),
        serials=found.serials,
        firmware=found.firmware,
        power_cap_w=None if found.power_cap is None else int(found.power_cap.kw * 1000),
        boot_order=tuple(found.boot_order),
        bios=found.bios,
    )


def plan_mig(site: OnPremSite) -> tuple[MigPlan, ...] | None:
    """Return the MIG layouts, None if the site does not declare `mig`."""
    if site.mig is None:
        return None
    return tuple(MigPlan(item.nodes.hosts, item.gpus, item.profiles) for item in site.mig)


def mig_layout(layouts: tuple[MigPlan, ...], node: str, gpus: int) -> dict[str, dict[str, int]]:
    """GPU -> profile -> how many instances, of one node with `gpus` GPUs; whole ones are left out."""
    found = {
        gpu: dict(item.profiles) for item in layouts if node in item.hosts for gpu in item.gpus or range(gpus)
    }
    return {str(gpu): found[gpu] for gpu in sorted(found)}
