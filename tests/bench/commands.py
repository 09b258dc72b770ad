"""`plan` and `check` of prod, each as a process from start to end.

The peer of a plan is the start of its libraries; that of a check is its program under the SDK's
mocks; that of a check with a kept base is a check that deploys its base.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.measure import Row, interleaved
from tests.conftest import ROOT

ENVIRONMENT = "prod"
LIBRARIES = "import typer, pydantic, yaml, rich.console, rich.table"


def measure(folder: Path, rounds: int) -> list[Row]:
    """The rows of the three commands. The base is the checkout's own last commit."""
    kept, empty = folder / "kept", iter(range(sys.maxsize))
    check, base = ("check", ENVIRONMENT), ("check", ENVIRONMENT, "--base", "HEAD")
    _gpufleet(kept, *base)()
    pairs: list[tuple[str, Callable[[], None], str, Callable[[], None]]] = [
        (
            "plan",
            _gpufleet(kept, "plan", ENVIRONMENT),
            "the start of its libraries",
            _python(kept, "-c", LIBRARIES),
        ),
        (
            "check",
            _gpufleet(kept, *check),
            "the SDK under mocks",
            _python(kept, "-m", "tests.bench.floor", str(ROOT), ENVIRONMENT),
        ),
        (
            "check --base, base kept",
            _gpufleet(kept, *base),
            "nothing kept",
            lambda: _gpufleet(folder / f"empty-{next(empty)}", *base)(),
        ),
    ]
    return [Row(what, ENVIRONMENT, *_both(ours, peer, rounds, named)) for what, ours, named, peer in pairs]


def _both(
    ours: Callable[[], None], peer: Callable[[], None], rounds: int, named: str
) -> tuple[list[float], str, list[float]]:
    mine, theirs = interleaved(ours, peer, rounds)
    return mine, named, theirs


def _gpufleet(cache: Path, *words: str) -> Callable[[], None]:
    return _python(cache, "-m", "gpufleet.cli.main", *words)


def _python(cache: Path, *words: str) -> Callable[[], None]:
    # An unused address: the program under mocks calls no AWS, and must start none.
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    if "tests.bench.floor" in words:
        env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"

    def run() -> None:
        done = subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.decode()[-500:]}")

    return run
