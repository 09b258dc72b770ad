"""A preview whose program starts before the state exists that it compares with."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from gpufleet.engine.api import Changes

from .conftest import Lab

MARKED = """
import pathlib
marks = pathlib.Path(__file__).parent / "marks"
a = Box("a", {"size": 1})
marks.write_text("built")
pulumi.export("arn", a.arn)
"""


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_program_runs_before_its_state_and_compares_with_it(lab: Lab) -> None:
    lab.program(MARKED)
    ready: Future[None] = Future()
    mark = lab.request.program_dir / "marks"
    with ThreadPoolExecutor(1) as pool:
        preview = pool.submit(lab.run, "preview", state_ready=ready)
        _wait_for(mark)
        assert not preview.done()
        assert lab.calls() == []
        state = lab.request.state_file
        other = Lab(lab.folder / "other")
        other.configure(state_file=state, env=lab.request.env).up(MARKED)
        assert not preview.done()
        ready.set_result(None)
        result = preview.result()
    assert result.ok, (result.failures, result.diagnostics)
    assert result.changes == Changes(same=2)


def test_preview_without_its_state_ends_with_its_processes(lab: Lab) -> None:
    lab.program(MARKED)
    ready: Future[None] = Future()
    with ThreadPoolExecutor(1) as pool:
        preview = pool.submit(lab.run, "preview", state_ready=ready)
        _wait_for(lab.request.program_dir / "marks")
        ready.cancel()
        with pytest.raises(CancelledError):
            preview.result(timeout=30)
    assert lab.calls() == []
    assert not lab.request.state_file.exists()
