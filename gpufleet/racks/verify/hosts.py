"""Every host: base, users, firewall."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.versions import versions

_CLOCK = "see chronyc sources and chronyc tracking"
CLOCK_OFFSET_S = 1.0
"""Our own choice; munge refuses messages from 300 s on."""


def base(found: RoleMeasurements) -> Iterator[Result]:
    """Versions, the clock, the kernel's arguments and settings, frequency of the processors, a reboot that
    waits."""
    yield from versions(found)
    yield found.expect(
        "clock", "time_tracking", _offset, expected=f"within {CLOCK_OFFSET_S:g} s", remedy=_CLOCK
    )
    # Warn before the clock of a host without time servers drifts.
    yield found.expect(
        "time servers", "time_tracking", _source, expected="reached", remedy=_CLOCK, wrong="warn"
    )
    yield found.expect(
        "sysctl", "sysctl", lambda text: _sysctl(text, found), expected="as configured", remedy=again(found)
    )
    if found.container:
        return
    arguments = found.value("kernel_arguments", []) if found.value("gpu_node") else []
    yield found.expect(
        "kernel arguments",
        "kernel_command_line",
        lambda text: _missing(arguments, text.split(), "kernel argument"),
        expected=" ".join(arguments) or "any",
        remedy=f"{again(found)}, which reboots the host",
    )
    if found.value("gpu_node"):
        wanted = str(found.value("cpu_governor", ""))
        # A processor that the firmware drives has no governor: there is no file then.
        yield found.expect(
            "governor",
            "cpu_governor",
            lambda text: Reading(text.strip(), _differs(text.strip(), wanted) if text.strip() else ""),
            expected=wanted,
            remedy=again(found),
            codes=(0, 1),
        )
    yield found.expect(
        "reboot",
        "reboot_required",
        lambda text: Reading("pending" if text else "none", "a reboot is pending" if text.strip() else ""),
        expected="none",
        remedy="reboot the host, drained",
        codes=(0, 1),
        wrong="warn",
    )


def _differs(measured: str, wanted: str) -> str:
    return "" if measured == wanted else f"{measured} instead of {wanted}"


def _missing(wanted: list[str], there: list[str], what: str) -> Reading:
    missing = [item for item in wanted if item not in there]
    return Reading(", ".join(there) or "none", f"{what} {', '.join(missing)} is missing" if missing else "")


def _offset(text: str) -> Reading:
    offset = abs(float(text.split(",")[4]))
    return Reading(f"{offset:.6f} s", f"the clock is {offset:.1f} s off" if offset > CLOCK_OFFSET_S else "")


def _source(text: str) -> Reading:
    state = text.strip().split(",")[13]
    return Reading(state, "chrony reaches none of its servers" if state == "Not synchronised" else "")


def _sysctl(text: str, found: RoleMeasurements) -> Reading:
    there = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            there[name.strip()] = " ".join(value.split())
    # A setting that this kernel does not have is left out by `sysctl -e`.
    wrong = [
        f"{name} is {there[name]} instead of {value}"
        for name, value in found.value("sysctl", {}).items()
        if name in there
        and there[name] != " ".join(str(value).split())
        # A network namespace shows these and cannot set them.
        and not (found.container and name.startswith("net.core."))
    ]
    return Reading(f"{len(there)} settings", "; ".join(wrong))


def users(found: RoleMeasurements) -> Iterator[Result]:
    """Users and groups have the same UIDs and GIDs on all hosts."""
    accounts = {item["name"]: f"{item['uid']}:{item['gid']}" for item in found.value("accounts", [])}
    groups = {item["name"]: str(item["gid"]) for item in found.value("groups", [])}

    def compare(text: str, wanted: dict[str, str], read: slice) -> Reading:
        rows = {line.split(":")[0]: ":".join(line.split(":")[read]) for line in text.splitlines()}
        wrong = [
            f"{name} is {rows.get(name, 'missing')} instead of {number}"
            for name, number in wanted.items()
            if rows.get(name) != number
        ]
        return Reading(f"{len(wanted)}", "; ".join(wrong))

    # getent exits with 2 if an entry is missing, and prints the others.
    if accounts:
        yield found.expect(
            "accounts",
            "accounts",
            lambda text: compare(text, accounts, slice(2, 4)),
            expected=str(len(accounts)),
            remedy=again(found),
            codes=(0, 2),
        )
    if groups:
        yield found.expect(
            "groups",
            "groups",
            lambda text: compare(text, groups, slice(2, 3)),
            expected=str(len(groups)),
            remedy=again(found),
            codes=(0, 2),
        )
    yield found.runs("sudoers", "sudoers", remedy="visudo -c shows the line")
    yield found.runs("sshd", "sshd", remedy="sshd -T shows the line")


def firewall(found: RoleMeasurements) -> Iterator[Result]:
    """What is not allowed is dropped, now and after a boot."""
    yield found.expect("rules", "rules", _drops, expected="policy drop", remedy=again(found))
    yield found.same("at boot", "enabled", "enabled", remedy="systemctl enable nftables", codes=(0, 1))


def _drops(text: str) -> Reading:
    chains = [item["chain"] for item in json.loads(text)["nftables"] if "chain" in item]
    policies = [chain.get("policy", "") for chain in chains if chain.get("hook") == "input"]
    measured = f"policy {', '.join(policies)}" if policies else "no chain for input"
    return Reading(measured, "" if policies == ["drop"] else f"{measured}: what is not allowed gets through")
