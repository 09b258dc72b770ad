"""Previews and updates of growing fleets: the embedded engine, the SDK's floor, the Pulumi CLI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

from gpufleet.cli.context import Workspace
from gpufleet.engine.api import Engine, Event, RunResult, StackRequest, Verb
from gpufleet.engine.select import select_engine
from gpufleet.sandbox import daemon
from tests.bench.generate import write_environment
from tests.bench.measure import Row, interleaved, seconds

ROOT = Path(__file__).resolve().parents[2]


def measure(folder: Path, sizes: list[int], rounds: int) -> list[Row]:
    """Preview beside the floor (and the CLI's preview), first and second update beside the CLI's."""
    rows: list[Row] = []
    for groups in sizes:
        checkout = folder / f"fleet-{groups}"
        checkout.mkdir()
        shutil.copy(ROOT / "Pulumi.yaml", checkout)
        shutil.copytree(ROOT / "stacks", checkout / "stacks", ignore=shutil.ignore_patterns("__pycache__"))
        write_environment(checkout, groups)
        workspace = Workspace(checkout, "bench")
        try:
            rows += _measure(workspace, groups, rounds)
        finally:
            daemon.stop(workspace.sandbox_root)
    return rows


def _measure(workspace: Workspace, groups: int, rounds: int) -> list[Row]:
    request = workspace.request("bench", "sandbox")
    embedded = select_engine("embedded")
    resources = sum(_run(embedded, "preview", request).changes.to_json().values())
    size = f"{groups} node groups, {resources} resources"
    ours, floor = interleaved(
        lambda: _run(embedded, "preview", request), lambda: _floor(workspace.root), rounds
    )
    rows = [Row("preview", size, ours, "the SDK under mocks", floor)]
    if shutil.which("pulumi") is None:
        up = [seconds(lambda: _run(embedded, "up", request))]
        again = [seconds(lambda: _run(embedded, "up", request)) for _ in range(rounds)]
        _run(embedded, "destroy", request)
        return [*rows, Row("up, nothing to change", size, again, "up, everything to create", up)]
    state = workspace.root / "pulumi-state"
    state.mkdir()
    backend = {
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "bench",
        "PULUMI_HOME": str(workspace.root / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    with mock.patch.dict(os.environ, backend):
        cli = select_engine("pulumi")
        verbs: tuple[tuple[Verb, str], ...] = (
            ("preview", "preview"),
            ("up", "up, everything to create"),
            ("up", "up, nothing to change"),
            ("destroy", "destroy"),
        )
        for verb, what in verbs:
            times = rounds if what in {"preview", "up, nothing to change"} else 1
            theirs = [seconds(lambda verb=verb: _run(cli, verb, request)) for _ in range(times)]
            rows.append(Row(what, size, [], "the Pulumi CLI, file backend", theirs))
        for row, (verb, _) in zip(rows[1:], verbs, strict=True):
            row.ours.extend(seconds(lambda verb=verb: _run(embedded, verb, request)) for _ in row.peers)
    return rows


def _run(engine: Engine, verb: Verb, request: StackRequest) -> RunResult:
    def ignore(_event: Event) -> None:
        pass

    result: RunResult = getattr(engine, verb)(request, ignore)
    if not result.ok:
        told = "; ".join(event.error for event in result.failures) or "; ".join(
            item.message for item in result.diagnostics
        )
        raise RuntimeError(f"{engine.name} {verb} failed: {told}")
    return result


def _floor(checkout: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.bench.floor", str(checkout), "bench"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
