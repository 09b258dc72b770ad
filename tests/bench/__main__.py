"""`make bench`: each figure with its peer, measured in the same run on the same machine.

Peers: a bare YAML parse for validation; the SDK's own floor (the same program under
`pulumi.runtime.set_mocks`) for previews; the Pulumi CLI with the same providers where it is on PATH;
the policy SDK's own server and checkov for rules.
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

from tests.bench import engines, policies, validation
from tests.bench.measure import Row


def main() -> int:
    """Measure, print one table, and return 0; nothing here passes or fails by time."""
    parser = argparse.ArgumentParser(prog="tests.bench")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each measurement; the median is shown")
    parser.add_argument("--groups", type=int, nargs="*", default=[10, 50], help="node groups of the fleets")
    options = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        rows: list[Row] = []
        rows += validation.measure(Path(folder), options.rounds)
        rows += engines.measure(Path(folder), options.groups, options.rounds)
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
    console.print(table)
    console.print(policies.table(options.rounds))
    if shutil.which("pulumi") is None:
        console.print("The Pulumi CLI is not on PATH: its rows are left out.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
