"""The guard: a node is drained before a change, and nothing changes while work runs on it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import device_processes, node_guard, workloads

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
module = load("node_guard")
CHANGE = "the driver changes from 570.211.01 to 580.159.03"
JOB = "17 of ada (train, RUNNING)"
# A node of Slurm, its jobs and its reason in files.
SLURM = """\
case "$*" in
  *show*) echo "NodeName=dgx01 State=$(cat {folder}/state) Partitions=all Reason=$(cat {folder}/reason)";;
  *State=DRAIN*) echo IDLE+DRAIN >{folder}/state
    for word in "$@"; do case "$word" in Reason=*) echo "${{word#Reason=}}" >{folder}/reason;; esac; done;;
  *State=RESUME*) echo IDLE >{folder}/state; : >{folder}/reason;;
esac
"""
DAEMON = {"ownerReferences": [{"kind": "DaemonSet"}]}
MANAGED = {"ownerReferences": [{"kind": "ReplicaSet"}]}
GPUS = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8", "memory": "1Ti"}}}]}
PLAIN: dict[str, Any] = {"containers": [{"resources": {}}]}


@pytest.fixture
def host(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host in no scheduler on which nothing runs."""
    monkeypatch.setattr(node_guard, "node_name", lambda: "dgx01")
    monkeypatch.setattr(node_guard, "KUBELET", tmp_path / "kubelet.conf")
    monkeypatch.setattr(workloads, "device_processes", lambda *_, **__: [])
    programs.add("systemctl", "exit 3")
    programs.add("loginctl", "exit 0")
    for name in ("scontrol", "docker"):
        programs.add(name, "echo 'Node dgx01 not found'; exit 1")
    return tmp_path


@pytest.fixture
def slurm(host: Path, programs: Programs) -> Path:
    """The same as an idle node of Slurm; its jobs are in the file `jobs`."""
    for name, text in {"state": "IDLE\n", "reason": "", "jobs": ""}.items():
        (host / name).write_text(text)
    programs.add("scontrol", SLURM.format(folder=host))
    programs.add("squeue", f'case "$*" in *-j*) echo "{JOB}";; *) cat {host}/jobs;; esac')
    return host


@pytest.fixture
def kubernetes(host: Path, programs: Programs) -> Path:
    """The same as a node of Kubernetes; its pods are in the file `pods`."""
    (host / "kubelet.conf").touch()
    (host / "node").write_text(json.dumps({"metadata": {}, "spec": {}, "status": {}}))
    write_pods(host)
    programs.add(
        "kubectl",
        f"""case "$3 $4" in
          'get node') cat {host}/node;;
          'get pods') cat {host}/pods;;
          'create --raw') cat >>{host}/evicted; echo >>{host}/evicted
            [ ! -e {host}/budget ] || {{ cat {host}/budget >&2; exit 1; }}
            echo '{{"items": []}}' >{host}/pods;;
        esac""",
    )
    return host


def write_pods(host: Path, **pods: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Pods by name: metadata and specification."""
    items = [
        {
            "metadata": {"namespace": "team-a", "name": name} | about,
            "spec": spec,
            "status": {"phase": "Running"},
        }
        for name, (about, spec) in pods.items()
    ]
    (host / "pods").write_text(json.dumps({"items": items}))


def drained(run: Run, **more: Any) -> dict[str, Any]:
    return run(module, state="drained", change=CHANGE, **more)


def changes(programs: Programs) -> list[str]:
    return [line for line in programs.called("scontrol") if " update " in line]


def test_host_without_scheduler_and_work_passes(host: Path, run: Run) -> None:
    answer = drained(run)
    assert (answer["changed"], answer["drained"]) == (False, False)


def test_idle_node_is_drained_with_the_operation_and_returned(
    slurm: Path, run: Run, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    assert drained(run, check=True)["drained"] is True
    assert changes(programs) == []
    assert drained(run)["changed"] is True
    assert (slurm / "reason").read_text() == "gpufleet operate: configure by ada\n"
    assert drained(run)["changed"] is False
    assert run(module, state="found")["drained"] is True
    assert run(module, state="returned")["changed"] is True
    assert (slurm / "state").read_text() == "IDLE\n"
    assert run(module, state="found")["drained"] is False
    assert run(module, state="returned")["changed"] is False


def test_drain_of_the_health_check_is_not_confused_with_ours() -> None:
    """The health check resumes nodes whose reason starts with `gpufleet: `."""
    assert node_guard.OPERATION == "configure"
    from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_service import MARK

    assert not MARK.startswith("gpufleet: ")


def test_job_stops_the_change_and_the_node_stays_drained(slurm: Path, run: Run, programs: Programs) -> None:
    (slurm / "jobs").write_text("17\n")
    checked = drained(run, check=True)["msg"]
    assert f"dgx01 is in use by job {JOB}. The node would be drained" in checked
    assert changes(programs) == []
    reported = drained(run)["msg"]
    assert reported.startswith(
        "The driver changes from 570.211.01 to 580.159.03, and dgx01 is in use by job 17"
    )
    assert "The node is drained, so that no new work starts." in reported and "--resume" in reported
    assert (slurm / "state").read_text() == "IDLE+DRAIN\n"
    (slurm / "jobs").write_text("")
    assert drained(run)["drained"] is True


def test_guard_waits_for_jobs(slurm: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (slurm / "jobs").write_text("17\n")
    monkeypatch.setattr(node_guard.time, "sleep", lambda _: (slurm / "jobs").write_text(""))
    assert drained(run, wait_s=60)["drained"] is True


def test_drain_of_an_administrator_is_kept(slurm: Path, run: Run, programs: Programs) -> None:
    (slurm / "state").write_text("IDLE+DRAIN\n")
    (slurm / "reason").write_text("broken fan\n")
    assert drained(run)["drained"] is False
    assert run(module, state="returned")["changed"] is False
    assert changes(programs) == []


def test_node_of_a_silent_controller_is_refused(host: Path, run: Run, programs: Programs) -> None:
    programs.add("scontrol", "echo 'Unable to contact slurm controller (connect failure)'; exit 1")
    assert drained(run)["drained"] is False  # slurmd does not run: a node that is being set up
    programs.add("systemctl", 'case "$*" in *slurmd.service*) exit 0;; esac; exit 3')
    assert "Slurm's controller does not answer" in drained(run)["msg"]


def test_job_step_without_a_controller_stops_the_change(host: Path, run: Run) -> None:
    (host / "proc/4711").mkdir(parents=True)
    (host / "proc/4711/comm").write_text("slurmstepd\n")
    assert "dgx01 is in use by job step of process 4711. Wait until" in drained(run)["msg"]


def test_process_on_a_gpu_stops_the_change(host: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "device_processes", lambda *_, **__: ["python3 (4711) of ada"])
    reported = drained(run)["msg"]
    assert "in use by process python3 (4711) of ada. Wait until" in reported


def test_processes_are_found_by_their_device_files(tmp_path: Path) -> None:
    for number, name, opens, unit in (
        (1, "python3", "/dev/nvidia0", "ssh.service"),
        (2, "ib_write_bw", "/dev/infiniband/uverbs0", "ssh.service"),
        (3, "opensm", "/dev/infiniband/umad0", "opensm.service"),
        (4, "nv-hostengine", "/dev/nvidia0", "nvidia-dcgm.service"),
        (5, "python3", "/dev/nvidia0", "nvidia-dcgm-exporter.service"),
        (6, "nvidia-smi", "/dev/nvidiactl", "ssh.service"),
        (7, "bash", "/dev/null", "ssh.service"),
        (8, "nvsm_core", "/dev/nvidiactl", "nvsm-core.service"),
        (9, "nvsm_api", "/dev/nvidiactl", "nvsm.service"),
    ):
        folder = tmp_path / "proc" / str(number)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "cgroup").write_text(f"0::/system.slice/{unit}\n")
        (folder / "fd" / "3").symlink_to(opens)
    found = device_processes.device_processes("/dev/nvidia", device_processes.RDMA, root=tmp_path)
    assert [each.partition(" of ")[0] for each in found] == [
        "ib_write_bw (2)",
        "nvidia-smi (6)",
        "python3 (1)",
    ]
    found = device_processes.device_processes("/dev/nvidia", root=tmp_path, ignored=device_processes.MONITORS)
    assert len(found) == 1 and found[0].startswith("python3 (1) of ")


# Names by the kubelet with the driver systemd (twice), with cgroupfs, and within a container.
CGROUPS = (
    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/cri-containerd-0c1d.scope",
    "0::/kubepods.slice/kubepods-pod{slice}.slice/cri-containerd-0c1d.scope/init.scope",
    "12:devices:/kubepods/burstable/pod{uid}/0c1d\n1:name=systemd:/kubepods/burstable/pod{uid}/0c1d",
    "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{slice}.slice/cri-containerd-0c1d.scope",
)
UID, OTHER = "7f0ac2be-1d3c-4bb5-9f6e-3b1f0a5d2c11", "7f0ac2be-1d3c-4bb5-9f6e-3b1f0a5d2c12"


def open_device(root: Path, number: int, name: str, cgroup: str, opens: str = "/dev/nvidia0") -> None:
    """A process with a device file open."""
    folder = root / "proc" / str(number)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name[:15]}\n")
    (folder / "cgroup").write_text(f"{cgroup}\n")
    (folder / "fd" / "3").symlink_to(opens)


@pytest.mark.parametrize("form", CGROUPS)
def test_pod_of_a_process_is_found_by_its_cgroup(tmp_path: Path, form: str) -> None:
    cgroup = form.format(uid=UID, slice=UID.replace("-", "_"))
    open_device(tmp_path, 1, "nvidia-device-plugin", cgroup)
    assert device_processes.device_processes("/dev/nvidia", root=tmp_path, pods={UID}) == []
    (found,) = device_processes.device_processes("/dev/nvidia", root=tmp_path, pods={OTHER, UID[:-1]})
    assert found.startswith("nvidia-device-p (1)")


def test_processes_of_daemon_sets_and_static_pods_belong_to_the_node(
    kubernetes: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A static pod has another UID on its node than in the API, without hyphens."""
    real = device_processes.device_processes
    monkeypatch.setattr(workloads, "device_processes", functools.partial(real, root=kubernetes))
    config = "e3b0c44298fc1c149afbf4c8996fb924"
    static = {
        "uid": OTHER,
        "annotations": {"kubernetes.io/config.hash": config},
        "ownerReferences": [{"kind": "Node"}],
    }
    web = {"uid": "web-1", **MANAGED}
    write_pods(kubernetes, plugin=({"uid": UID, **DAEMON}, PLAIN), static=(static, PLAIN), web=(web, PLAIN))
    open_device(kubernetes, 11, "nvidia-device-plugin", CGROUPS[0].format(slice=UID.replace("-", "_")))
    open_device(kubernetes, 12, "monitor", CGROUPS[1].format(slice=config))
    for stops in ("gpus", "host"):
        assert drained(run, check=True, stops=stops)["drained"] is True
    open_device(kubernetes, 13, "python3", CGROUPS[0].format(slice="web_1"))
    reported = drained(run, stops="host")["msg"]
    assert "dgx01 is in use by process python3 (13)" in reported and "(11)" not in reported


INSPECTED = [
    {
        "Name": "/notebook",
        "Config": {"Image": "pytorch:24.08"},
        "HostConfig": {"DeviceRequests": [{"Count": -1}]},
    },
    {
        "Name": "/proxy",
        "Config": {"Image": "nginx"},
        "HostConfig": {"DeviceRequests": None, "Runtime": "runc"},
    },
]


@pytest.mark.parametrize(
    ("stops", "live", "held"),
    [
        ("gpus", "false", ["notebook (pytorch:24.08)"]),
        ("containers", "false", ["notebook (pytorch:24.08)", "proxy (nginx)"]),
        ("containers", "true", []),
        ("host", "true", ["notebook (pytorch:24.08)", "proxy (nginx)"]),
    ],
)
def test_docker_containers_stop_the_changes_that_would_end_them(
    host: Path, run: Run, programs: Programs, stops: str, live: str, held: list[str]
) -> None:
    (host / "inspected").write_text(json.dumps(INSPECTED))
    programs.add(
        "docker", f'case "$1" in ps) echo a b;; inspect) cat {host}/inspected;; info) echo {live};; esac'
    )
    answer = drained(run, stops=stops)
    assert bool(answer.get("failed")) is bool(held)
    for name in ("notebook (pytorch:24.08)", "proxy (nginx)"):
        assert (f"container {name}" in answer.get("msg", "")) is (name in held)


def test_users_who_are_logged_in_stop_a_reboot_only(
    host: Path, run: Run, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "ops")
    programs.add(
        "loginctl",
        """case "$1 $2" in
          list-users*) printf ' 0 root\\n1000 ada\\n1001 ops\\n1002 bob\\n';;
          *ada) echo active;; *) echo lingering;;
        esac""",
    )
    assert not drained(run).get("failed")
    assert "in use by login of ada. Wait" in drained(run, stops="host")["msg"]


def test_pods_with_devices_stop_the_change_and_others_do_not(
    kubernetes: Path, run: Run, programs: Programs
) -> None:
    write_pods(kubernetes, train=(MANAGED, GPUS), plugin=(DAEMON, GPUS), web=(MANAGED, PLAIN))
    reported = drained(run)["msg"]
    assert "in use by pod team-a/train (nvidia.com/gpu: 8). The node is drained" in reported
    verbs = [line.split()[3] for line in programs.called("kubectl") if line.split()[3] != "get"]
    assert verbs == ["annotate", "cordon"]
    write_pods(kubernetes, plugin=(DAEMON, GPUS), web=(MANAGED, PLAIN))
    assert drained(run)["drained"] is True
    assert not (kubernetes / "evicted").exists()


def test_pods_are_evicted_before_a_reboot(kubernetes: Path, run: Run) -> None:
    write_pods(kubernetes, web=(MANAGED, PLAIN), plugin=(DAEMON, PLAIN))
    assert drained(run, check=True, stops="host")["drained"] is True
    assert not (kubernetes / "evicted").exists()
    assert drained(run, stops="host")["drained"] is True
    (evicted,) = (kubernetes / "evicted").read_text().splitlines()
    assert json.loads(evicted)["metadata"] == {"name": "web", "namespace": "team-a"}


def test_disruption_budget_stops_a_reboot(
    kubernetes: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_guard, "EVICTION_S", 0)
    write_pods(kubernetes, web=(MANAGED, PLAIN))
    (kubernetes / "budget").write_text("Cannot evict pod as it would violate the pod's disruption budget.\n")
    reported = drained(run, stops="host")["msg"]
    assert "pods did not leave dgx01 within 0 s: team-a/web Cannot evict pod" in reported
    assert "The node stays cordoned." in reported


def test_pod_that_nothing_starts_again_stops_a_reboot(kubernetes: Path, run: Run) -> None:
    write_pods(kubernetes, alone=({}, PLAIN))
    assert not drained(run).get("failed")
    assert "pod team-a/alone (no controller starts it again)" in drained(run, stops="host")["msg"]
