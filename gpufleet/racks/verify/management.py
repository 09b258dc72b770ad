"""Management controllers: identity, firmware, power cap, boot order, BIOS settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result

CAP_TOLERANCE = 1.05
"""A node that draws more than its cap by this factor is not capped. gpufleet's own figure: caps are
controlled over some seconds, and draw is measured with an error of a few percent."""


def bmc(found: RoleMeasurements) -> Iterator[Result]:
    """The controller belongs to the node, its firmware has the versions of the lock, and its settings match.

    The role checks the identity first. Without it, there is no measurement.
    """
    yield found.expect(
        "identity", "state", _identity, expected="the node's", remedy="check its address and cable"
    )

    def power(text: str) -> Reading:
        state = str(json.loads(text)["power"])
        return Reading(state, "" if state == "On" else f"the node's power is {state or 'unknown'}")

    yield found.expect("power", "state", power, expected="On", remedy="turn the node on")
    if '"health"' in str(found.found.get("bmc_state", {}).get("stdout", "")):
        yield found.expect(
            "health",
            "state",
            _health,
            expected="OK",
            remedy="see the BMC's event log. A coolant leak: power the node off and call the data center",
        )
    firmware = found.value("firmware") or {}
    if firmware:

        def versions(text: str) -> Reading:
            there = json.loads(text)["firmware"]
            wrong = [
                f"{name} is {there.get(name) or 'not there'} instead of {version}"
                for name, version in firmware.items()
                if there.get(name) != str(version)
            ]
            return Reading(f"{len(firmware) - len(wrong)} of {len(firmware)} components", "; ".join(wrong))

        yield found.expect(
            "firmware",
            "state",
            versions,
            expected=f"{len(firmware)} components",
            remedy="flash the node, drained, with its vendor's tool (nvfwupd), or correct "
            "`management.firmware`",
        )
    cap = found.value("power_cap_w") or 0
    if cap:

        def capped(text: str) -> Reading:
            there = json.loads(text)["power_cap_w"]
            drawn = json.loads(text).get("power_w") or 0
            problem = "" if there == cap else f"{there or 'no'} W instead of {cap} W"
            if not problem and drawn > cap * CAP_TOLERANCE:
                problem = f"{cap} W are set and not in force: the node draws {drawn} W"
            return Reading(f"{there or 'no'} W", problem)

        yield found.expect(
            "power_cap",
            "state",
            capped,
            expected=f"{cap} W",
            remedy=f"enable power capping at the controller, then {again(found)}",
        )
    if found.value("boot_order"):

        def order(text: str) -> Reading:
            there = json.loads(text)
            now, wanted = (" ".join(there[name]) for name in ("boot_order", "wanted_boot_order"))
            return Reading(now, "" if now == wanted else f"{now} instead of {wanted}")

        yield found.expect(
            "boot_order", "state", order, expected=" ".join(found.value("boot_order")), remedy=again(found)
        )
    if found.value("bios"):
        yield found.expect(
            "bios",
            "state",
            _bios,
            expected=f"{len(found.value('bios'))} attributes",
            remedy=f"{again(found)}; then reboot the node, drained",
        )


def _identity(text: str) -> Reading:
    there = json.loads(text)
    shown = f"{there['model']} {there['serial']}".strip()
    return Reading(shown, "" if shown else "it shows neither model nor serial number")


def _health(text: str) -> Reading:
    """Read what is not OK: critical parts are a problem, warnings are printed."""
    parts = json.loads(text)["health"]
    words = {
        part["name"]: f"{part['name']} is {part['health']}"
        + (f" ({part['message']})" if part["message"] else "")
        for part in parts
    }
    critical = [words[part["name"]] for part in parts if part["health"] != "Warning"]
    warnings = [words[part["name"]] for part in parts if part["health"] == "Warning"]
    measured = f"{len(critical)} critical, {len(warnings)} warnings" if parts else "OK"
    if not critical and warnings:
        measured = f"OK but for warnings: {'; '.join(warnings)}"
    return Reading(measured, "; ".join(critical))


def _bios(text: str) -> Reading:
    there: dict[str, Any] = json.loads(text)
    waiting = there["waits_for_reboot"]
    staged = [name for name in waiting if name in there["staged_bios"]]
    missing = [name for name in waiting if name not in staged]
    parts = [f"{', '.join(staged)} waits for a reboot"] if staged else []
    parts += [f"{', '.join(missing)} is not as asked"] if missing else []
    return Reading(
        f"{len(there['bios']) - len(waiting)} of {len(there['bios'])} attributes", "; ".join(parts)
    )
