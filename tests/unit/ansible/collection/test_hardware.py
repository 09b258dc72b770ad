"""Hardware facts: equal to those of Ansible's module, without gathering all others."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs

HARDWARE = importlib.import_module("ansible_collections.gpufleet.rack.plugins.module_utils.hardware")
NAMES = (
    *("kernel", "architecture", "memtotal_mb", "processor_nproc"),
    *("processor_count", "processor_cores", "processor_threads_per_core"),
)


def setup(tmp_path: Path) -> dict[str, Any]:
    """Facts of `ansible.builtin.setup` on this machine."""
    command = [
        *(Path(sys.executable).parent / "ansible", "localhost", "-i", "localhost,", "-c", "local"),
        *("-e", f"ansible_python_interpreter={sys.executable}", "--tree", tmp_path),
        *("-m", "ansible.builtin.setup", "-a", "gather_subset=!all,!min,hardware,network,kernel"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads((tmp_path / "localhost").read_text())["ansible_facts"]


def test_facts_match_those_of_ansible(tmp_path: Path) -> None:
    theirs, ours = setup(tmp_path), HARDWARE.hardware()
    assert {name: ours[name] for name in NAMES} == {name: theirs[f"ansible_{name}"] for name in NAMES}
    there = theirs.get("ansible_default_ipv4", {})
    assert ours["default_ipv4"] == {name: there[name] for name in ("address", "interface") if name in there}


@pytest.mark.parametrize(
    ("sockets", "cores", "threads"), [(2, 56, 2), (2, 72, 1), (1, 1, 1)], ids=["x86", "Grace", "small"]
)
def test_sockets_cores_and_threads_follow_the_kernel_topology(
    sockets: int, cores: int, threads: int, tmp_path: Path
) -> None:
    number = 0
    for socket in range(sockets):
        for core in range(cores):
            siblings = f"{core}-{core + threads} of {socket}\n"
            for _ in range(threads):
                topology = tmp_path / f"cpu{number}/topology"
                topology.mkdir(parents=True)
                (topology / "physical_package_id").write_text(f"{socket}\n")
                (topology / "thread_siblings_list").write_text(siblings)
                number += 1
    (tmp_path / "cpu9999").mkdir()  # an offline CPU, without a topology

    assert HARDWARE.processors(tmp_path) == {
        "processor_count": sockets,
        "processor_cores": cores,
        "processor_threads_per_core": threads,
    }


def test_host_without_a_default_route_has_no_default_address(programs: Programs) -> None:
    programs.add("ip", "echo 'RTNETLINK answers: Network is unreachable' >&2; exit 2")
    assert HARDWARE.default_address() == {}
