"""The compute fabric: RDMA ports, lossless Ethernet, subnet managers."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpufleet.racks.verify.measurements import NO_PROGRAM, Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.switches import broken_ports, parse_ports, switch_faults

NO_RAILS = "the site and the catalog name no rails: a storage port could stand in for a dead one"
LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}


def rdma(found: RoleMeasurements) -> Iterator[Result]:
    """Ports of the right kind are up at their rate. A node whose rails have no names never passes.

    Without names its faults are those of as many ports as it has adapters. Adapters that manage NVSwitches
    are none of the fabric's. A node always needs one good port.
    """
    gbps, layer = int(found.value("link_gbps", 0)), LAYERS[str(found.value("kind"))]
    # The adapters of a subnet manager host are not rails of a node.
    node = found.values.get("gpufleet_role") == "gpu"
    named = list(found.value("devices", [])) if node else []
    adapters = int(found.value("adapters", 0) or 0) if node else 1

    def read(text: str) -> Reading:
        faults, good, down, kinds = {}, [], set(), {}
        for line in text.splitlines():
            device, port, kind, state, rate, product, manages = line.split("|")
            if manages == "NVSwitch":
                continue
            name = device if port == "1" else f"{device}:{port}"
            number = float(rate.split()[0])
            kinds[name] = (kind, product)
            if kind != layer:
                faults[name] = f"{name} is {kind} instead of {layer}"
            elif not state.endswith("ACTIVE"):
                down.add(name)
                faults[name] = f"{name} is {state.partition(': ')[2]}"
            elif number < gbps:
                faults[name] = f"{name} at {number:g} Gb/s instead of {gbps}"
            else:
                good.append(name)
        measured = f"{len(good)} ports at {gbps} Gb/s"
        if named:
            wanted = [device.removesuffix(":1") for device in named]
            there = sum(device in good for device in wanted)
            wrong = [faults.get(device, f"{device} is not there") for device in wanted if device not in good]
            return Reading(f"{there} of {len(wanted)} rails at {gbps} Gb/s", "; ".join(wrong))
        # Of more ports than the fabric has, those of other adapters than the good ones are not to blame.
        alike = {kinds[name] for name in good}
        if alike and len(kinds) > adapters:
            faults = {name: message for name, message in faults.items() if kinds[name] in alike}
        if good and node and not adapters:
            # No source says how many there are: a dead port is one of them, a slower one may be storage's.
            dead = [
                message for name, message in faults.items() if kinds[name][0] == "InfiniBand" and name in down
            ]
            return Reading(measured, "; ".join(dead))
        if len(good) >= max(adapters, 1):
            return Reading(measured)
        lacking = f"{len(good)} of {adapters} ports are good" if node and adapters else "no port is good"
        return Reading(measured, "; ".join([lacking, *faults.values()]))

    def ports(text: str) -> Reading:
        reading = read(text)
        return Reading(reading.measured, reading.problem or (NO_RAILS if node and not named else ""))

    yield found.expect(
        "ports",
        "ports",
        ports,
        expected=f"{len(named) or adapters or 1} ports at {gbps} Gb/s",
        remedy="see cable and switch port (ibstat, ethtool)"
        if named or not node
        else "write `rails` of the fabric in the fleet file; see cable and switch port (ibstat, ethtool)",
    )
    if found.container:
        # Its limits and its kernel modules are another's to set.
        return
    yield found.same("memlock", "memlock", "unlimited", remedy=again(found))
    installed = str(found.found.get("rdma_driver_installed", {}).get("stdout", "")).strip()
    yield found.same("driver", "driver_loaded", installed, remedy="reboot the host, drained")
    if not found.value("ipoib"):
        yield found.same("IP over InfiniBand", "ipoib", "absent", remedy="reboot the host, drained")


def roce(found: RoleMeasurements) -> Iterator[Result]:
    """Every setting of every interface is what the site declares."""

    def settings(text: str) -> Reading:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        wrong = [
            f"{row['interface']}: {row['setting']} is {row['is']} instead of {row['should']}"
            for row in rows
            if row["is"] != row["should"]
        ]
        if not rows:
            return Reading("nothing", "no interface was found")
        return Reading(f"{len(rows)} settings", "; ".join(wrong))

    yield found.expect("settings", "settings", settings, expected="as declared", remedy=again(found))
    yield found.same("at boot", "unit", "enabled", remedy=again(found), codes=(0, 1))


def subnet_manager(found: RoleMeasurements) -> Iterator[Result]:
    """opensm runs, and some subnet manager is master of the subnet."""
    yield found.active("service", "active", "gpufleet-opensm")

    def master(text: str) -> Reading:
        state = text.rpartition("state")[2].strip()
        return Reading(state, "" if "MASTER" in state else f"the subnet's manager is {state}")

    yield found.expect("master", "sminfo", master, expected="a master", remedy="see /var/log/opensm.log")

    def links(text: str) -> Reading:
        count = sum(port.linked for port in parse_ports(text))
        return Reading(f"{count} ends of links", "" if count else "the fabric has no links")

    yield found.expect(
        "links", "ports", links, expected="links", remedy="ibnetdiscover --ports; see cables and switches"
    )

    def known(text: str) -> Reading:
        broken = broken_ports(parse_ports(text))
        return Reading(f"{len(broken)} ports of unknown speed", "; ".join(broken))

    yield found.expect(
        "ports",
        "ports",
        known,
        expected="0 ports of unknown speed",
        remedy="reset the port (ibportstate), or exchange its cable",
        wrong="warn",
    )

    def healthy(text: str) -> Reading:
        faults = switch_faults(text)
        return Reading(f"{len(faults)} faults", "; ".join(faults))

    # No package has ibswinfo: a site that installed it has its switches checked.
    if found.found.get("subnet_manager_switches", {}).get("rc") != NO_PROGRAM:
        yield found.expect(
            "switches",
            "switches",
            healthy,
            expected="0 faults",
            remedy="replace the fan or power supply: ibswinfo -d <lid>",
            wrong="warn",
        )
