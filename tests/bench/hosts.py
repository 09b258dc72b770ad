"""A hundred thousand rack hosts: `gpufleet inventory` and `plan` beside ansible-inventory on the same hosts.

Ours ends with the file that Ansible reads; the peer reads that file and lists it. Both are processes of
their own, from their start to their end. The plan has no peer; it is compared with the same list.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.bench.measure import Row, seconds
from tests.conftest import ROOT
from tests.unit.racks.test_inventory_text import fleet

SITES, NODES = 10, 10_000
SIZE = f"{SITES * (NODES + 1):,} hosts"
PEER = "ansible-inventory --list"


def measure(folder: Path, rounds: int) -> list[Row]:
    """The inventory and the plan of ten sites with 10,000 nodes and a controller each."""
    path = fleet(folder / "fleet.yaml", SITES, NODES)
    hosts = folder / "inventory.yaml"
    listing = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(hosts), "--list"]
    inventory: list[float] = []
    plan: list[float] = []
    peers: list[float] = []
    for _ in range(rounds):
        inventory.append(seconds(lambda: _run(*_gpufleet("inventory", str(path), "-o", str(hosts)))))
        plan.append(seconds(lambda: _run(*_gpufleet("plan", str(path)))))
        peers.append(seconds(lambda: _run(*listing)))
    return [
        Row("write the inventory", SIZE, inventory, PEER, peers),
        Row("plan", SIZE, plan, PEER, peers),
    ]


def _gpufleet(*words: str) -> list[str]:
    return [sys.executable, "-m", "gpufleet.cli.main", *words]


def _run(*command: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()[-500:]}")
