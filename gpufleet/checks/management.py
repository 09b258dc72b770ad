"""Management controllers: declared, identifiable, and with settings that their protocol supports."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed, nearest
from gpufleet.plan.management import reported_model


@check("management-identity")
def management_identity(fleet: Fleet) -> Iterator[FieldFinding]:
    """Settings are applied only to a controller with the expected model or serial number. Otherwise a wrong
    cable or a duplicate address could cap or reboot another machine."""
    for path, site in fleet.onprem():
        found = site.management
        if found is None:
            continue
        where = (*path, "management")
        if site.bmc is None:
            yield FieldFinding(
                where,
                f"site {site.site!r} has settings for management controllers but no controllers",
                "list them in the order of the nodes, such as `bmc: bmc[001-064]`",
                value=found.protocol,
            )
        missing = [node for node in site.nodes.hosts if node not in found.serials]
        if found.model is None and reported_model(site.system) is None and missing:
            yield FieldFinding(
                where,
                f"the controllers of {listed(missing, 3)} cannot be identified: the model name of a"
                f" server with an {site.system} board depends on the vendor",
                "write the `model` that the controllers report, or the `serials` of all nodes",
                value=site.system,
            )
        seen: dict[str, str] = {}
        for name, serial in found.serials.items():
            other = seen.setdefault(serial, name)
            if other != name:
                yield FieldFinding(
                    (*where, "serials", name),
                    f"{name!r} and {other!r} have the same serial number",
                    "correct one of them",
                    value=serial,
                )
        for field, values in (("serials", found.serials), ("certificates", found.certificates)):
            for name in values:
                if name not in site.nodes.hosts:
                    yield FieldFinding(
                        (*where, field, name),
                        f"{name!r} is not a GPU node of site {site.site!r}",
                        did_you_mean(nearest(name, site.nodes.hosts), f"use one of {site.nodes.text}"),
                        value=name,
                    )


@check("management-settings")
def management_settings(fleet: Fleet) -> Iterator[FieldFinding]:
    """IPMI has no TLS, BIOS settings or firmware inventory. A power cap below the draw of the GPUs stops the
    node."""
    for path, site in fleet.onprem():
        found = site.management
        if found is None:
            continue
        where = (*path, "management")
        if found.protocol == "ipmi":
            for field in ("ca", "certificates", "bios"):
                if getattr(found, field):
                    yield FieldFinding(
                        (*where, field),
                        f"IPMI does not support `{field}`",
                        "remove it, or write 'protocol: redfish'",
                    )
            if set(found.firmware) - {"bmc"}:
                yield FieldFinding(
                    (*where, "firmware"),
                    "IPMI reports only the firmware version of the controller",
                    "list only `bmc`, or write 'protocol: redfish'",
                )
            if set(found.boot_order) & {"http", "usb"} or len(found.boot_order) > 1:
                yield FieldFinding(
                    (*where, "boot_order"),
                    "IPMI can set only one boot device: pxe, disk or cd",
                    "write one of these",
                )
        if len(set(found.boot_order)) != len(found.boot_order):
            yield FieldFinding((*where, "boot_order"), "a device is listed twice", "list each device once")
        cap, system = found.power_cap, fleet.catalog.systems.get(site.system)
        if cap is None or system is None:
            continue
        if system.gpu_tdp_w is not None and cap.kw * 1000 < system.gpus * system.gpu_tdp_w // 2:
            yield FieldFinding(
                (*where, "power_cap"),
                f"{cap} is less than half the draw of the {system.gpus} GPUs of a {site.system}"
                f" ({system.gpus * system.gpu_tdp_w / 1000:g} kW)",
                "raise it; cap the GPUs before the node (the bound is gpufleet's own)",
            )
        if system.power_kw_max is not None and cap.kw > system.power_kw_max:
            yield FieldFinding(
                (*where, "power_cap"),
                f"{cap} is above the maximum draw of a {site.system} ({system.power_kw_max} kW): it has no"
                " effect",
                "lower it, or remove it",
                "warning",
            )


CHECKS = (management_identity, management_settings)
