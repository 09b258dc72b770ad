"""From measurements to results: every role of every host, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpufleet.racks.verify.measurements import RoleMeasurements, again
from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.roles import JUDGES

Measurements = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Host -> name of the measurement -> `{rc, stdout, stderr}`."""


def judge(
    measurements: Measurements,
    roles: Mapping[str, Sequence[str]],
    values: Mapping[str, Mapping[str, Any]],
    defaults: Mapping[str, Mapping[str, Any]],
    *,
    containers: frozenset[str] = frozenset(),
    why: Mapping[str, str] | None = None,
) -> tuple[Result, ...]:
    """The results of all hosts in `roles` (host -> roles). `why` says why a host has no measurements.

    A role that nobody can judge and a measurement that is missing are failures.
    """
    found: list[Result] = []
    for host, names in roles.items():
        reason = (why or {}).get(host, "")
        if reason and not measurements.get(host):
            found.append(
                Result(
                    host,
                    "host",
                    "reached",
                    "fail",
                    "no answer",
                    "an answer",
                    reason,
                    "see that ansible reaches it (ansible -m ping)",
                )
            )
            continue
        for role in names:
            mine = {
                name: value
                for name, value in measurements.get(host, {}).items()
                if name.startswith(f"{role}_")
            }
            known = {**defaults.get(role, {}), **values.get(host, {})}
            found += _role(RoleMeasurements(host, role, known, mine, host in containers, reason))
    return tuple(found)


def _role(measured: RoleMeasurements) -> list[Result]:
    judged = JUDGES.get(measured.role)
    if judged is None:
        message = "gpufleet does not know how to judge this role"
        return [Result(measured.host, measured.role, "judged", "fail", "", "", message, "update gpufleet")]
    try:
        return list(judged(measured))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        message = f"what it measured is not readable ({type(error).__name__}: {error})"
        return [Result(measured.host, measured.role, "judged", "fail", "", "", message, again(measured))]
