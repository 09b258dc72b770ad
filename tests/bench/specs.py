"""Validating specifications, in node groups a second: ours, aws-parallelcluster's, a bare YAML parse.

aws-parallelcluster is installed on demand in an environment of its own, in the user's cache folder.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from gpufleet.checks import validate
from tests.bench.generate import fleet_file
from tests.bench.measure import interleaved, seconds

VERSION = "3.16.1"
MOST = 50
"""Queues of one cluster: the maximum of aws-parallelcluster."""

SIZES = (MOST, 200, 1000)


def report(console: Console, folder: Path, rounds: int) -> None:
    """Print the table, without aws-parallelcluster if it is not available."""
    table = Table("what", "groups", "ms", "groups / s", title="validation: medians, everything loaded before")
    for groups in SIZES:
        ours, bare = _ours(folder, groups, rounds)
        _row(table, "a fleet file: read, all checks", groups, ours)
        _row(table, "the same file: a bare parse (libyaml)", groups, bare)
    python, reason = _peer_python()
    if python is None:
        console.print(f"aws-parallelcluster {VERSION} cannot be had ({reason}): its rows are left out.")
    else:
        taken = _theirs(python, rounds)
        for what, parts in (
            ("its own: parse, schema, all validators", ("parse", "schema", "validate")),
            ("its own: parse and schema alone", ("parse", "schema")),
            ("the same file: a bare parse (PyYAML)", ("parse",)),
        ):
            sums = [sum(each) for each in zip(*(taken[part] for part in parts), strict=True)]
            _row(table, f"aws-parallelcluster, {what}", MOST, sums)
    console.print(table)


def _row(table: Table, what: str, groups: int, taken: list[float]) -> None:
    middle = statistics.median(taken)
    table.add_row(what, f"{groups:,}", f"{middle * 1000:.1f}", f"{groups / middle:,.0f}")


def _ours(folder: Path, groups: int, rounds: int) -> tuple[list[float], list[float]]:
    path = folder / f"specs-{groups}.yaml"
    path.write_text(fleet_file(groups), encoding="utf-8")

    def check() -> object:
        return validate(str(path), root=folder)

    def parse() -> object:
        with path.open(encoding="utf-8") as file:
            return yaml.load(file, Loader=yaml.CSafeLoader)

    seconds(check)
    return interleaved(check, parse, rounds)


def _theirs(python: Path, rounds: int) -> dict[str, list[float]]:
    script = Path(__file__).with_name("parallelcluster_peer.py")
    ran = subprocess.run(
        [python, script, str(MOST), str(rounds)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"aws-parallelcluster: {ran.stderr.strip()[-2000:]}")
    taken: dict[str, list[float]] = json.loads(ran.stdout)
    return taken


def _peer_python() -> tuple[Path | None, str]:
    """The Python that has aws-parallelcluster, installed if needed; otherwise why it is not available."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "gpufleet-bench" / f"aws-parallelcluster-{VERSION}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return python, ""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True, text=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", f"aws-parallelcluster=={VERSION}"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        reported = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return None, reported[-1] if reported else type(error).__name__
    complete.touch()
    return python, ""
