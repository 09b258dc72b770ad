"""A management controller by Redfish (DMTF DSP0266), with the standard library.

The certificate is checked before anything secret is sent: against its CA certificates, or by the SHA-256
fingerprint of a self-signed one. Property names are those of DMTF's schemas (DSP8010): ComputerSystem, Bios,
BootOption, SoftwareInventory, Power, EnvironmentMetrics.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError
from ansible_collections.gpufleet.rack.plugins.module_utils.redfish_health import faults, rollup

ROOT = "/redfish/v1/"
LARGEST = 4 * 1024 * 1024
MOST_MEMBERS = 500
ALIASES = {"pxe": "Pxe", "http": "UefiHttp", "disk": "Hdd", "cd": "Cd", "usb": "Usb"}
"""gpufleet's names of BootSource values in ComputerSystem."""


class Connection:
    """Requests to one controller. Raises RefusalError with the response and a remedy."""

    def __init__(
        self,
        host: str,
        port: int,
        user: str,
        password: str,
        *,
        ca: str = "",
        certificate: str = "",
        timeout_s: int = 30,
    ) -> None:
        self.name = f"{host}:{port}"
        self._certificate = certificate
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(),
            "Accept": "application/json",
            "OData-Version": "4.0",
        }
        try:
            context = ssl.create_default_context(cafile=ca or None)
        except OSError as error:
            raise RefusalError(
                f"{ca} holds no certificates ({error}). Correct `management.ca` of the site."
            ) from None
        if certificate:
            # The fingerprint is compared instead, before anything is sent.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._http = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def get(self, path: str) -> dict[str, Any]:
        """Get a resource."""
        return self._ask("GET", path)[0]

    def patch(self, path: str, body: Mapping[str, Any]) -> None:
        """Change a resource, unless it has changed since it was read."""
        _, etag = self._ask("GET", path)
        self._ask("PATCH", path, body, {"If-Match": etag} if etag else {})

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Start an action."""
        self._ask("POST", path, body)

    def members(self, path: str) -> list[dict[str, Any]]:
        """The resources of a collection, including paged ones."""
        found: list[dict[str, Any]] = []
        following = path
        while following:
            part = self.get(following)
            found += [self.get(link(item)) for item in part.get("Members", [])]
            following = str(part.get("Members@odata.nextLink", ""))
            if len(found) > MOST_MEMBERS:
                raise RefusalError(f"{self.name} lists more than {MOST_MEMBERS} resources below {path}.")
        return found

    def _ask(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[dict[str, Any], str]:
        if not path.startswith("/redfish/") or "\r" in path or "\n" in path:
            raise RefusalError(f"{self.name} points to {path!r}, which is outside of Redfish.")
        sent = self._headers | dict(headers or {})
        text = None if body is None else json.dumps(body)
        if text is not None:
            sent["Content-Type"] = "application/json"
        try:
            self._connect()
            self._http.request(verb, path, text, sent)
            answer = self._http.getresponse()
            raw = answer.read(LARGEST)
        except ssl.SSLCertVerificationError as error:
            raise RefusalError(
                f"The certificate of {self.name} is not to be trusted: {error.verify_message}. Name "
                "what signs it "
                "(`management.ca`), or its SHA-256 (`management.certificates`)."
            ) from None
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise RefusalError(
                f"{self.name} does not answer ({error or type(error).__name__}). Check its address, its "
                "cable, and "
                "that HTTPS is on."
            ) from None
        try:
            found = json.loads(raw) if raw.strip() else {}
        except ValueError:
            found = {}
        if answer.status in (401, 403):
            raise RefusalError(
                f"{self.name} refuses the user (HTTP {answer.status}). Correct `management.user`, or "
                "the secret "
                "of the site (GPUFLEET_SECRET_BMC_PASSWORD)."
            )
        if answer.status >= 300:
            raise RefusalError(
                f"{self.name}: {verb} {path}: HTTP {answer.status} {error_messages(found)}".rstrip()
            )
        if not isinstance(found, dict):
            raise RefusalError(f"{self.name}: {path} is no resource of Redfish.")
        return found, answer.getheader("ETag") or str(found.get("@odata.etag", ""))

    def _connect(self) -> None:
        if self._http.sock is not None:
            return
        self._http.connect()
        if not self._certificate:
            return
        shown = hashlib.sha256(self._http.sock.getpeercert(binary_form=True) or b"").hexdigest()  # type: ignore[union-attr]
        if shown != self._certificate:
            self._http.close()
            raise RefusalError(
                f"{self.name} shows a certificate with SHA-256 {shown} instead of {self._certificate}. "
                "If it was "
                "exchanged on purpose, correct `management.certificates`; nothing was sent to it."
            )


def link(value: Any) -> str:
    """The target of a reference, empty without one."""
    return str(value.get("@odata.id", "")) if isinstance(value, Mapping) else ""


def error_messages(body: Any) -> str:
    """The messages of an error, shortened."""
    error = body.get("error", {}) if isinstance(body, Mapping) else {}
    more = error.get("@Message.ExtendedInfo", [])
    texts = [str(item.get("Message", "")) for item in more if isinstance(item, Mapping)]
    return " ".join(texts or [str(error.get("message", ""))])[:400]


class Redfish:
    """Reads and changes of a node. Values are as in the schemas."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._systems: list[dict[str, Any]] | None = None
        self._at_reset: set[str] = set()

    def systems(self) -> list[dict[str, str]]:
        """`{path, model, serial}` of each system of the controller."""
        if self._systems is None:
            root = self.connection.get(ROOT)
            self._systems = self.connection.members(link(root.get("Systems")))
        return [self._shown(item) for item in self._systems]

    def _shown(self, system: Mapping[str, Any]) -> dict[str, str]:
        """Identity of the system; missing values come from its chassis, if that holds no other system."""
        path = link(system)
        found = {name: str(system.get(name) or "").strip() for name in ("Model", "SerialNumber")}
        for chassis in (system.get("Links") or {}).get("Chassis", []) if not all(found.values()) else []:
            there = self.connection.get(link(chassis))
            if [link(item) for item in (there.get("Links") or {}).get("ComputerSystems", [])] == [path]:
                found = {name: value or str(there.get(name) or "").strip() for name, value in found.items()}
        return {"path": path, "model": found["Model"], "serial": found["SerialNumber"]}

    def power(self, path: str) -> str:
        """`On` or `Off`, from the last response."""
        return str(self.connection.get(path).get("PowerState", ""))

    def health(self, path: str) -> list[dict[str, str]]:
        """Return `{name, health, message}` of what is not OK in the system, its chassis, and their parts.

        Parts are fans, temperatures, power supplies and leak detectors. A part that the controller does not
        show is left out.
        """
        system = self.connection.get(path)
        found = faults(system)
        for item in (system.get("Links") or {}).get("Chassis", []):
            chassis = self._optional(link(item))
            found += faults(chassis)
            for name in ("Thermal", "Power"):
                found += faults(self._optional(link(chassis.get(name))))
            thermal = self._optional(link(chassis.get("ThermalSubsystem")))
            power = self._optional(link(chassis.get("PowerSubsystem")))
            leaks = self._optional(link(thermal.get("LeakDetection")))
            found += [*faults(thermal), *faults(power), *faults(leaks)]
            for parent, name in ((thermal, "Fans"), (power, "PowerSupplies"), (leaks, "LeakDetectors")):
                for part in self._optional(link(parent.get(name))).get("Members", []):
                    found += faults(part if "Status" in part else self._optional(link(part)))
        return found or rollup(system)

    def _optional(self, path: str) -> dict[str, Any]:
        """Return a resource, empty where there is none: controllers list parts that they do not have."""
        if not path:
            return {}
        try:
            return self.connection.get(path)
        except RefusalError:
            return {}

    def firmware(self, wanted: Iterable[str]) -> dict[str, str]:
        """Component -> version, by Id, or by a Name that only one component has."""
        root = self.connection.get(ROOT)
        service = link(root.get("UpdateService"))
        if not service:
            return {}
        inventory = link(self.connection.get(service).get("FirmwareInventory"))
        items = self.connection.members(inventory) if inventory else []
        versions = {str(item.get("Id")): str(item.get("Version") or "") for item in items}
        found = {}
        for name in wanted:
            ids = [name] if name in versions else [str(i.get("Id")) for i in items if i.get("Name") == name]
            if len(ids) > 1:
                raise RefusalError(
                    f"{self.connection.name} has {len(ids)} components with the name {name!r}. Write an Id "
                    f"in `management.firmware`: {', '.join(sorted(ids))}."
                )
            found[name] = versions[ids[0]] if ids else ""
        return found

    def power_cap(self, path: str) -> tuple[int | None, str]:
        """The cap in W (None: none), and its resource; empty if the controller has no cap."""
        for chassis in self.connection.get(path).get("Links", {}).get("Chassis", []):
            found = self.connection.get(link(chassis))
            metrics = link(found.get("EnvironmentMetrics"))
            if metrics:
                limit = self.connection.get(metrics).get("PowerLimitWatts")
                if isinstance(limit, Mapping):
                    # Other modes (Override, Manual, Disabled) leave the set point without effect.
                    on = limit.get("ControlMode", "Automatic") == "Automatic"
                    return (watts(limit.get("SetPoint")) if on else None), metrics
            power = link(found.get("Power"))
            if power:
                control = self.connection.get(power).get("PowerControl") or [{}]
                if "PowerLimit" in control[0]:
                    return watts((control[0]["PowerLimit"] or {}).get("LimitInWatts")), power
        return None, ""

    def set_power_cap(self, resource: str, cap: int) -> None:
        """Set the power cap, by the newer resource if it exists."""
        if "PowerControl" in self.connection.get(resource):
            body: dict[str, Any] = {"PowerControl": [{"PowerLimit": {"LimitInWatts": cap}}]}
        else:
            body = {"PowerLimitWatts": {"SetPoint": cap, "ControlMode": "Automatic"}}
        self.connection.patch(resource, body)

    def power_drawn(self, resource: str) -> int | None:
        """W that the node draws, by the resource of its power cap: the average if there is one."""
        found = self.connection.get(resource)
        if "PowerControl" not in found:
            return watts((found.get("PowerWatts") or {}).get("Reading"))
        control = found["PowerControl"][0]
        average = (control.get("PowerMetrics") or {}).get("AverageConsumedWatts")
        return watts(control.get("PowerConsumedWatts") if average is None else average)

    def boot_order(self, path: str, wanted: list[str]) -> tuple[list[str], list[str], str]:
        """The current or staged boot order, the wanted one, and where it is changed.

        Options are those of the controller; the wanted types come first, in their current order among
        themselves, and nothing is removed. A controller without options has one persistent override.
        """
        found = self.connection.get(path)
        settings = self._settings(found)
        boot = found.get("Boot", {})
        now = [str(name) for name in boot.get("BootOrder") or []]
        options = link(boot.get("BootOptions"))
        if not now or not options:
            lasting = boot.get("BootSourceOverrideEnabled") == "Continuous"
            target = str(boot.get("BootSourceOverrideTarget", "None")) if lasting else "None"
            allowed = boot.get("BootSourceOverrideTarget@Redfish.AllowableValues")
            if allowed is not None and ALIASES[wanted[0]] not in allowed:
                raise self._no_option(wanted[:1], allowed)
            return [target], [ALIASES[wanted[0]]], path
        if settings:
            staged = self.connection.get(settings).get("Boot", {}).get("BootOrder")
            now = [str(name) for name in staged] if staged else now
        kinds = {
            str(item.get("BootOptionReference")): str(item.get("Alias") or "")
            for item in self.connection.members(options)
        }
        ranks = {ALIASES[name]: place for place, name in enumerate(wanted)}
        missing = [name for name in wanted if ALIASES[name] not in kinds.values()]
        if missing:
            raise self._no_option(missing, kinds.values())
        return now, sorted(now, key=lambda name: ranks.get(kinds.get(name, ""), len(ranks))), settings or path

    def _no_option(self, missing: Iterable[str], there: Iterable[str]) -> RefusalError:
        return RefusalError(
            f"{self.connection.name} has no boot option of the kind {', '.join(missing)}; it has "
            f"{', '.join(sorted(set(there) - {''})) or 'none'}. Correct `management.boot_order`."
        )

    def set_boot_order(self, resource: str, order: list[str]) -> None:
        """Change the order, or the persistent override if there is no order."""
        if len(order) == 1 and order[0] in ALIASES.values():
            body: dict[str, Any] = {
                "BootSourceOverrideTarget": order[0],
                "BootSourceOverrideEnabled": "Continuous",
            }
        else:
            body = {"BootOrder": order}
        self._stage(resource, {"Boot": body})

    def bios(self, path: str) -> tuple[dict[str, Any], dict[str, Any], str]:
        """Current attributes, pending ones, and the resource that stages them."""
        bios = link(self.connection.get(path).get("Bios"))
        if not bios:
            return {}, {}, ""
        found = self.connection.get(bios)
        settings = self._settings(found)
        staged = self.connection.get(settings).get("Attributes", {}) if settings else {}
        return dict(found.get("Attributes", {})), dict(staged or {}), settings

    def stage_bios(self, resource: str, attributes: Mapping[str, Any]) -> None:
        """Stage attributes for the next boot."""
        self._stage(resource, {"Attributes": dict(attributes)})

    def _settings(self, found: Mapping[str, Any]) -> str:
        """The resource that stages changes of a resource; empty without one."""
        settings = found.get("@Redfish.Settings") or {}
        path = link(settings.get("SettingsObject"))
        if "OnReset" in (settings.get("SupportedApplyTimes") or []):
            self._at_reset.add(path)
        return path

    def _stage(self, resource: str, body: dict[str, Any]) -> None:
        """Change a resource. Controllers with apply times (Dell) apply staged values only at the one sent."""
        if resource in self._at_reset:
            body = body | {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}
        self.connection.patch(resource, body)

    def cycle(self, path: str) -> str:
        """Power cycle or power on; the requested reset."""
        found = self.connection.get(path)
        action = found.get("Actions", {}).get("#ComputerSystem.Reset", {})
        target = str(action.get("target", ""))
        kinds = self._allowed(action, "ResetType")
        wanted = ("On", "ForceOn") if found.get("PowerState") == "Off" else ("PowerCycle", "ForceRestart")
        kind = next((name for name in wanted if name in kinds), "")
        if not target or not kind:
            raise RefusalError(f"{self.connection.name} offers none of {', '.join(wanted)}; it has {kinds}.")
        self.connection.post(target, {"ResetType": kind})
        return kind

    def _allowed(self, action: Mapping[str, Any], parameter: str) -> list[str]:
        """The values of a parameter that an action takes: listed in the action, or in its ActionInfo."""
        values = action.get(f"{parameter}@Redfish.AllowableValues")
        info = str(action.get("@Redfish.ActionInfo") or "")
        for item in self.connection.get(info).get("Parameters", []) if values is None and info else []:
            values = item.get("AllowableValues") if item.get("Name") == parameter else values
        return [str(value) for value in values or []]


def watts(value: Any) -> int | None:
    """A value in W; None without one."""
    return None if value in (None, "") else round(float(value))
