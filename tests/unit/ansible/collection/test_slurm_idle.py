"""A node is idle once Slurm has drained it and no job is left, and an answer is needed for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
module = load("slurm_idle")


@pytest.mark.parametrize(
    ("reported", "code", "free"),
    [
        ("NodeName=dgx001 CPUAlloc=0 State=IDLE+DRAIN ThreadsPerCore=2", 0, True),
        ("NodeName=dgx001 CPUAlloc=0 State=DOWN*+DRAIN", 0, True),
        ("NodeName=dgx001 CPUAlloc=4 State=MIXED+DRAIN", 0, False),
        ("NodeName=dgx001 CPUAlloc=0 State=COMPLETING+DRAIN", 0, False),
        ("NodeName=dgx001 CPUAlloc=0 State=IDLE", 0, False),
        ("Node dgx001 not found", 1, True),
        ("slurm_load_node error: Unable to contact slurm controller (connect failure)", 1, False),
    ],
)
def test_node_is_free_once_slurm_has_drained_it(
    run: Run, programs: Programs, reported: str, code: int, free: bool
) -> None:
    programs.add("scontrol", f"echo '{reported}'; exit {code}")
    answer = run(module, node="dgx001")
    assert bool(answer.get("failed")) is not free
    assert free or answer["msg"].endswith("Nothing was changed.")


def test_host_without_slurm_has_no_slurm_jobs(
    run: Run, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(programs.folder))
    assert not run(module, node="dgx001").get("failed")
