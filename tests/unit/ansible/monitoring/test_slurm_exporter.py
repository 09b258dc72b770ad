"""The exporter of Slurm, with output of Slurm 22.05 commands on a real slurmctld."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

from tests.loading import load_source

COLLECTIONS = Path(__file__).resolve().parents[4] / "gpufleet/collections"
PROGRAM = Path(__file__).resolve().parents[4] / "ansible/roles/slurm_exporter/files/slurm-exporter"
NOW = time.mktime((2026, 11, 22, 14, 0, 0, 0, 0, -1))
PING = "Slurmctld(primary) at ctl01 is DOWN\nSlurmctld(backup) at ctl02 is UP\n"
NODE = (
    "NodeName={name} CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=N/A AvailableFeatures=(null) "
    "Gres=gpu:h100:8 NodeAddr=127.0.0.1 NodeHostName={name} Port=17001  RealMemory=1000 AllocMem=0 "
    "State={state} ThreadsPerCore=1 Owner=N/A MCS_label=N/A Partitions={partitions}  BootTime=None "
    "LastBusyTime=Unknown CfgTRES=cpu=8,mem=1000M,billing=8{tres} AllocTRES={used} CurrentWatts=0 "
    "ExtSensorsTemp=n/s{reason}\n"
)
NODES = (
    NODE.format(
        name="dgx01",
        state="ALLOCATED",
        partitions="gpu",
        tres=",gres/gpu=8,gres/gpu:h100=8",
        used="cpu=8,gres/gpu=8,gres/gpu:h100=8",
        reason="",
    )
    + NODE.format(
        name="dgx02", state="MIXED+DRAIN", partitions="gpu", tres=",gres/gpu=8", used="gres/gpu=2", reason=""
    )
    + NODE.format(
        name="x1",
        state="IDLE+DRAIN",
        partitions="gpu,b",
        tres="",
        used="",
        reason=' Reason=a fan, "loud" [x] [root@2026-11-22T13:32:13]',
    )
    + NODE.format(name="x2", state="IDLE*", partitions="", tres=",gres/gpu=8", used="", reason="")
)


def job(*fields: str) -> str:
    return "".join(f"{field:32}\x1f" for field in fields) + "\n"


SUBMITTED = "2026-11-22T13:00:00"
JOBS = (
    job("PENDING", "gpu", "red", "Priority", SUBMITTED, "cpu=1,node=1", "gres:gpu:8", "2", "N/A")
    + job(
        *("PENDING", "gpu,b", "red", "ReqNodeNotAvail, UnavailableNodes:dgx[01-02],x1", SUBMITTED, "cpu=1"),
        *("N/A", "1", "gres:gpu:3"),
    )
    + job(
        "PENDING",
        "gpu",
        "blue",
        "QOSMaxGRESPerUser",
        "2026-11-20T13:00:00",
        "cpu=1",
        "gres:gpu",
        "1-2",
        "N/A",
    )
    + job(
        "RUNNING",
        "gpu",
        "red",
        "None",
        SUBMITTED,
        "cpu=8,gres/gpu=8,gres/gpu:h100=8",
        "gres:gpu:8",
        "1",
        "N/A",
    )
)
SDIAG = """\
Server thread count:  3
Agent queue size:     2
Agent count:          1
DBD Agent queue size: 41

Main schedule statistics (microseconds):
	Last cycle:   40
	Mean cycle:   2500000
	Last queue length: 7

Backfilling stats
	Total backfilled jobs (since last slurm start): 12
	Total backfilled jobs (since last stats cycle start): 3
	Last cycle when: Sun Nov 22 13:32:10 2026 (1795354330)
	Last cycle: 900
	Mean cycle: 1500
	Last depth cycle: 5
	Last depth cycle (try sched): 4
	Last queue length: 6
"""
SACCT = "COMPLETED|red\nCOMPLETED|red\nCANCELLED by 5001|blue\n"
SAID = {"ping": PING, "nodes": NODES, "jobs": JOBS, "scheduler": SDIAG, "sacct": SACCT}


@pytest.fixture(scope="module")
def exporter() -> ModuleType:
    return load_source(PROGRAM, "slurm_exporter_under_test")


@pytest.fixture(scope="module")
def reported(exporter: ModuleType) -> dict[str, float]:
    return samples(exporter.figures_of(SAID, NOW))


def samples(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    assert len({name for name, _, _ in lines}) == len(lines)
    return {name: float(value) for name, _, value in lines}


def test_promtool_accepts_the_metrics(exporter: ModuleType) -> None:
    text = exporter.figures_of(SAID, NOW)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nodes_and_gpus_are_counted_once_for_the_cluster_and_per_partition(
    reported: dict[str, float],
) -> None:
    assert reported['slurm_nodes{partition="",state="allocated"}'] == 1
    assert reported['slurm_nodes{partition="",state="draining"}'] == 1
    assert reported['slurm_nodes{partition="",state="drained"}'] == 1
    assert reported['slurm_nodes{partition="",state="down"}'] == 1
    assert reported['slurm_nodes{partition="b",state="drained"}'] == 1
    assert reported['slurm_gpus{partition=""}'] == 32
    assert (reported['slurm_gpus{partition="gpu"}'], reported['slurm_gpus{partition="b"}']) == (24, 8)
    assert reported['slurm_gpus_allocated{partition=""}'] == 10
    # Six beside the job on the draining node, and sixteen on the drained one and on the silent one.
    assert reported['slurm_gpus_unavailable{partition=""}'] == 22


def test_cloud_nodes_count_while_they_run(exporter: ModuleType) -> None:
    more = {"partitions": "use1", "tres": ",gres/gpu=8", "used": "", "reason": ""}
    cloud = [
        NODE.format(name=f"use1-{number}", state=state, **more)
        for number, state in enumerate(
            (
                "IDLE+CLOUD+POWERED_DOWN",
                "DOWN+CLOUD+POWERED_DOWN",
                "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP",
                "IDLE+CLOUD+POWERING_DOWN",
                "IDLE+CLOUD",
            )
        )
    ]
    found = samples(exporter.figures_of(SAID | {"nodes": "".join(cloud)}, NOW))
    assert {name: value for name, value in found.items() if name.startswith("slurm_nodes{")} == {
        'slurm_nodes{partition="",state="idle"}': 1,
        'slurm_nodes{partition="use1",state="idle"}': 1,
    }
    assert found['slurm_gpus{partition=""}'] == 8
    assert found['slurm_gpus_unavailable{partition=""}'] == 0


def test_manual_drain_reason_is_exported_in_full_with_its_time(reported: dict[str, float]) -> None:
    labels = 'node="x1",state="drained",reason="a fan, \\"loud\\" [x]",user="root"'
    name = f"slurm_node_unavailable_since_seconds{{{labels}}}"
    assert NOW - reported[name] == 27 * 60 + 47
    assert len([each for each in reported if each.startswith("slurm_node_unavailable")]) == 1


def test_queue_is_exported_by_account_and_reason_with_requested_gpus(reported: dict[str, float]) -> None:
    assert reported['slurm_jobs{partition="gpu",account="red",state="running"}'] == 1
    assert reported['slurm_jobs_pending{partition="gpu",reason="Priority"}'] == 1
    # No node names in a label.
    assert reported['slurm_jobs_pending{partition="b",reason="ReqNodeNotAvail"}'] == 1
    assert reported['slurm_jobs_pending_gpus{partition="gpu"}'] == 16 + 3 + 1
    assert reported['slurm_jobs_pending_gpus{partition="b"}'] == 3
    assert reported['slurm_account_gpus_allocated{account="red"}'] == 8
    # The job that has waited for two days waits for its own limit, not for its turn.
    assert reported['slurm_job_pending_age_seconds{partition="gpu"}'] == 3600


def test_controllers_scheduler_and_ended_jobs_are_exported(reported: dict[str, float]) -> None:
    assert reported['slurm_controller_up{controller="ctl01",role="primary"}'] == 0
    assert reported['slurm_controller_up{controller="ctl02",role="backup"}'] == 1
    assert (reported["slurm_agent_queue_size"], reported["slurm_dbd_queue_size"]) == (2, 41)
    assert reported["slurm_scheduler_cycle_mean_seconds"] == 2.5
    assert reported["slurm_backfill_cycle_last_seconds"] == 0.0009
    assert (reported["slurm_backfill_jobs_total"], reported["slurm_backfill_depth"]) == (12, 5)
    assert reported['slurm_jobs_ended{account="red",state="completed"}'] == 2
    assert reported['slurm_jobs_ended{account="blue",state="cancelled"}'] == 1


@pytest.mark.parametrize("source", SAID)
def test_silent_source_is_missing_and_the_rest_is_exported(exporter: ModuleType, source: str) -> None:
    found = samples(exporter.figures_of(SAID | {source: None}, NOW))
    for name in SAID:
        assert found[f'slurm_exporter_source_up{{source="{name}"}}'] == (name != source)


def test_unparsable_output_counts_as_no_answer(exporter: ModuleType) -> None:
    found = samples(exporter.figures_of(SAID | {"nodes": "NodeName=x\n"}, NOW))
    assert found['slurm_exporter_source_up{source="nodes"}'] == 0
    assert not [name for name in found if name.startswith("slurm_gpus")]


def test_concurrent_scrapes_share_one_query_of_slurm(
    exporter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("scontrol", PING), ("squeue", ""), ("sdiag", SDIAG), ("sacct", "")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho $* >>{tmp_path}/asked\ncat <<'END'\n{text}END\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    source = exporter.Source(60, 10)
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(source.text())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4 and len(set(answers)) == 1
    assert len((tmp_path / "asked").read_text().splitlines()) == len(exporter.COMMANDS)


def test_exporter_listens_on_loopback(tmp_path: Path) -> None:
    hanging = tmp_path / "scontrol"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(COLLECTIONS)}
    port = 20000 + os.getpid() % 10000
    command = [sys.executable, "-B", PROGRAM, "--port", str(port), "--timeout", "1"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            text = fetch(f"http://127.0.0.1:{port}/metrics")
        finally:
            process.terminate()
    # A command that hangs times out; the others are missing or do not answer.
    assert re.search(r'slurm_exporter_source_up\{source="nodes"\} 0', text)


def fetch(url: str) -> str:
    end = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return str(answer.read().decode())
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.mark.parametrize("text", ["|ml\n", "\n|\n", "COMPLETED\n"])
def test_a_job_without_a_state_or_account_does_not_stop_the_exporter(exporter: ModuleType, text: str) -> None:
    text_of = exporter.figures_of({**SAID, "sacct": text}, NOW)
    assert 'slurm_exporter_source_up{source="sacct"} 1' in text_of
    assert 'slurm_exporter_source_up{source="nodes"} 1' in text_of
