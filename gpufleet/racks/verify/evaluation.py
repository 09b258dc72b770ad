"""Results of verification: all roles of all hosts, including missing measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpufleet.racks.verify.measurements import RoleMeasurements, again
from gpufleet.racks.verify.result import Result
from gpufleet.racks.verify.roles import EVALUATORS

Measurements = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Host -> name of the measurement -> `{rc, stdout, stderr}`."""


def evaluate(
    measurements: Measurements,
    roles: Mapping[str, Sequence[str]],
    values: Mapping[str, Mapping[str, Any]],
    defaults: Mapping[str, Mapping[str, Any]],
    *,
    containers: frozenset[str] = frozenset(),
    why: Mapping[str, str] | None = None,
) -> tuple[Result, ...]:
    """Return the results of all hosts in `roles` (host -> roles). `why` has the reason for missing
    measurements.

    An unknown role and a missing measurement are failures.
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
                    "check that Ansible reaches it (ansible -m ping)",
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
    evaluator = EVALUATORS.get(measured.role)
    if evaluator is None:
        message = "gpufleet has no checks for this role"
        return [Result(measured.host, measured.role, "judged", "fail", "", "", message, "update gpufleet")]
    try:
        return list(evaluator(measured))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        message = f"the measurements cannot be read ({type(error).__name__}: {error})"
        return [Result(measured.host, measured.role, "judged", "fail", "", "", message, again(measured))]
