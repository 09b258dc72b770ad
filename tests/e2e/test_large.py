"""A hundred thousand hosts on the command line: within ten seconds, with progress output."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.conftest import Checkout
from tests.unit.racks.test_inventory_text import fleet

BOUND_S = 10.0


def test_inventory_of_100_000_hosts_takes_under_ten_seconds_and_shows_progress(
    checkout: Checkout,
) -> None:
    path = fleet(checkout.root / "stacks" / "huge.yaml", 10, 10_000)
    output = Path(checkout.root / "inventory.yaml")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "gpufleet.cli.main", "inventory", str(path), "-o", str(output)],
        cwd=checkout.root,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    # One thread works: CPU time is the time without other tests.
    assert after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime < BOUND_S
    assert "100010 hosts" in done.stderr
    assert "100,010 hosts: written 500,000 of about" in done.stderr
    assert output.read_text().count("s9n10000:") >= 5
    assert checkout.run("validate", str(path)).returncode == 0
