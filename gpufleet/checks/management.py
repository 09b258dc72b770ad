"""Management controllers: there have to be some, and each has to be known for what it is."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, did_you_mean, listed, nearest
from gpufleet.plan.management import reported_model


@check("management-identity")
def management_identity(fleet: Fleet) -> Iterator[FieldFinding]:
    """Settings go to a controller that shows the right model or serial number alone: a cable in the wrong
    port, or an address that was given twice, would else cap or reboot another machine."""
    for path, site in fleet.onprem():
        found = site.management
        if found is None:
            continue
        where = (*path, "management")
        if site.bmc is None:
            yield FieldFinding(
                where,
                f"site {site.site!r} says how management controllers are reached, and names none",
                "name them in the nodes' order, as `bmc: bmc[001-064]`",
                value=found.protocol,
            )
        missing = [node for node in site.nodes.hosts if node not in found.serials]
        if found.model is None and reported_model(site.system) is None and missing:
            yield FieldFinding(
                where,
                f"nothing identifies the controllers of {listed(missing, 3)}: servers with a"
                f" board as {site.system} have model names of their vendors",
                "give `model` as the controllers report it, or `serials` of all nodes",
                value=site.system,
            )
        seen: dict[str, str] = {}
        for name, serial in found.serials.items():
            other = seen.setdefault(serial, name)
            if other != name:
                yield FieldFinding(
                    (*where, "serials", name),
                    f"{name!r} and {other!r} have one serial number",
                    "correct one of them",
                    value=serial,
                )
        for field, values in (("serials", found.serials), ("certificates", found.certificates)):
            for name in values:
                if name not in site.nodes.hosts:
                    yield FieldFinding(
                        (*where, field, name),
                        f"{name!r} is no GPU node of site {site.site!r}",
                        did_you_mean(nearest(name, site.nodes.hosts), f"name one of {site.nodes.text}"),
                        value=name,
                    )


@check("management-settings")
def management_settings(fleet: Fleet) -> Iterator[FieldFinding]:
    """IPMI has neither TLS nor BIOS settings nor an inventory of firmware, and a cap below what the GPUs
    draw by themselves stops the node."""
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
                        f"IPMI has no use for `{field}`",
                        "remove it, or write 'protocol: redfish'",
                    )
            if set(found.firmware) - {"bmc"}:
                yield FieldFinding(
                    (*where, "firmware"),
                    "IPMI reports only the controller's own version",
                    "list only `bmc`, or write 'protocol: redfish'",
                )
            if set(found.boot_order) & {"http", "usb"} or len(found.boot_order) > 1:
                yield FieldFinding(
                    (*where, "boot_order"),
                    "IPMI sets one first device: pxe, disk or cd",
                    "name one of these",
                )
        if len(set(found.boot_order)) != len(found.boot_order):
            yield FieldFinding((*where, "boot_order"), "a device is named twice", "name each once")
        cap, system = found.power_cap, fleet.catalog.systems.get(site.system)
        if cap is None or system is None:
            continue
        if system.gpu_tdp_w is not None and cap.kw * 1000 < system.gpus * system.gpu_tdp_w // 2:
            yield FieldFinding(
                (*where, "power_cap"),
                f"{cap} is less than half of what the {system.gpus} GPUs of a {site.system} draw"
                f" ({system.gpus * system.gpu_tdp_w / 1000:g} kW)",
                "raise it; cap the GPUs themselves before the node (bound of our own choice)",
            )
        if system.power_kw_max is not None and cap.kw > system.power_kw_max:
            yield FieldFinding(
                (*where, "power_cap"),
                f"{cap} is more than a {site.system} ever draws ({system.power_kw_max} kW): it caps nothing",
                "lower it, or remove it",
                "warning",
            )


CHECKS = (management_identity, management_settings)
