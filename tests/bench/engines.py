"""Previews and updates of growing fleets: the embedded engine, the SDK's floor, the Pulumi CLI."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

from msgspec.structs import replace

from gpufleet.engine import forks
from gpufleet.engine.api import Engine, Event, RunResult, StackRequest, Verb
from gpufleet.engine.select import select_engine
from gpufleet.findings import FINDINGS_SHOWN
from gpufleet.lab.aws import daemon
from gpufleet.preload import PROGRAMS, PROVIDERS
from gpufleet.workspace import Workspace
from tests.bench.generate import fleet_file, write_environment
from tests.bench.measure import Row, interleaved, seconds

ROOT = Path(__file__).resolve().parents[2]


def measure(folder: Path, sizes: list[int], rounds: int) -> list[Row]:
    """Preview beside the floor (and the CLI's preview), first and second update beside the CLI's."""
    rows: list[Row] = []
    for groups in sizes:
        with sandboxed(folder / f"fleet-{groups}", fleet_file(groups)) as workspace:
            rows += _measure(workspace, groups, rounds)
    return rows


@contextlib.contextmanager
def sandboxed(checkout: Path, text: str) -> Iterator[Workspace]:
    """A checkout with a fleet file as its stack `bench`, and an emulated AWS of its own."""
    checkout.mkdir()
    shutil.copy(ROOT / "Pulumi.yaml", checkout)
    shutil.copytree(ROOT / "stacks", checkout / "stacks", ignore=shutil.ignore_patterns("__pycache__"))
    write_environment(checkout, text)
    workspace = Workspace(checkout, "bench")
    try:
        yield workspace
    finally:
        daemon.stop(workspace.sandbox_root)


def cli_backend(checkout: Path) -> Mapping[str, str]:
    """The environment in which the Pulumi CLI keeps its state in files below a checkout."""
    state = checkout / "pulumi-state"
    state.mkdir()
    return {
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "bench",
        "PULUMI_HOME": str(checkout / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def _measure(workspace: Workspace, groups: int, rounds: int) -> list[Row]:
    request = workspace.request("bench", "sandbox")
    embedded = select_engine("embedded")
    resources = sum(run(embedded, "preview", request).changes.to_json().values())
    size = f"{groups} node groups, {resources} resources"
    ours, bare = interleaved(lambda: run(embedded, "preview", request), lambda: floor(workspace.root), rounds)
    rows = [Row("preview", size, ours, "the SDK under mocks", bare)]
    if shutil.which("pulumi") is None:
        up = [seconds(lambda: run(embedded, "up", request))]
        again = [seconds(lambda: run(embedded, "up", request)) for _ in range(rounds)]
        rows.append(Row("up, nothing to change", size, again, "up, everything to create", up))
        return [*rows, _forked(embedded, request, size, rounds)]
    with mock.patch.dict(os.environ, cli_backend(workspace.root)):
        cli = select_engine("pulumi")
        verbs: tuple[tuple[Verb, str], ...] = (
            ("preview", "preview"),
            ("up", "up, everything to create"),
            ("up", "up, nothing to change"),
            ("destroy", "destroy"),
        )
        for verb, what in verbs:
            times = rounds if what in {"preview", "up, nothing to change"} else 1
            theirs = [seconds(lambda verb=verb: run(cli, verb, request)) for _ in range(times)]
            rows.append(Row(what, size, [], "the Pulumi CLI, file backend", theirs))
        for row, (verb, _) in zip(rows[1:], verbs, strict=True):
            row.ours.extend(seconds(lambda verb=verb: run(embedded, verb, request)) for _ in row.peers)
    return [*rows, _forked(embedded, request, size, rounds)]


def _forked(engine: Engine, request: StackRequest, size: str, rounds: int) -> Row:
    """A preview and an update in one process, as in `gpufleet up`, against separate processes."""
    request = replace(request, preload=(*PROGRAMS, *PROVIDERS))

    def both() -> None:
        forks.end()
        for verb in ("preview", "up"):
            _run(engine, verb, request)

    def each_by_itself() -> None:
        with mock.patch.object(forks, "prepare", return_value=None):
            both()

    run(engine, "up", request)
    ours, theirs = interleaved(both, each_by_itself, rounds)
    run(engine, "destroy", request)
    return Row("preview and up, nothing to change", size, ours, "every process started by itself", theirs)


def run(engine: Engine, verb: Verb, request: StackRequest) -> RunResult:
    """One run that must succeed, with nothing imported before it starts."""
    forks.end()
    return _run(engine, verb, request)


def _run(engine: Engine, verb: Verb, request: StackRequest) -> RunResult:

    def ignore(_event: Event) -> None:
        pass

    result: RunResult = getattr(engine, verb)(request, ignore)
    if not result.ok:
        reported = "; ".join(event.error for event in result.failures) or "; ".join(
            item.message for item in result.diagnostics
        )
        raise RuntimeError(f"{engine.name} {verb} failed: {reported}")
    return result


def floor(checkout: Path) -> None:
    """The program of a checkout under the SDK's mocks, in a process of its own."""
    subprocess.run(
        [sys.executable, "-m", "tests.bench.floor", str(checkout), "bench"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, FINDINGS_SHOWN: "1"},
    )
