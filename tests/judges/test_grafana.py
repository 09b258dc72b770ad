"""Dashboards match Grafana's own schema, options of panels and queries included.

The schema is that of Grafana's Foundation SDK, which is made from Grafana's source. Grafana itself is in
no registry that tests may use. The SDK judges fields and types, not the words of enumerations; v0.0.22 is of
schema version 42, which has all fields that dashboards of version 39 have.
"""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tests.unit.ansible.conftest  # noqa: F401 - finds the collection
from tests.go_programs import GoProgram

SOURCE = Path(__file__).parent / "grafana"


def boards() -> list[dict[str, Any]]:
    from ansible_collections.gpufleet.rack.plugins.filter.dashboards import BOARDS, dashboard

    return [json.loads(dashboard(board.name)) for board in BOARDS]


def judged(given: list[dict[str, Any]]) -> list[str]:
    """What Grafana's schema says of each dashboard; empty if it fits."""
    program = GoProgram("judge", SOURCE, ".").built()
    done = subprocess.run(
        [program], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=60
    )
    return list(json.loads(done.stdout))


def test_every_dashboard_matches_the_schema() -> None:
    given = boards()
    assert len(given) == 7
    assert judged(given) == [""] * len(given)


def first(board: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(panel for panel in board["panels"] if panel["type"] == kind)


@pytest.mark.parametrize(
    ("kind", "path", "value", "says"),
    [
        ("stat", ("options", "colour"), "red", "options.Options: unexpected field 'colour'"),
        ("stat", ("kind",), "stat", "Panel: unexpected field 'kind'"),
        ("timeseries", ("fieldConfig", "defaults", "custom", "lineWidth"), "thin", "lineWidth"),
        ("timeseries", ("targets", 0, "expression"), "up", "Dataquery: unexpected field 'expression'"),
        ("table", ("gridPos", "w"), "wide", "gridPos.w: json: cannot unmarshal string"),
    ],
)
def test_fault_in_a_panel_is_found(kind: str, path: tuple[Any, ...], value: object, says: str) -> None:
    board = copy.deepcopy(boards()[0])
    place: Any = first(board, kind)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (reported,) = judged([board])
    assert says in reported
