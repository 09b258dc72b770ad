"""`make bench`: each figure with its peer, measured in the same run on the same machine.

Peers: the start of its libraries for `plan`; a bare YAML parse for validation; the SDK's own floor (the same
program under `pulumi.runtime.set_mocks`) for previews and `check`; the Pulumi CLI with the same providers
where it is on PATH; the policy SDK's own server and checkov for rules; plain ansible-core for
the racks' roles; its list of the same hosts for large inventories; plain Python and simpy for simulated jobs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpufleet.lab.rack import missing
from tests.bench import (
    clusters,
    commands,
    cur,
    engines,
    hosts,
    libraries,
    many,
    notices,
    policies,
    racks,
    scale,
    specs,
    spot,
    validation,
)
from tests.bench.measure import Row

PARTS = ("commands", "engine", "scale", "rules", "racks", "cluster", "hosts", "economics", "notices")


def main() -> int:
    """Measure, print one table, and return 0; no time limit fails it."""
    parser = argparse.ArgumentParser(prog="tests.bench")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each measurement; the median is shown")
    parser.add_argument("--groups", type=int, nargs="*", default=[10, 50], help="node groups of the fleets")
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        choices=PARTS,
        help="only these; default: all",
    )
    parser.add_argument(
        "--scale-groups", type=int, nargs="+", default=scale.GROUPS, help="node groups of the scale case"
    )
    parser.add_argument(
        "--cli-seconds",
        type=float,
        default=300.0,
        help="the Pulumi CLI's time in the scale case: larger sizes are left out; inf: none is",
    )
    options = parser.parse_args()
    parts = options.only or PARTS
    console = Console(width=120)
    if "commands" in parts:
        with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
            rows = commands.measure(Path(folder), options.rounds)
            console.print(_table([*rows, *libraries.measure(options.rounds)]))
    if "engine" in parts:
        console.print(engine_table(options))
        if shutil.which("pulumi") is None:
            console.print("The Pulumi CLI is not on PATH: its rows are left out.")
    if "scale" in parts:
        with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
            specs.report(console, Path(folder), options.rounds)
            scale.report(console, Path(folder), options.scale_groups, options.rounds, options.cli_seconds)
    if "rules" in parts:
        console.print(policies.table(options.rounds))
    without = f"Without a rack in a box, which needs {missing()}: its rows are left out."
    if "racks" in parts:
        console.print(racks.table(options.rounds) or without)
        console.print(many.table())
    if "cluster" in parts:
        console.print(clusters.table() or without)
    if "hosts" in parts:
        console.print(hosts_table(options))
    if "economics" in parts:
        console.print(spot.table(options.rounds))
        with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
            console.print(_table(cur.measure(Path(folder), options.rounds)))
    if "notices" in parts:
        console.print(notices.table())
    return 0


def engine_table(options: argparse.Namespace) -> Table:
    """Fleet files and engines against peers."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        rows: list[Row] = []
        rows += validation.measure(Path(folder), options.rounds)
        rows += engines.measure(Path(folder), options.groups, options.rounds)
    return _table(rows)


def hosts_table(options: argparse.Namespace) -> Table:
    """A hundred thousand rack hosts against Ansible's list of them."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        return _table(hosts.measure(Path(folder), options.rounds))


def _table(rows: list[Row]) -> Table:
    table = Table("what", "size", "ours", "peer", "peer's", "ours / peer", title="median of runs, seconds")
    for row in rows:
        table.add_row(
            row.what,
            row.size,
            f"{statistics.median(row.ours):.3f}",
            row.peer,
            f"{statistics.median(row.peers):.3f}",
            f"{statistics.median(row.ours) / statistics.median(row.peers):.2f}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
