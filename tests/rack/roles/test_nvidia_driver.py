"""Driver upgrades: reboots only if needed, no disturbed jobs, interrupted runs, faulty hardware."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from gpufleet.errors import GpufleetError
from gpufleet.racks.events import TaskEvent
from gpufleet.racks.stragglers import marked_processes
from tests.rack.lab import Lab
from tests.rack.roles.proof import play, prove

OLD, OTHER, DRIVER = "570.211.01", "580.126.20", "580.159.03"
PARTS = (
    *("nvidia-open", "nvidia-driver", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-smi"),
    *("libnvidia-ml1", "libcuda1", "nvidia-persistenced", "nvidia-modprobe"),
)
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq install -y --allow-downgrades"
ROLES = ("nvidia_driver", "fabric_manager")
LOADED = "cat /sys/module/nvidia/version; modinfo -F version nvidia"


@pytest.fixture
def rack(gpu_rack: Lab) -> Iterator[Lab]:
    """Bare nodes."""
    gpu_rack.reset(name="bare")
    yield gpu_rack


def with_old_driver(rack: Lab, *nodes: str) -> None:
    """Manually configured nodes of branch 570, with its package names."""
    same = " ".join(f"{part}={OLD}-1" for part in PARTS)
    for node in nodes:
        rack.sh(
            node,
            f"{APT} {same} nvidia-open-570 nvidia-utils-570 nvidia-fabricmanager-570 >/dev/null; "
            "nvidia-smi -L >/dev/null; systemctl start nvidia-persistenced nvidia-fabricmanager",
        )


def booted(rack: Lab, node: str) -> str:
    return rack.sh(node, "cat /proc/sys/kernel/random/boot_id")


def test_node_with_driver_570_is_upgraded_and_rebooted_only_if_gpus_are_in_use(rack: Lab) -> None:
    with_old_driver(rack, "dgx01", "dgx02")
    # Not work, but the kernel cannot unload the driver under it.
    monitor = "exec 3</dev/nvidia0; exec /run/nvtop 1000"
    rack.sh("dgx01", f"cp /bin/sleep /run/nvtop; systemd-run -q sh -c '{monitor}'")
    boots = {node: booted(rack, node) for node in ("dgx01", "dgx02")}

    proof = prove(rack, ROLES, "dgx01,dgx02")

    rebooted = {host for host, task in proof.first.changed if "Reboot" in task}
    assert rebooted == {"dgx01"}
    assert booted(rack, "dgx01") != boots["dgx01"]
    assert booted(rack, "dgx02") == boots["dgx02"]
    for node in ("dgx01", "dgx02"):
        assert rack.sh(node, LOADED).split() == [DRIVER, DRIVER]
        states = rack.sh(node, "nvidia-smi --query-gpu=driver_version,fabric.state --format=csv,noheader")
        assert states.splitlines() == [f"{DRIVER}, Completed"] * 8
        installed = rack.sh(node, "dpkg-query -W -f '${db:Status-Abbrev}${Package} ${Version}\\n' '*nvidia*'")
        there = [line.split()[1:] for line in installed.splitlines() if line[1] == "i"]
        assert {version for _, version in there} == {f"{DRIVER}-1"}
        assert not [name for name, _ in there if name.endswith("-570")]


def test_process_on_a_gpu_stops_the_driver_and_names_its_user(rack: Lab) -> None:
    with_old_driver(rack, "dgx01")
    rack.sh("dgx01", "systemd-run -q --unit=work --uid=games sh -c 'exec 3</dev/nvidia0; exec sleep 1000'")
    for check in (True, False):
        run = play(rack, ["nvidia_driver"], "dgx01", check=check)
        assert run.result.failed_hosts == ("dgx01",)
        assert "dgx01 is in use by process sleep (" in run.messages() and ") of games" in run.messages()
    assert rack.sh("dgx01", LOADED).split() == [OLD, OLD]
    assert rack.sh("dgx01", "systemctl is-active work") == "active\n"


def test_fabric_manager_of_another_version_is_refused_before_any_change(rack: Lab) -> None:
    run = play(rack, "playbooks/gpu.yml", "dgx01", variables={"fabric_manager_version": OTHER})
    assert run.result.failed_hosts == ("dgx01",)
    assert f"Fabric Manager {OTHER} does not work with the driver {DRIVER}" in run.messages()
    assert run.changed == frozenset()
    assert not run.of("Install packages")
    listed = rack.sh(
        "dgx01", "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' '*nvidia*' 2>&1", code=None
    )
    assert not [line for line in listed.splitlines() if line.startswith("installed")]


def test_fabric_manager_is_refused_on_a_host_with_another_driver(rack: Lab) -> None:
    other = " ".join(f"{part}={OTHER}-1" for part in PARTS)
    rack.sh("dgx01", f"{APT} {other} >/dev/null; nvidia-smi -L >/dev/null")
    for check in (True, False):
        run = play(rack, ["fabric_manager"], "dgx01", check=check)
        assert run.result.failed_hosts == ("dgx01",)
        assert f"has the driver {OTHER} installed and {OTHER} loaded" in run.messages()
        assert run.changed == frozenset()
    assert rack.sh("dgx01", "dpkg-query -W nvidia-fabricmanager 2>/dev/null", code=None) == ""


def test_node_with_a_missing_gpu_gets_the_driver_and_a_warning(rack: Lab) -> None:
    rack.hardware("dgx01").remove_gpu(3)
    run = play(rack, ["nvidia_driver"], "dgx01")
    assert not run.result.failures, run.messages()
    assert len(rack.sh("dgx01", "nvidia-smi -L").splitlines()) == 7


def test_node_without_a_gpu_is_reported(rack: Lab) -> None:
    for index in range(8):
        rack.hardware("dgx01").remove_gpu(index)
    run = play(rack, ["nvidia_driver"], "dgx01")
    assert "No NVIDIA GPU is on the PCI bus" in run.messages()


# dpkg reports each step to this program; at the first configured package it kills dpkg and apt.
CUT = """
cat >/usr/local/bin/cut-short <<'END'
#!/bin/sh
while read -r line; do
  case "$line" in *": half-configured")
    rm -f /etc/dpkg/dpkg.cfg.d/cut-short
    apt=$(cut -d' ' -f4 /proc/$PPID/stat)
    kill -9 $PPID $apt
    exit ;;
  esac
done
END
chmod 755 /usr/local/bin/cut-short
echo 'status-logger=exec /usr/local/bin/cut-short' >/etc/dpkg/dpkg.cfg.d/cut-short
"""


def test_next_run_finishes_a_run_that_was_killed_during_an_install(rack: Lab) -> None:
    rack.sh("dgx01", CUT)
    token = os.urandom(8).hex()
    begun, over = threading.Event(), threading.Event()

    def seen(event: TaskEvent) -> None:
        if event.kind == "started" and event.task == "Install packages":
            begun.set()

    def kill() -> None:
        deadline = time.monotonic() + 300
        while not begun.wait(0.1) or not was_cut(rack, "dgx01"):
            if over.wait(0.1) or time.monotonic() > deadline:
                return
        for process in marked_processes(token):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with contextlib.suppress(GpufleetError):
        rack.run(str(_book(rack, ["nvidia_driver"], "dgx01")), on_task=seen, token=token)
    over.set()
    killer.join()
    assert was_cut(rack, "dgx01")
    assert rack.sh("dgx01", "dpkg --audit") != ""

    again = play(rack, ["nvidia_driver"], "dgx01")
    assert not again.result.failures, again.messages()
    assert rack.sh("dgx01", "dpkg --audit") == ""
    assert rack.sh("dgx01", LOADED).split() == [DRIVER, DRIVER]
    assert play(rack, ["nvidia_driver"], "dgx01").changed == frozenset()


def was_cut(rack: Lab, host: str) -> bool:
    """Whether the program has killed dpkg."""
    return rack.sh(host, "test -e /etc/dpkg/dpkg.cfg.d/cut-short || echo cut") == "cut\n"


def _book(rack: Lab, roles: list[str], host: str) -> object:
    """The playbook that `play` writes, once it has been written by a run that changes nothing."""
    play(rack, roles, host, check=True)
    return rack.inventory.with_name("roles-under-test.yml")


SLURM = """\
ClusterName=lab
SlurmctldHost=ctl01
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=1
NodeName=dgx01 CPUs=1
PartitionName=gpu Nodes=dgx01 Default=YES State=UP
"""


def with_slurm(rack: Lab) -> None:
    """A manually configured Slurm with one node."""
    key = base64.b64encode(os.urandom(128)).decode()
    for host, daemon in (("ctl01", "slurmctld"), ("dgx01", "slurmd")):
        rack.sh(
            host,
            f"""
            apt-get -qq update; {APT} munge {daemon} slurm-client >/dev/null
            base64 -d <<<'{key}' >/etc/munge/munge.key
            chown munge: /etc/munge/munge.key; chmod 0400 /etc/munge/munge.key; systemctl restart munge
            mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd; chown slurm: /var/lib/slurm/slurmctld
            cat >/etc/slurm/slurm.conf <<'END'\n{SLURM}END
            systemctl restart {daemon}
            """,
        )
    until(rack, "idle")


def until(rack: Lab, state: str) -> None:
    """Waits for the node to be in a state."""
    deadline = time.monotonic() + 300
    while (reported := rack.sh("ctl01", "sinfo -h -o %T").strip()) != state:
        assert time.monotonic() < deadline, f"{reported}, and not {state}"
        time.sleep(0.3)


def test_driver_never_changes_while_jobs_run(rack: Lab) -> None:
    with_old_driver(rack, "dgx01")
    with_slurm(rack)
    rack.sh("ctl01", "cd /tmp && sbatch -w dgx01 --wrap 'sleep 600'")
    until(rack, "allocated")

    refused = play(rack, ["nvidia_driver"], "dgx01")
    assert refused.result.failed_hosts == ("dgx01",)
    assert "dgx01 is in use by job 1 of root (wrap, RUNNING)" in refused.messages()
    assert rack.sh("dgx01", LOADED).split() == [OLD, OLD]
    assert rack.sh("ctl01", "squeue -h -o %T") == "RUNNING\n"
    until(rack, "draining")
    assert "gpufleet operate: configure" in rack.sh("ctl01", "sinfo -h -N -t drain -o %E")

    rack.sh("ctl01", "scancel --full $(squeue -h -o %A)")
    until(rack, "drained")
    done = play(rack, ["nvidia_driver"], "dgx01")
    assert not done.result.failures, done.messages()
    assert rack.sh("dgx01", LOADED).split() == [DRIVER, DRIVER]
    # Only the playbook return_nodes.yml resumes it, once it is verified; the rest of this node is missing.
    until(rack, "drained")
    soon = {"operation_ready": 1}
    returned = play(rack, "playbooks/return_nodes.yml", "dgx01", variables=soon)
    assert "verification failed" in returned.messages()
    until(rack, "drained")
