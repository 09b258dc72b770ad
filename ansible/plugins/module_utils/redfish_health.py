"""What a resource of Redfish reports of its health: itself, and what older controllers list inside of it.

`Status` has a `Health` (OK, Warning, Critical) and a `State`; leak detectors have a `DetectorState` besides
(DMTF DSP0268; LeakDetector v1_1_0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

OK, WARNING, CRITICAL = "OK", "Warning", "Critical"
# What is not fitted, or was switched off, reports no fault of the node.
AWAY = ("Absent", "Disabled", "UnavailableOffline")
# Lists inside of Power, Thermal (before Redfish 2020.4) and of subsystems.
LISTS = ("Fans", "Temperatures", "PowerSupplies", "Voltages", "Redundancy")


def faults(resource: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return `{name, health, message}` of a resource and of each part inside of it that is not OK."""
    return [found for part in _parts(resource) if (found := _fault(part))]


def rollup(resource: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the fault that a resource reports of parts that are not inspected, such as memory and drives."""
    status = resource.get("Status")
    health = str(status.get("HealthRollup") or OK) if isinstance(status, Mapping) else OK
    name = str(resource.get("Name") or resource.get("Id") or "the system").strip()
    return [] if health == OK else [{"name": name, "health": health, "message": "a part of it"}]


def _parts(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield resource
    for name in LISTS:
        listed = resource.get(name)
        for part in listed if isinstance(listed, list) else []:
            if isinstance(part, Mapping):
                yield part


def _fault(part: Mapping[str, Any]) -> dict[str, str] | None:
    status = part.get("Status")
    status = status if isinstance(status, Mapping) else {}
    state, health = str(status.get("State") or ""), str(status.get("Health") or OK)
    detector = str(part.get("DetectorState") or OK)
    if state in AWAY:
        return None
    if detector not in (OK, "Unavailable"):
        # The detector's own word goes first: controllers report a leak with the health that they want.
        health = CRITICAL if detector == CRITICAL or health == CRITICAL or "Leak" in detector else WARNING
    elif health == OK:
        return None
    words = [detector] if detector != OK else []
    words += [str(item.get("Message") or "") for item in _conditions(status)]
    name = part.get("Name") or part.get("MemberId") or part.get("Id") or part.get("@odata.id") or "a part"
    return {"name": str(name).strip(), "health": health, "message": "; ".join(filter(None, words))[:200]}


def _conditions(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    listed = status.get("Conditions")
    return [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
