"""Measurements: they change nothing, never fail, and leave nothing running."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]


def test_output_errors_and_exit_codes_are_recorded(run: Run, programs: Programs, tmp_path: Path) -> None:
    programs.add("sinfo", "echo idle; echo warning >&2; exit 3")
    (tmp_path / "file").write_text("text\n")
    answer = run(
        load("measure"),
        commands={"slurm": ["sinfo", "-h"], "gone": ["no-such-program"]},
        read={"there": str(tmp_path / "file"), "missing": str(tmp_path / "nothing")},
    )
    assert answer["changed"] is False
    found = answer["measurements"]
    assert found["slurm"] == {"rc": 3, "stdout": "idle\n", "stderr": "warning\n"}
    assert found["gone"]["rc"] == 127 and "no-such-program" in found["gone"]["stderr"]
    assert found["there"] == {"rc": 0, "stdout": "text\n", "stderr": ""}
    assert found["missing"]["rc"] == 1 and found["missing"]["stdout"] == ""


def test_hanging_command_is_ended_with_its_child_processes(run: Run, tmp_path: Path) -> None:
    script = f"(sleep 30; touch {tmp_path}/late) & echo partly; wait"
    began = time.monotonic()
    answer = run(load("measure"), commands={"slow": ["/bin/sh", "-c", script]}, timeout_s=1)
    assert time.monotonic() - began < 15
    found = answer["measurements"]["slow"]
    assert found["rc"] == 124 and found["stdout"] == "partly\n" and "1 s" in found["stderr"]


def test_check_mode_measures(run: Run) -> None:
    answer = run(load("measure"), check=True, commands={"x": ["/bin/echo", "1"]})
    assert answer["measurements"]["x"]["stdout"] == "1\n"


def test_binary_and_endless_output_is_handled(run: Run, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    module = load("measure")
    answer = run(
        module,
        commands={"much": ["/bin/sh", "-c", f"head -c {module.LIMIT * 2} /dev/zero | tr '\\0' x"]},
        read={"binary": str(tmp_path / "binary")},
    )
    assert len(answer["measurements"]["much"]["stdout"]) == module.LIMIT
    assert answer["measurements"]["binary"]["rc"] == 0
