"""Each role's evaluation: silent on a working host, and right about each thing that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.racks.verify.fabric import NO_RAILS
from gpufleet.racks.verify.gpu import dcgm_health
from gpufleet.racks.verify.measurements import Reading
from gpufleet.racks.verify.roles import EVALUATORS
from tests.conftest import ROOT

from .host_faults import HALF, HOST_FAULTS
from .monitoring_faults import MONITORING_FAULTS
from .samples import (
    GOOD,
    NODE_STATE,
    PORTS,
    TRACKING,
    measured,
)
from .scheduler_faults import SCHEDULER_FAULTS

FAULTS = (*HOST_FAULTS, *MONITORING_FAULTS, *SCHEDULER_FAULTS)


@pytest.mark.parametrize("role", EVALUATORS)
def test_working_host_passes_with_a_summary(role: str) -> None:
    results = list(EVALUATORS[role](measured(role)))
    assert results
    assert [(item.check, item.message) for item in results if item.status != "pass"] == []


@pytest.mark.parametrize(("role", "changes", "check", "message"), FAULTS)
def test_fault_is_named(role: str, changes: dict[str, Any], check: str, message: str) -> None:
    results = list(EVALUATORS[role](measured(role, changes)))
    assert [item.message for item in results if item.check == check and item.status == "fail"] == [message]
    assert all(item.remedy for item in results if item.status == "fail")


@pytest.mark.parametrize("role", EVALUATORS)
def test_each_missing_measurement_is_a_separate_failure(role: str) -> None:
    results_of_role = EVALUATORS[role](measured(role))
    needed = {item.check for item in results_of_role}
    for name in GOOD[role]:
        left = list(EVALUATORS[role](measured(role, {name: None})))
        lacking = [item for item in left if item.status == "fail" and "was not measured" in item.message]
        # The timer is not checked if Slurm runs the health check; one of two versions is enough.
        if (role, name) in (("health_check", "timer"), ("rdma", "driver_installed")):
            continue
        assert lacking, f"no judge needs {role}_{name}"
        assert {item.check for item in left} == needed


@pytest.mark.parametrize("role", EVALUATORS)
def test_unparsable_output_is_a_failure_and_not_an_exception(role: str) -> None:
    found = measured(role, dict.fromkeys(GOOD[role], "\x00 ; || {"))
    for item in EVALUATORS[role](found):
        assert item.status in ("pass", "fail", "warn")


def test_clock_without_servers_and_pending_reboot_are_warnings() -> None:
    changes: dict[str, Any] = {
        "time_tracking": TRACKING.replace("Normal", "Not synchronised"),
        "reboot_required": "*** System restart required ***\n",
    }
    results = {item.check: item for item in EVALUATORS["base"](measured("base", changes))}
    assert results["time servers"].status == results["reboot"].status == "warn"
    assert results["clock"].status == "pass"


def test_container_is_not_judged_by_settings_of_its_machine() -> None:
    changes: dict[str, Any] = {
        "kernel_command_line": "",
        "cpu_governor": (1, ""),
        "sysctl": "net.core.rmem_max = 1\n",
    }
    results = EVALUATORS["base"](measured("base", changes, container=True))
    assert [item.status for item in results if item.role == "base"] == ["pass"] * 3


def test_cgroup_v1_fits_a_kubelet_whose_own_settings_allow_it() -> None:
    allowed = {"cgroup": "tmpfs\nfailCgroupV1: false\n"}
    found = list(EVALUATORS["kubernetes_base"](measured("kubernetes_base", allowed)))
    assert {item.status for item in found if item.check == "control groups"} == {"pass"}


def test_file_system_in_a_container_is_judged_by_its_path() -> None:
    bound = "/dev/vda /home ext4 rw 0 0\n"
    first, *_ = EVALUATORS["nfs_client"](measured("nfs_client", {"mounted": bound}, container=True))
    assert first.status == "pass"
    first, *_ = EVALUATORS["nfs_client"](
        measured("nfs_client", {"mounted": "/dev/vda / ext4 rw 0 0"}, container=True)
    )
    assert first.message == "/home is not mounted"
    first, *_ = EVALUATORS["nfs_client"](measured("nfs_client", {"mounted": bound}))
    assert first.message == "/home is not mounted"


def test_each_named_port_must_be_good() -> None:
    named = [f"mlx5_{number}" for number in range(1, 8)]
    first, *_ = EVALUATORS["rdma"](measured("rdma", {"ports": HALF}, rdma_devices=named))
    assert first.status == "pass"
    first, *_ = EVALUATORS["rdma"](measured("rdma", {"ports": HALF}, rdma_devices=["mlx5_0", "mlx5_12"]))
    assert first.message == "mlx5_0 at 200 Gb/s instead of 400; mlx5_12 is not there"


BRIDGES = "".join(
    f"mlx5_{n}|1|InfiniBand|4: ACTIVE|100 Gb/sec (4X EDR)|MT4129|NVSwitch\n" for n in range(20, 24)
)
ETHERNET = "mlx5_9|1|Ethernet|1: DOWN|40 Gb/sec (4X QDR)|MT4125|fabric\n"


@pytest.mark.parametrize(
    ("text", "adapters", "message"),
    [
        # Without a number of adapters a node still needs a good port, and a dead one is one of them.
        ("", 0, "no port is good"),
        (BRIDGES, 0, "no port is good"),
        (ETHERNET, 0, "no port is good; mlx5_9 is Ethernet instead of InfiniBand"),
        (PORTS, 0, NO_RAILS),
        (PORTS + ETHERNET + BRIDGES, 0, NO_RAILS),
        (PORTS.replace("4: ACTIVE", "1: DOWN", 1), 0, "mlx5_0 is DOWN"),
        # With one, adapters of another kind and those that manage NVSwitches are neither counted nor blamed.
        (PORTS + ETHERNET + BRIDGES, 8, NO_RAILS),
        (HALF + ETHERNET + BRIDGES, 8, "7 of 8 ports are good; mlx5_0 at 200 Gb/s instead of 400"),
        (
            PORTS.replace("4: ACTIVE", "1: DOWN", 4)
            + BRIDGES.replace("100 Gb/sec (4X EDR)", "400 Gb/sec (4X NDR)"),
            8,
            "4 of 8 ports are good; mlx5_0 is DOWN; mlx5_1 is DOWN; mlx5_2 is DOWN; mlx5_3 is DOWN",
        ),
    ],
)
def test_ports_without_names_never_pass_and_faults_are_found_by_number_and_kind(
    text: str, adapters: int, message: str
) -> None:
    first, *_ = EVALUATORS["rdma"](measured("rdma", {"ports": text}, rdma_adapters=adapters, rdma_devices=[]))
    assert first.message == message


def test_a_second_port_of_a_rail_s_device_does_not_stand_in_for_the_first() -> None:
    second = "mlx5_0|2|InfiniBand|4: ACTIVE|400 Gb/sec (4X NDR)|MT4129|fabric\n"
    text = PORTS.replace("4: ACTIVE", "1: DOWN", 1) + second
    first, *_ = EVALUATORS["rdma"](measured("rdma", {"ports": text}, rdma_devices=["mlx5_0", "mlx5_0:2"]))
    assert (first.measured, first.message) == ("1 of 2 rails at 400 Gb/s", "mlx5_0 is DOWN")


def test_timer_must_run_without_slurm() -> None:
    found = measured("health_check", {"timer": (3, "inactive\n")}, health_check_slurm=False)
    results = {item.check: item for item in EVALUATORS["health_check"](found)}
    assert results["timer"].message == "gpufleet-health.timer is inactive"


def plays(name: str) -> Iterator[dict[str, Any]]:
    """The plays of a playbook, with those that it imports."""
    folder = ROOT / "ansible" / "playbooks"
    for play in yaml.safe_load((folder / name).read_text()):
        imported = play.get("ansible.builtin.import_playbook")
        if imported:
            yield from plays(imported)
        else:
            yield play


def site_roles() -> dict[str, set[str]]:
    """Role -> the groups on whose hosts the playbooks install it."""
    found: dict[str, set[str]] = {}
    for play in plays("site.yml"):
        for role in play.get("roles") or ():
            found.setdefault(role["role"].removeprefix("gpufleet.rack."), set()).add(play["hosts"])
    return found


def test_every_role_is_measured_where_it_is_installed_and_has_a_judge() -> None:
    from gpufleet.racks.verify.expected import measuring_roles

    measuring: dict[str, set[str]] = {}
    for group, role in measuring_roles(ROOT / "ansible"):
        measuring.setdefault(role, set()).add(group)
    installed = site_roles()
    # Health checks are on all GPU nodes, by one of two playbooks.
    installed["health_check"] = {"rack_gpu_nodes"}
    # Where there is no target, the role only removes.
    installed["backup_target"] = {"rack_backup_target"}
    assert measuring == installed
    assert set(installed) <= set(EVALUATORS)


def test_mig_instances_are_counted_instead_of_gpus() -> None:
    values = {"mig_layout": {"0": {"1g.10gb": 7}}, "slurm_node_mig": {"0": {"1g.10gb": 7}}}
    listed = "".join(f"nvidia.com/gpu={name}\n" for name in [*(f"0:{i}" for i in range(7)), *range(1, 8)])
    (cdi,) = [
        item
        for item in EVALUATORS["container_toolkit"](
            measured("container_toolkit", {"devices": listed}, **values)
        )
        if item.check == "cdi"
    ]
    assert (cdi.status, cdi.measured) == ("pass", "14 GPUs and instances")
    whole = measured("container_toolkit", {"devices": listed.replace("gpu=0:6\n", "gpu=0\n")}, **values)
    assert [i.message for i in EVALUATORS["container_toolkit"](whole) if i.check == "cdi"] == [
        "1 GPUs and instances are missing"
    ]
    good = NODE_STATE.replace("gpu:h100:8", "gpu:h100:7(S:0-1),gpu:1g.10gb:7(S:0)")
    (state,) = [
        item
        for item in EVALUATORS["slurm_node"](measured("slurm_node", {"state": good}, **values))
        if item.check == "state"
    ]
    assert (state.status, state.measured) == ("pass", "IDLE, 14 GPUs")
    layouts = [{"nodes": ["dgx02"], "gpus": [0, 1], "profiles": {"1g.10gb": 7}}]
    lines = "dgx01|idle|gpu:h100:8|none\ndgx02|idle|gpu:h100:6,gpu:1g.10gb:14|none\n"
    for text, message in (
        (lines, ""),
        (lines.replace(":14", ":13"), "dgx02 has 19 GPUs in Slurm instead of 20"),
    ):
        found = measured("slurm_controller", {"nodes": text}, slurm_controller_mig=layouts)
        assert [i.message for i in EVALUATORS["slurm_controller"](found) if i.check == "nodes"] == [message]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"ssh": (1, "0\n")}, "users without a job can log in: /etc/pam.d/sshd has no pam_slurm_adopt"),
        ({"sshd": "usepam no\n"}, "sshd does not ask PAM, so that logins need no job"),
    ],
)
def test_login_without_a_job_is_a_finding_unless_the_site_allows_it(
    found: dict[str, Any], message: str
) -> None:
    node = measured("slurm_node", found)
    assert [item.message for item in EVALUATORS["slurm_node"](node) if item.status == "fail"] == [message]
    free = measured("slurm_node", found, slurm_node_ssh_requires_job=False)
    assert not [item for item in EVALUATORS["slurm_node"](free) if item.status == "fail"]


@pytest.mark.parametrize("role", EVALUATORS)
def test_judges_use_only_measurements_that_the_role_makes(role: str) -> None:
    file = ROOT / "ansible" / "roles" / role / "tasks" / "verify.yml"
    text = file.read_text()
    made = names_of(file)
    for name in GOOD[role]:
        if "_of_/" in name:
            continue
        assert f"{role}_{name}" in made or f"{role}_{name}:" in text


def names_of(file: Path) -> set[str]:
    """The names of a role's measurements."""
    found: set[str] = set()
    for task in yaml.safe_load(file.read_text()):
        module = task.get("gpufleet.rack.measure", {})
        for kind in ("commands", "read"):
            values = module.get(kind, {})
            found |= set(values) if isinstance(values, dict) else set()
        # A controller is measured by its own module, from where Ansible runs.
        found |= {"bmc_state"} if "gpufleet.rack.bmc" in task else set()
    return found


IMEX = "IMEX daemon status is -3 (not READY) Check IMEX installation and configuration."


def dcgm_report(state: str, words: str) -> str:
    error = {"NVLINK system": {"overflow": [words], "value": state}}
    gpu = {"children": {"Errors": {"children": error}}, "value": state}
    body = {"Overall Health": {"value": state}, "GPU": {"children": {"0": gpu}}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]})


def test_imex_and_warnings_of_dcgm_are_no_problem_and_failures_are_reported_with_their_message() -> None:
    assert dcgm_health(dcgm_report("Failure", IMEX)) == Reading("Healthy")
    warned = dcgm_health(dcgm_report("Warning", "Detected clocks event"))
    assert warned == Reading("Healthy (GPU 0 Detected clocks event)")
    failed = dcgm_health(dcgm_report("Failure", "GPU 0 has fallen off the bus"))
    assert failed.problem == "DCGM reports Failure: GPU 0 GPU 0 has fallen off the bus"
