"""Faults of controllers, the system, GPUs, the fabric and Kubernetes, with the messages of their judges."""

from __future__ import annotations

import json
from typing import Any

from .samples import CLUSTER_NODES, CONTROLLER, DRIVER, GPUS, PORTS, TRACKING, containerd

HALF = PORTS.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1)


def controller(**changes: Any) -> dict[str, str]:
    return {"state": json.dumps(CONTROLLER | changes)}


_NODES = json.dumps(CLUSTER_NODES)
HOST_FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("bmc", {"state": (1, "")}, "identity", "exit code 1"),
    (
        "bmc",
        controller(health=[{"name": "Leak 1", "health": "Critical", "message": "LeakDetected"}]),
        "health",
        "Leak 1 is Critical (LeakDetected)",
    ),
    ("bmc", controller(power="Off"), "power", "the node's power is Off"),
    (
        "bmc",
        controller(firmware={"HostBMC_0": "23.09.20"}),
        "firmware",
        "HostBMC_0 is 23.09.20 instead of 24.09.17",
    ),
    ("bmc", controller(power_cap_w=None), "power_cap", "no W instead of 9000 W"),
    ("bmc", controller(power_w=9500), "power_cap", "9000 W are set and not in force: the node draws 9500 W"),
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
    (
        "kubernetes_base",
        {"runtimes": containerd("runc")},
        "runtimes",
        "containerd has no runtime nvidia",
    ),
    (
        "kubernetes_base",
        {"runtimes": containerd("nvidia", "runc", cdi=False)},
        "runtimes",
        "CDI is disabled",
    ),
    ("kubernetes_base", {"runtimes": (1, "unknown service")}, "runtimes", "exit code 1: unknown service"),
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
    (
        "kubernetes_control_plane",
        {"kubelets": '{"ctl01": 364, "dgx01": "it has no certificate"}'},
        "kubelet certificates",
        "dgx01: it has no certificate",
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
    (
        "container_toolkit",
        {"configuration": "#accept-nvidia-visible-devices-envvar-when-unprivileged = true\n"},
        "environment",
        "unprivileged containers get GPUs that they do not request",
    ),
    (
        "nvidia_driver",
        {"gpus": (14, "0, GPU-a, x, 580, Enabled\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")},
        "gpus",
        "exit code 14: WARNING: infoROM is corrupted at gpu 0000:3B:00.0",
    ),
    ("dcgm", {"discovery": "7 GPUs found.\n"}, "gpus", "7 GPUs instead of 8"),
    (
        "dcgm",
        {"health": '{"body": {"Overall Health": {"value": "Failure"}}}'},
        "health",
        "DCGM reports Failure",
    ),
    (
        "dcgm",
        {"health": "| Overall Health | Failure |"},
        "health",
        "the output is not what was expected (ValueError: substring not found)",
    ),
    ("dcgm", {"exporter": ""}, "exporter", "0 GPUs instead of 8"),
    ("rdma", {"ports": HALF}, "ports", "mlx5_0 at 200 Gb/s instead of 400"),
    (
        "rdma",
        {"ports": PORTS.replace("4: ACTIVE", "1: DOWN", 1)},
        "ports",
        "mlx5_0 is DOWN",
    ),
    (
        "rdma",
        {"ports": PORTS.replace("InfiniBand", "Ethernet", 1)},
        "ports",
        "mlx5_0 is Ethernet instead of InfiniBand",
    ),
    ("rdma", {"memlock": "8192"}, "memlock", "8192 instead of unlimited"),
    ("rdma", {"driver_loaded": "25.10\n"}, "driver", "25.10 instead of 26.01-1.0.0.0"),
    ("rdma", {"ipoib": "loaded\n"}, "IP over InfiniBand", "loaded instead of absent"),
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
]
