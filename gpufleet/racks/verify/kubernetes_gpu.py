"""GPUs in Kubernetes: GPUs of nodes compared with the plan, a single driver, releases and queues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result

_DRIVERS = ("nvidia-driver-", "nvidia-container-toolkit-", "nvidia-vgpu-manager-", "mofed-")
"""Name prefixes of the operators' daemon sets that install a driver or the container toolkit (gpu-operator
assets, network-operator manifests)."""

_SHOWN = 3


def kubernetes_gpu(found: RoleMeasurements) -> Iterator[Result]:
    """Each node offers the GPUs of its group, and only the host installs a driver."""
    expected = {
        node: (str(pool["resource"]), pool["gpus"] // len(pool["nodes"]) * pool["per_gpu"])
        for pool in found.value("pools", ())
        for node in pool["nodes"]
    }
    if found.value("gpu_operator", True):
        yield found.expect(
            "gpus",
            "nodes",
            lambda text: _offered(text, expected),
            expected=f"{sum(count for _, count in expected.values())} on {len(expected)} nodes",
            remedy="kubectl describe node; kubectl -n gpu-operator get pods",
        )
    yield found.expect(
        "one driver",
        "driver_pods",
        _one_driver,
        expected="only the host's",
        remedy=again(found),
    )
    yield found.expect(
        "releases", "releases", _releases(found), expected="as the software channel says", remedy=again(found)
    )
    if found.value("kueue", True) and found.value("teams", ()):
        yield found.expect(
            "queues",
            "queues",
            _queues({str(team["name"]) for team in found.value("teams", ())}),
            expected="active",
            remedy="kubectl describe clusterqueue; kubectl -n kueue-system get pods",
        )


def _offered(text: str, expected: dict[str, tuple[str, int]]) -> Reading:
    there: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    for line in text.splitlines():
        if line.strip():
            name, capacity, allocatable = line.split("\t")
            there[name] = (json.loads(capacity or "{}"), json.loads(allocatable or "{}"))
    wrong = []
    total = 0
    for node, (resource, count) in expected.items():
        if node not in there:
            wrong.append(f"{node} has not joined")
            continue
        has, gives = (int(part.get(resource, 0)) for part in there[node])
        total += gives
        if has != count:
            wrong.append(f"{node} has {has} {resource} instead of {count}")
        elif gives < has:
            wrong.append(f"{node} gives out {gives} of {has} {resource}: the rest is unhealthy")
    return Reading(f"{total} on {len(there.keys() & expected.keys())} nodes", _listed(wrong))


def _listed(wrong: list[str]) -> str:
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return "; ".join(wrong[:_SHOWN]) + more


def _one_driver(text: str) -> Reading:
    sets = text.split()
    drivers = [name for name in sets if name.partition("/")[2].startswith(_DRIVERS)]
    problem = f"{', '.join(drivers)} would install what the host already has" if drivers else ""
    return Reading(f"{len(sets)} daemon sets, {len(drivers)} with drivers", problem)


def _releases(found: RoleMeasurements) -> Callable[[str], Reading]:
    wanted = {
        name: f"{name}-{prefix}{found.value(variable)}"
        for name, switch, variable, prefix in (
            ("gpu-operator", "gpu_operator", "gpu_operator_version", "v"),
            ("network-operator", "network_operator", "network_operator_version", ""),
            ("kueue", "kueue", "kueue_version", ""),
        )
        if found.value(switch, True)
    }

    def read(text: str) -> Reading:
        there = {item["name"]: (item["chart"], item["status"]) for item in json.loads(text)}
        wrong = []
        for name, chart in wanted.items():
            if name not in there:
                wrong.append(f"{name} is not installed")
            elif there[name] != (chart, "deployed"):
                wrong.append(f"{' '.join(there[name])} instead of {chart} deployed")
        return Reading(", ".join(sorted(chart for chart, _ in there.values())) or "none", "; ".join(wrong))

    return read


def _queues(teams: set[str]) -> Callable[[str], Reading]:
    def read(text: str) -> Reading:
        states = dict(line.split("\t") for line in text.splitlines() if line.strip())
        wrong = [f"{team} has no queue" for team in sorted(teams - states.keys())]
        wrong += [
            f"{team}'s is not active" for team in sorted(teams & states.keys()) if states[team] != "True"
        ]
        return Reading(f"{len(states)} queues", _listed(wrong))

    return read
