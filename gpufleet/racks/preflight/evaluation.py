"""Verdicts on preflight measurements: all checks of all hosts, and differences between peers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from gpufleet.racks.preflight.checks import EVERY_HOST, GPU_NODES, KIB_PER_GIB, Check
from gpufleet.racks.preflight.expectations import Expectations
from gpufleet.racks.preflight.verdict import PreflightVerdict, failed

SCHEMA = 2
"""The version of the measurements' format that this module reads."""

STOPPING = frozenset({"measured", "os", "disk"})
"""Checks that must pass before an installation. The role base corrects clocks; a node with a hardware fault
is installed, reported, and drained by its health check."""

Measurements = Mapping[str, Mapping[str, Any] | None]
"""Host -> its `preflight_measurements`, None or missing for a host that did not respond."""

# Memory varies a little between equal hosts: they are compared in steps of 16 GiB.
_MEMORY_STEP_GIB = 16

_TRAITS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "system": lambda found: f"{found['os']['id']} {found['os']['version']}",
    "kernel": lambda found: f"{found['kernel']['release']} {found['kernel']['architecture']}",
    "processors": lambda found: str(found["cpu"]["logical"]),
    "memory": lambda found: (
        f"about {round(found['memory']['total_kib'] / KIB_PER_GIB / _MEMORY_STEP_GIB) * _MEMORY_STEP_GIB} GiB"
    ),
    "huge pages": lambda found: str(found["hugepages"]["total"]),
    "fabric adapters": lambda found: str(len(found["nics"])),
}


def evaluate(
    measurements: Measurements, expectations: Mapping[str, Expectations]
) -> tuple[PreflightVerdict, ...]:
    """Return a verdict for each check of each expected host, in the order of `expectations`.

    A missing measurement fails: a host that did not respond, a probe that could not run, a missing path.
    Measurements of other hosts are ignored.
    """
    verdicts = [
        verdict
        for host, expected in expectations.items()
        for verdict in _judge_host(host, measurements.get(host), expected)
    ]
    return (*verdicts, *_judge_peers(measurements, expectations))


def refusals(
    host: str, found: Mapping[str, Any] | None, expected: Expectations
) -> tuple[PreflightVerdict, ...]:
    """Return the failed verdicts that prevent an installation on a host, as `evaluate` does."""
    return failed(_judge_host(host, found, expected, STOPPING))


def _judge_host(
    host: str, found: Mapping[str, Any] | None, expected: Expectations, only: Collection[str] = ()
) -> Iterator[PreflightVerdict]:
    if found is None or found.get("schema") != SCHEMA:
        answer = "none" if found is None else f"schema {found.get('schema')!r}"
        yield PreflightVerdict(
            host,
            "measured",
            "fail",
            answer,
            f"schema {SCHEMA}",
            "the host gave no measurements" if found is None else "the measurements are of another version",
            "see that ansible reaches it (ansible -m ping), and use the role of this gpufleet",
        )
        return
    checks = {**EVERY_HOST, **GPU_NODES} if expected.gpu_node else EVERY_HOST
    for name, (measurement, check) in checks.items():
        if only and name not in only:
            continue
        yield _apply(host, name, measurement, check, found, expected)


def _apply(
    host: str, name: str, measurement: str, check: Check, found: Mapping[str, Any], expected: Expectations
) -> PreflightVerdict:
    if found.get(measurement) is None:
        reason = (found.get("errors") or {}).get(measurement, "the host did not report it")
        return PreflightVerdict(
            host,
            name,
            "fail",
            "not measured",
            "",
            f"{measurement} was not measured: {reason}",
            "correct the cause and run again",
        )
    try:
        outcome = check(found[measurement], expected)
    except (KeyError, TypeError, ValueError) as error:
        return PreflightVerdict(
            host,
            name,
            "fail",
            "not readable",
            "",
            f"{measurement} is not what the role's module reports ({type(error).__name__}: {error})",
            "use the role of this gpufleet",
        )
    return PreflightVerdict(
        host, name, outcome.status, outcome.measured, outcome.expected, outcome.message, outcome.remedy
    )


def _judge_peers(
    measurements: Measurements, expectations: Mapping[str, Expectations]
) -> Iterator[PreflightVerdict]:
    """Hosts bought alike should be alike: most agree, and those that do not are named."""
    groups: dict[str, list[str]] = defaultdict(list)
    for host, expected in expectations.items():
        groups[expected.peers].append(host)
    for peers, hosts in groups.items():
        for trait, read in _TRAITS.items():
            values = {host: _trait(read, measurements.get(host)) for host in hosts}
            known = {host: value for host, value in values.items() if value is not None}
            counts = Counter(known.values()).most_common()
            if len(counts) < 2:
                continue
            common, times = counts[0]
            agreed = times * 2 > len(known)
            for host, value in known.items():
                if agreed and value == common:
                    continue
                others = f"{common} on {times} of {len(known)}" if agreed else "its peers do not agree"
                yield PreflightVerdict(
                    host,
                    "uniform",
                    "warn",
                    value,
                    common if agreed else "",
                    f"{trait}: {value} here, {others} ({peers})",
                    "configure hosts of one kind alike, or document why they differ",
                )


def _trait(read: Callable[[Mapping[str, Any]], str], found: Mapping[str, Any] | None) -> str | None:
    try:
        return None if found is None else read(found)
    except (KeyError, TypeError):
        return None
