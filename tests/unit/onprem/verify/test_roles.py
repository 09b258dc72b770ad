"""Each role's judge: silent on a working host, and right about each thing that can be wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.onprem.verify.roles import JUDGES
from tests.conftest import ROOT

from .monitoring_faults import MONITORING_FAULTS
from .samples import (
    CLUSTER_NODES,
    CONTROLLER,
    DRIVER,
    GOOD,
    GPUS,
    KUBERNETES_NODES,
    KUBERNETES_RELEASES,
    MOUNTS,
    NODE_STATE,
    PORTS,
    TRACKING,
    measured,
)

DRAINED = (
    '{"findings": [{"check": "ecc", "subject": "GPU 0", "message": "2 errors", "remedy": "reset", '
    '"action": "drain"}]}'
)
HALF = PORTS.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1)


def controller(**changes: Any) -> dict[str, str]:
    return {"state": json.dumps(CONTROLLER | changes)}


_NODES = json.dumps(CLUSTER_NODES)
FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("bmc", {"state": (1, "")}, "identity", "exit code 1"),
    ("bmc", controller(power="Off"), "power", "the node's power is Off"),
    (
        "bmc",
        controller(firmware={"HostBMC_0": "23.09.20"}),
        "firmware",
        "HostBMC_0 is 23.09.20 instead of 24.09.17",
    ),
    ("bmc", controller(power_cap_w=None), "power_cap", "no W instead of 9000 W"),
    (
        "bmc",
        controller(boot_order=["Boot0003", "Boot0001"]),
        "boot_order",
        "Boot0003 Boot0001 instead of Boot0001 Boot0003",
    ),
    (
        "bmc",
        controller(waits_for_reboot=["SriovEnable"], staged_bios={"SriovEnable": "Enabled"}),
        "bios",
        "SriovEnable waits for a reboot",
    ),
    ("bmc", controller(waits_for_reboot=["SriovEnable"]), "bios", "SriovEnable is not as asked"),
    ("mig", {"modes": "0, Enabled\n1, Enabled\n5, Disabled\n"}, "mode", "GPU 1, 5 are not as asked"),
    ("mig", {"instances": "[]"}, "instances", "GPU 0 has no instances; GPU 5 has no instances"),
    (
        "mig",
        {"instances": json.dumps([{"gpu": g, "profile": "3g.40gb"} for g in (0, 0, 5)])},
        "instances",
        "GPU 5 has 1 x 3g.40gb",
    ),
    ("mig", {"unit": (3, "failed\n")}, "service", "gpufleet-mig.service is failed"),
    *MONITORING_FAULTS,
    (
        "kubernetes_base",
        {"versions": (1, "kubelet 1.34.4-1.1\nkubeadm 1.35.4-1.1\ncontainerd.io 2.2.4-1\n")},
        "release",
        "kubelet is 1.34.4-1.1 instead of 1.35.4; kubectl is not installed instead of 1.35.4",
    ),
    ("kubernetes_base", {"swap": "/swap.img\n"}, "swap", "/swap.img is swap"),
    (
        "kubernetes_base",
        {"sysctl": "net.ipv4.ip_forward = 0\n"},
        "forwarding",
        "packets of pods are not passed on",
    ),
    (
        "kubernetes_base",
        {"cgroup": "tmpfs\n"},
        "control groups",
        "the host has cgroup v1, which kubelets from 1.35 on refuse",
    ),
    ("kubernetes_endpoint", {"ready": (1, "")}, "API", "exit code 1"),
    (
        "kubernetes_control_plane",
        {"nodes": _NODES.replace('"dgx01"', '"dgx09"')},
        "nodes",
        "dgx01 has not joined",
    ),
    (
        "kubernetes_control_plane",
        {"nodes": _NODES.replace('"True"', '"Unknown"', 1)},
        "nodes",
        "ctl01 is not ready",
    ),
    (
        "kubernetes_control_plane",
        {"nodes": _NODES.replace("v1.35.4", "v1.34.4", 1)},
        "nodes",
        "ctl01 runs 1.34.4 instead of 1.35.4",
    ),
    (
        "kubernetes_control_plane",
        {"nodes": _NODES.replace('"r1"', '"r2"')},
        "nodes",
        "dgx01 lacks the labels gpufleet.io/rack",
    ),
    (
        "kubernetes_control_plane",
        {"certificates": '{"apiserver": 12, "scheduler.conf": 299}'},
        "certificates",
        "apiserver ends in 12 days, and was not renewed",
    ),
    ("kubernetes_control_plane", {"backups": "[]"}, "snapshots", "there is no snapshot of etcd"),
    (
        "kubernetes_control_plane",
        {"backups": '[{"taken": "2020-01-01T00:00:00Z"}]'},
        "snapshots",
        "the newest snapshot is too old",
    ),
    (
        "kubernetes_control_plane",
        {"secret_mode": "root 644"},
        "encryption key",
        "root 644 instead of root 600",
    ),
    (
        "kubernetes_node",
        {"self": json.dumps(CLUSTER_NODES["items"][1]).replace('"True"', '"False"')},
        "node",
        "the node is not ready",
    ),
    (
        "base",
        {"time_tracking": TRACKING.replace("-0.000000308", "-30.2")},
        "clock",
        "the clock is 30.2 s off",
    ),
    ("base", {"sysctl": "vm.swappiness = 60\n"}, "sysctl", "vm.swappiness is 60 instead of 10"),
    ("base", {"kernel_command_line": "ro quiet"}, "kernel arguments", "kernel argument iommu=pt is missing"),
    ("base", {"cpu_governor": "schedutil\n"}, "governor", "schedutil instead of performance"),
    (
        "users",
        {"accounts": "ada:x:1000:5001::/:/bin/sh"},
        "accounts",
        "ada is 1000:5001 instead of 5001:5001",
    ),
    ("users", {"accounts": (2, "")}, "accounts", "ada is missing instead of 5001:5001"),
    ("users", {"groups": "vision:x:77:"}, "groups", "vision is 77 instead of 5000"),
    ("users", {"sudoers": (1, "bad permissions")}, "sudoers", "exit code 1: bad permissions"),
    (
        "firewall",
        {"rules": '{"nftables": [{"chain": {"hook": "input", "policy": "accept"}}]}'},
        "rules",
        "policy accept: what is not allowed gets through",
    ),
    (
        "firewall",
        {"rules": (1, "No such file or directory")},
        "rules",
        "exit code 1: No such file or directory",
    ),
    ("firewall", {"enabled": (1, "disabled\n")}, "at boot", "disabled instead of enabled"),
    ("nvidia_driver", {"gpus": GPUS.split("\n", 1)[1]}, "gpus", "7 GPUs answer instead of 8"),
    (
        "nvidia_driver",
        {"gpus": GPUS.replace("Enabled", "Disabled", 1)},
        "gpus",
        "persistence mode is off on GPU 0",
    ),
    ("nvidia_driver", {"gpus": GPUS.replace(DRIVER, "570.1")}, "gpus", "they answer with driver 570.1"),
    ("nvidia_driver", {"loaded": "570.1"}, "loaded", f"570.1 instead of {DRIVER}"),
    ("nvidia_driver", {"license": "NVIDIA"}, "modules", "NVIDIA instead of Dual MIT/GPL"),
    ("nvidia_driver", {"persistence": (3, "inactive\n")}, "persistence", "nvidia-persistenced is inactive"),
    (
        "fabric_manager",
        {"version": "Fabric Manager version is : 570.1"},
        "version",
        f"570.1 instead of {DRIVER}",
    ),
    ("fabric_manager", {"active": (3, "failed\n")}, "service", "nvidia-fabricmanager is failed"),
    (
        "fabric_manager",
        {"state": "0, In Progress, N/A\n1, Completed, Success\n"},
        "fabric",
        "GPU 0 not in the NVLink fabric",
    ),
    ("nccl", {"library": "2.30.7-1+cuda13.0"}, "version", "2.30.7 instead of 2.31.2"),
    ("nccl", {"loads": (1, "OSError")}, "loads", "exit code 1: OSError"),
    ("gpudirect", {"modules": (2, "nvidia_fs\n")}, "modules", "gdrdrv is not loaded"),
    (
        "container_toolkit",
        {"version": "NVIDIA Container Toolkit CLI version 1.18.0"},
        "version",
        "1.18.0 instead of 1.19.1",
    ),
    ("container_toolkit", {"devices": "nvidia.com/gpu=0\n"}, "cdi", "1 GPUs instead of 8"),
    ("dcgm", {"discovery": "7 GPUs found.\n"}, "gpus", "7 GPUs instead of 8"),
    ("dcgm", {"health": "| Overall Health | Failure |"}, "health", "DCGM says Failure"),
    ("dcgm", {"exporter": ""}, "exporter", "0 GPUs instead of 8"),
    ("rdma", {"ports": HALF}, "ports", "7 of 8 ports are good; mlx5_0 at 200 Gb/s instead of 400"),
    (
        "rdma",
        {"ports": PORTS.replace("4: ACTIVE", "1: DOWN", 1)},
        "ports",
        "7 of 8 ports are good; mlx5_0 is DOWN",
    ),
    (
        "rdma",
        {"ports": PORTS.replace("InfiniBand", "Ethernet", 1)},
        "ports",
        "7 of 8 ports are good; mlx5_0 is Ethernet instead of InfiniBand",
    ),
    ("rdma", {"memlock": "8192"}, "memlock", "8192 instead of unlimited"),
    ("rdma", {"driver_loaded": "25.10\n"}, "driver", "25.10 instead of 26.01-1.0.0.0"),
    (
        "roce",
        {"settings": '{"interface": "e", "setting": "mtu", "is": 1500, "should": 9000}'},
        "settings",
        "e: mtu is 1500 instead of 9000",
    ),
    ("roce", {"settings": ""}, "settings", "no interface was found"),
    ("subnet_manager", {"active": (3, "inactive\n")}, "service", "gpufleet-opensm is inactive"),
    (
        "subnet_manager",
        {"sminfo": "sminfo: sm lid 1 state 2 SMINFO_STANDBY"},
        "master",
        "the subnet's manager is 2 SMINFO_STANDBY",
    ),
    ("munge", {"round_trip": (2, "munge: Error")}, "round trip", "exit code 2: munge: Error"),
    ("munge", {"key_mode": "munge 644"}, "key", "munge 644 instead of munge 400"),
    (
        "slurm_database",
        {"service": (3, "active\ninactive\n")},
        "services",
        "mariadb, slurmdbd is active, inactive",
    ),
    (
        "slurm_database",
        {"listens": "LISTEN 0 80 0.0.0.0:3306 0.0.0.0:*"},
        "listens",
        "MariaDB listens on 0.0.0.0:3306",
    ),
    ("slurm_database", {"clusters": ""}, "cluster", "slurmdbd has no cluster lab"),
    (
        "slurm_controller",
        {"ping": "Slurmctld(primary) at ctl01 is DOWN\nSlurmctld(backup) at ctl02 is UP\n"},
        "controllers",
        "Slurmctld(primary) at ctl01 is DOWN",
    ),
    (
        "slurm_controller",
        {"nodes": "dgx01|idle|gpu:h100:8|none\ndgx02|drained|gpu:h100:8|gpufleet: ecc\n"},
        "nodes",
        "dgx02 is drained (gpufleet: ecc)",
    ),
    ("slurm_controller", {"nodes": "dgx01|idle|gpu:h100:8|none\n"}, "nodes", "dgx02 is unknown to Slurm"),
    (
        "slurm_controller",
        {"nodes": "dgx01|idle*|gpu:h100:8|none\ndgx02|idle|gpu:h100:7|none\n"},
        "nodes",
        "dgx01 is idle* (none); dgx02 has 7 GPUs in Slurm instead of 8",
    ),
    (
        "slurm_controller",
        {"limits": "research||gres/gpu=8|normal\n"},
        "accounts",
        "account research may hold 8 GPUs instead of 24",
    ),
    (
        "slurm_controller",
        {"limits": ""},
        "accounts",
        "account research may hold nothing, it is missing GPUs instead of 24",
    ),
    ("health_check", {"show": (1, DRAINED)}, "ecc", "GPU 0 2 errors"),
    ("health_check", {"show": (127, "")}, "healthy", "it is not installed"),
    (
        "health_check",
        {"config": '{"gpus": 4}'},
        "configuration",
        "gpus, gpu, fabric_kind, link_gbps, driver_version, slurm differ",
    ),
    ("slurm_node", {"service": (3, "failed\n")}, "service", "slurmd is failed"),
    ("slurm_node", {"ping": "Slurmctld(primary) at ctl01 is DOWN\n"}, "controllers", "no controller answers"),
    (
        "slurm_node",
        {"state": NODE_STATE.replace("IDLE", "IDLE+DRAIN") + " Reason=new fans [root@x]"},
        "state",
        "it is IDLE+DRAIN (new fans)",
    ),
    (
        "slurm_node",
        {"state": NODE_STATE.replace("h100:8", "h100:7")},
        "state",
        "7 GPUs in Slurm instead of 8",
    ),
    ("slurm_login", {"partitions": ""}, "partitions", "Slurm shows no partition"),
    ("local_nvme", {"mounted": "/dev/sda1 / ext4 rw 0 0"}, "mounted", "/raid is not mounted"),
    ("local_nvme", {"mounted": MOUNTS.replace("xfs rw", "xfs ro")}, "mounted", "/raid is read-only"),
    ("local_nvme", {"fstab": ""}, "at boot", "/raid is not in fstab"),
    ("local_nvme", {"arrays": ""}, "array", "there is no array of the drives"),
    ("nfs_client", {"mounted": ""}, "/home", "/home is not mounted"),
    (
        "nfs_client",
        {"mounted": MOUNTS.replace("nas01", "nas02")},
        "/home",
        "/home is nas02:/export/home instead of nas01:/export/home",
    ),
    ("nfs_client", {"space_of_/home": (124, "")}, "/home answers", "it did not end in time"),
    (
        "kubernetes_gpu",
        {"nodes": KUBERNETES_NODES.replace('"nvidia.com/gpu":"8"', '"nvidia.com/gpu":"7"')},
        "gpus",
        "dgx01 has 7 nvidia.com/gpu instead of 8",
    ),
    (
        "kubernetes_gpu",
        {
            "nodes": KUBERNETES_NODES.replace(
                '{"nvidia.com/gpu.shared":"32"}', '{"nvidia.com/gpu.shared":"28"}'
            )
        },
        "gpus",
        "dgx02 gives out 28 of 32 nvidia.com/gpu.shared: the rest is unhealthy",
    ),
    (
        "kubernetes_gpu",
        {"nodes": KUBERNETES_NODES.replace("dgx02", "dgx09")},
        "gpus",
        "dgx02 has not joined",
    ),
    (
        "kubernetes_gpu",
        {"driver_pods": "gpu-operator/nvidia-driver-daemonset\nkube-system/kube-proxy\n"},
        "one driver",
        "gpu-operator/nvidia-driver-daemonset would bring what the host has already",
    ),
    (
        "kubernetes_gpu",
        {"releases": KUBERNETES_RELEASES.replace("kueue-0.19.2", "kueue-0.18.4")},
        "releases",
        "kueue-0.18.4 deployed instead of kueue-0.19.2 deployed",
    ),
    (
        "kubernetes_gpu",
        {"queues": "research\tFalse\n"},
        "queues",
        "product has no queue; research's is not active",
    ),
    ("lustre_client", {"mounted": ""}, "/scratch", "/scratch is not mounted"),
    ("pyxis_enroot", {"version": (127, "")}, "enroot", "it is not installed"),
    ("pyxis_enroot", {"options": (1, "0\n")}, "pyxis", "srun does not know --container-image"),
]


@pytest.mark.parametrize("role", JUDGES)
def test_a_working_host_passes_with_something_to_show(role: str) -> None:
    results = list(JUDGES[role](measured(role)))
    assert results
    assert [(item.check, item.message) for item in results if item.status != "pass"] == []


@pytest.mark.parametrize(("role", "changes", "check", "message"), FAULTS)
def test_a_fault_is_named(role: str, changes: dict[str, Any], check: str, message: str) -> None:
    results = list(JUDGES[role](measured(role, changes)))
    assert [item.message for item in results if item.check == check and item.status == "fail"] == [message]
    assert all(item.remedy for item in results if item.status == "fail")


@pytest.mark.parametrize("role", JUDGES)
def test_each_missing_measurement_is_a_failure_by_itself(role: str) -> None:
    judged = JUDGES[role](measured(role))
    needed = {item.check for item in judged}
    for name in GOOD[role]:
        left = list(JUDGES[role](measured(role, {name: None})))
        lacking = [item for item in left if item.status == "fail" and "was not measured" in item.message]
        # Where Slurm runs the health check, nobody asks for its timer; of two versions one is the measure.
        if (role, name) in (("health_check", "timer"), ("rdma", "driver_installed")):
            continue
        assert lacking, f"nobody misses {role}_{name}"
        assert {item.check for item in left} == needed


@pytest.mark.parametrize("role", JUDGES)
def test_output_that_nobody_can_read_is_a_failure_and_no_error(role: str) -> None:
    found = measured(role, dict.fromkeys(GOOD[role], "\x00 ; || {"))
    for item in JUDGES[role](found):
        assert item.status in ("pass", "fail", "warn")


def test_a_clock_without_servers_and_a_pending_reboot_are_warnings() -> None:
    changes: dict[str, Any] = {
        "time_tracking": TRACKING.replace("Normal", "Not synchronised"),
        "reboot_required": "*** System restart required ***\n",
    }
    results = {item.check: item for item in JUDGES["base"](measured("base", changes))}
    assert results["time servers"].status == results["reboot"].status == "warn"
    assert results["clock"].status == "pass"


def test_a_container_is_not_asked_for_what_its_machine_decides() -> None:
    changes: dict[str, Any] = {
        "kernel_command_line": "",
        "cpu_governor": (1, ""),
        "sysctl": "net.core.rmem_max = 1\n",
    }
    assert [item.status for item in JUDGES["base"](measured("base", changes, container=True))] == ["pass"] * 3


def test_in_a_container_a_file_system_counts_by_its_place() -> None:
    bound = "/dev/vda /home ext4 rw 0 0\n"
    first, *_ = JUDGES["nfs_client"](measured("nfs_client", {"mounted": bound}, container=True))
    assert first.status == "pass"
    first, *_ = JUDGES["nfs_client"](
        measured("nfs_client", {"mounted": "/dev/vda / ext4 rw 0 0"}, container=True)
    )
    assert first.message == "/home is not mounted"
    first, *_ = JUDGES["nfs_client"](measured("nfs_client", {"mounted": bound}))
    assert first.message == "/home is not mounted"


def test_ports_that_are_named_have_to_be_good_each() -> None:
    named = [f"mlx5_{number}" for number in range(1, 8)]
    first, *_ = JUDGES["rdma"](measured("rdma", {"ports": HALF}, rdma_devices=named))
    assert first.status == "pass"
    first, *_ = JUDGES["rdma"](measured("rdma", {"ports": HALF}, rdma_devices=["mlx5_0", "mlx5_12"]))
    assert first.message == "mlx5_0 at 200 Gb/s instead of 400; mlx5_12 is not there"


def test_without_slurm_the_timer_has_to_run() -> None:
    found = measured("health_check", {"timer": (3, "inactive\n")}, health_check_slurm=False)
    results = {item.check: item for item in JUDGES["health_check"](found)}
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
            found.setdefault(role["role"], set()).add(play["hosts"])
    return found


def test_every_role_is_measured_where_it_is_installed_and_has_a_judge() -> None:
    from gpufleet.onprem.verify.expected import measuring_roles

    measuring: dict[str, set[str]] = {}
    for group, role in measuring_roles(ROOT / "ansible"):
        measuring.setdefault(role, set()).add(group)
    installed = site_roles()
    # Health checks are on all GPU nodes, by one of two playbooks.
    installed["health_check"] = {"rack_gpu_nodes"}
    assert measuring == installed
    assert set(installed) <= set(JUDGES)


def test_instances_of_divided_gpus_are_counted_where_gpus_were() -> None:
    values = {"mig_layout": {"0": {"1g.10gb": 7}}, "slurm_node_mig": {"0": {"1g.10gb": 7}}}
    listed = "".join(f"nvidia.com/gpu={name}\n" for name in [*(f"0:{i}" for i in range(7)), *range(1, 8)])
    (cdi,) = [
        item
        for item in JUDGES["container_toolkit"](measured("container_toolkit", {"devices": listed}, **values))
        if item.check == "cdi"
    ]
    assert (cdi.status, cdi.measured) == ("pass", "14 GPUs and instances")
    whole = measured("container_toolkit", {"devices": listed.replace("gpu=0:6\n", "gpu=0\n")}, **values)
    assert [i.message for i in JUDGES["container_toolkit"](whole) if i.check == "cdi"] == [
        "1 GPUs and instances are missing"
    ]
    good = NODE_STATE.replace("gpu:h100:8", "gpu:h100:7(S:0-1),gpu:1g.10gb:7(S:0)")
    (state,) = [
        item
        for item in JUDGES["slurm_node"](measured("slurm_node", {"state": good}, **values))
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
        assert [i.message for i in JUDGES["slurm_controller"](found) if i.check == "nodes"] == [message]


@pytest.mark.parametrize("role", JUDGES)
def test_judges_ask_for_measurements_that_the_role_makes(role: str) -> None:
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
