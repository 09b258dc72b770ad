"""A hundred thousand hosts on the command line, with progress output. `make bench` measures the time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import Checkout
from tests.unit.racks.test_inventory_text import fleet


def test_inventory_of_100_000_hosts_shows_progress(checkout: Checkout) -> None:
    path = fleet(checkout.root / "stacks" / "huge.yaml", 10, 10_000)
    output = Path(checkout.root / "inventory.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "gpufleet.cli.main", "inventory", str(path), "-o", str(output)],
        cwd=checkout.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "100010 hosts" in done.stderr
    assert "100,010 hosts: written 500,000 of about" in done.stderr
    assert output.read_text().count("s9n10000:") >= 5
    assert checkout.run("validate", str(path)).returncode == 0
