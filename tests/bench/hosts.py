"""A hundred thousand rack hosts: `gpufleet inventory` and `plan` beside ansible-inventory on the same hosts.

gpufleet ends with the file that Ansible reads; the peer reads that file and lists it. Both are separate
processes, from start to end. The plan has no peer; it is compared with the same list.
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
PEER = "ansible-inventory --list"
PEER_ENDS_S = 600.0


def measure(folder: Path, rounds: int, sites: int = SITES, peer_ends_s: float = PEER_ENDS_S) -> list[Row]:
    """The inventory and the plan of sites with 10,000 nodes and a controller each.

    The peer takes minutes: it runs once, for at most `peer_ends_s`, which its row then shows.
    """
    path = fleet(folder / "fleet.yaml", sites, NODES)
    hosts = folder / "inventory.yaml"
    listing = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(hosts), "--list"]
    inventory: list[float] = []
    plan: list[float] = []
    for _ in range(rounds):
        inventory.append(seconds(lambda: _run(_gpufleet("inventory", str(path), "-o", str(hosts)))))
        plan.append(seconds(lambda: _run(_gpufleet("plan", str(path)))))
    peer = PEER
    try:
        peers = [seconds(lambda: _run(listing, peer_ends_s))]
    except subprocess.TimeoutExpired:
        peer, peers = f"{PEER}, unfinished", [peer_ends_s]
    size = f"{sites * (NODES + 1):,} hosts"
    return [Row("write the inventory", size, inventory, peer, peers), Row("plan", size, plan, peer, peers)]


def _gpufleet(*words: str) -> list[str]:
    return [sys.executable, "-m", "gpufleet.cli.main", *words]


def _run(command: list[str], limit_s: float | None = None) -> None:
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False, timeout=limit_s)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()[-500:]}")
