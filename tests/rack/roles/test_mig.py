"""MIG instances on real hosts: created, kept over a boot, never under jobs, and removed again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rack.lab import Lab
from tests.rack.roles.proof import RoleRuns, play, prove

ROLES = ("nvidia_driver", "mig")
NODE = "dgx01"
LAYOUT = {"0": {"1g.10gb": 7}, "3": {"4g.40gb": 1, "3g.40gb": 1}}
CONFIGURATION = "/etc/gpufleet/mig.json"


@pytest.fixture(scope="module")
def proven(gpu_rack: Lab) -> Iterator[tuple[Lab, RoleRuns]]:
    """A node whose driver is installed and whose GPUs are divided in one run."""
    gpu_rack.reset(name="bare")
    yield gpu_rack, prove(gpu_rack, ROLES, NODE, variables={"mig_layout": LAYOUT})


@pytest.fixture
def rack(proven: tuple[Lab, RoleRuns]) -> Lab:
    return proven[0]


def divided(rack: Lab, layout: dict[str, Any], **options: Any) -> Any:
    """A run of the role for another layout."""
    return play(rack, ["mig"], NODE, variables={"mig_layout": layout}, **options)


def instances(rack: Lab) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for item in json.loads(rack.sh(NODE, "/usr/lib/gpufleet/mig show")):
        found.setdefault(item["gpu"], Counter())[item["profile"]] += 1
        for name in item["files"]:
            rack.sh(NODE, f"test -c {name}")
    return found


def test_instances_are_made_with_the_driver_in_one_run(proven: tuple[Lab, RoleRuns]) -> None:
    rack, proof = proven
    assert {task for _, task in proof.first.changed if task.startswith("mig")} == {
        "mig : Write configuration",
        "mig : Create MIG instances",
        "mig : Enable and start MIG at boot",
    }
    assert instances(rack) == {int(gpu): Counter(wanted) for gpu, wanted in LAYOUT.items()}
    listed = rack.sh(NODE, "nvidia-smi -L")
    assert listed.count("  MIG 1g.10gb ") == 7 and listed.count("UUID: MIG-") == 9
    # The driver places instances of one profile, and all have different device files.
    files = [tuple(item["files"]) for item in json.loads(rack.sh(NODE, "cat /run/gpufleet/mig.json"))]
    assert len(set(files)) == 9 and all(name[0] in ("/dev/nvidia0", "/dev/nvidia3") for name in files)


def test_instances_exist_after_a_boot_and_nothing_changes(rack: Lab) -> None:
    rack.rack.stop(NODE)
    rack.rack.start(NODE)
    assert rack.sh(NODE, "systemctl is-active gpufleet-mig.service") == "active\n"
    assert instances(rack) == {int(gpu): Counter(wanted) for gpu, wanted in LAYOUT.items()}
    again = divided(rack, LAYOUT)
    assert not again.result.failures, again.messages()
    assert again.changed == frozenset()


def test_correct_gpus_keep_their_instances_when_another_changes(rack: Lab) -> None:
    before = [item for item in json.loads(rack.sh(NODE, "/usr/lib/gpufleet/mig show")) if item["gpu"] == 0]
    other = LAYOUT | {"3": {"2g.20gb": 3}}
    proof = prove(rack, ["mig"], NODE, variables={"mig_layout": other})
    assert "mig : Create MIG instances" in {task for _, task in proof.first.changed}
    after = [item for item in json.loads(rack.sh(NODE, "/usr/lib/gpufleet/mig show")) if item["gpu"] == 0]
    assert after == before
    assert instances(rack)[3] == Counter({"2g.20gb": 3})


JOB = "17 of ada (train, RUNNING)"
# Slurm with one job on the node.
SLURM = f"""
cd /usr/local/bin
cat >scontrol <<'END'
#!/bin/sh
echo "NodeName={NODE} CPUAlloc=16 State=MIXED Partitions=gpu"
END
cat >squeue <<'END'
#!/bin/sh
case "$*" in *-j*) echo "{JOB}";; *) echo 17;; esac
END
chmod 755 scontrol squeue
"""


def test_job_on_the_node_stops_the_change_before_anything_is_written(rack: Lab) -> None:
    before = rack.sh(NODE, f"nvidia-smi -L; cat {CONFIGURATION}")
    rack.sh(NODE, SLURM)
    try:
        refused = divided(rack, {"1": {"7g.80gb": 1}})
        # A correct layout needs no drained node.
        same = play(rack, ["mig"], NODE, variables={"mig_layout": json.loads(before[before.index("{") :])})
    finally:
        rack.sh(NODE, "rm /usr/local/bin/scontrol /usr/local/bin/squeue")
    assert f"{NODE} is in use by job {JOB}" in refused.messages()
    assert "Nothing was changed" in refused.messages()
    assert rack.sh(NODE, f"nvidia-smi -L; cat {CONFIGURATION}") == before
    assert not same.result.failures, same.messages()


def test_gpu_in_use_fails_with_the_remedy_and_the_next_run_finishes(rack: Lab) -> None:
    layout = {"5": {"1g.20gb": 4}}
    with rack.hardware(NODE).changing() as state:
        state["gpus"][5]["mig_held"] = True
    failed = divided(rack, layout)
    assert "GPU 5 does not take MIG mode on while something has it open" in failed.messages()
    with rack.hardware(NODE).changing() as state:
        state["gpus"][5]["mig_held"] = False
    finished = divided(rack, layout)
    assert not finished.result.failures, finished.messages()
    assert instances(rack) == {5: Counter({"1g.20gb": 4})}


def test_unknown_profile_is_refused_with_the_supported_ones(rack: Lab) -> None:
    before = instances(rack)
    failed = divided(rack, {"5": {"1g.12gb": 7}})
    assert "GPU 5 has no profile 1g.12gb with this driver; it has 1g.10gb" in failed.messages()
    assert instances(rack) == before


def test_gpus_without_a_layout_are_made_whole(rack: Lab) -> None:
    proof = prove(rack, ["mig"], NODE, variables={"mig_layout": {}})
    assert "mig : Create MIG instances" in {task for _, task in proof.first.changed}
    assert "MIG" not in rack.sh(NODE, "nvidia-smi -L")
    assert instances(rack) == {}
