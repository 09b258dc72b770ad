"""Measurements of hosts of a working cluster, by role, in the output format of the tools."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from gpufleet.catalog import load_catalog
from gpufleet.racks.inventory import software_of
from gpufleet.racks.verify.measurements import RoleMeasurements
from gpufleet.racks.verify.monitoring import RULE_GROUPS

DRIVER = "580.159.03"
GPUS = "".join(f"{i}, NVIDIA H100 80GB HBM3, GPU-{i}, {DRIVER}, Enabled\n" for i in range(8))
LINKS = """\
CA    16  1 0xa088c203000b0a10 4x NDR - SW     4  1 0x2c5eab0300b87b40 ( 'dgx01 mlx5_0' - 'leaf01' )
SW     4  1 0x2c5eab0300b87b40 4x NDR - CA    16  1 0xa088c203000b0a10 ( 'leaf01' - 'dgx01 mlx5_0' )
SW     4 64 0x2c5eab0300b87b40 4x SDR                                    'leaf01'
"""
PORTS = "".join(f"mlx5_{i}|1|InfiniBand|4: ACTIVE|400 Gb/sec (4X NDR)|MT4129|fabric\n" for i in range(8))
TRACKING = (
    "0A5A000B,10.90.0.11,9,1795282632.4,-0.000000308,0.0,0.0,0.07,0.0,0.15,0.00002,0.000008,2.0,Normal\n"
)
LISTENING = "LISTEN 0 4096 0.0.0.0:6819 0.0.0.0:*\nLISTEN 0 80 127.0.0.1:3306 0.0.0.0:*\n"
RULES = (
    '{"nftables": [{"metainfo": {}}, {"table": {"name": "gpufleet"}}, '
    '{"chain": {"name": "input", "hook": "input", "policy": "drop"}}]}'
)
MOUNTS = (
    "/dev/sda1 / ext4 rw 0 0\n/dev/md0 /raid xfs rw,noatime 0 0\n"
    "nas01:/export/home /home nfs4 rw,vers=4.2 0 0\n"
    "10.0.0.1@o2ib:/scratch /scratch lustre rw,flock 0 0\n"
    "beegfs_nodev /beegfs beegfs rw,nosuid,nodev,relatime,cfgFile=/etc/beegfs/beegfs-client.conf,"
    "sysMgmtdHost=mgmtd01 0 0\n"
    "weka02/fast /fast wekafs rw,nosuid,nodev,relatime,writecache,inode_bits=auto,readahead_kb=32768,"
    "dentry_max_age_positive=1000,dentry_max_age_negative=0,container_name=client 0 0\n"
    "archive /archive gpfs ro,nosuid,nodev,relatime 0 0\n"
)
NODE_STATE = (
    "NodeName=dgx01 Arch=x86_64 Gres=gpu:h100:8 NodeAddr=dgx01 OS=Linux 6.8.0 State=IDLE ThreadsPerCore=2 "
    "CfgTRES=cpu=224,gres/gpu=8\n"
)
HEALTH = '{"schema": 1, "healthy": true, "findings": []}'
HEALTH_CONFIG = (
    '{"gpus": 8, "gpu": "H100", "fabric_kind": "infiniband", "link_gbps": 400, '
    f'"driver_version": "{DRIVER}", "slurm": true, "kubernetes": false}}'
)
SPLIT = {"0": {"3g.40gb": 2}, "5": {"3g.40gb": 2}}
CONTROLLER: dict[str, Any] = {
    "model": "DGXH100",
    "serial": "1660224000001",
    "power": "On",
    "firmware": {"HostBMC_0": "24.09.17"},
    "power_cap_w": 9000,
    "power_w": 9100,
    "boot_order": ["Boot0001", "Boot0003"],
    "wanted_boot_order": ["Boot0001", "Boot0003"],
    "bios": {"SriovEnable": "Enabled"},
    "staged_bios": {},
    "waits_for_reboot": [],
}
EXPORTED = "".join(f'DCGM_FI_DEV_GPU_TEMP{{gpu="{i}",UUID="GPU-{i}"}} 32\n' for i in range(8))

KUBERNETES_NODES = (
    'ctl01\t{"cpu":"8"}\t{"cpu":"8"}\n'
    'dgx01\t{"cpu":"224","nvidia.com/gpu":"8"}\t{"nvidia.com/gpu":"8"}\n'
    'dgx02\t{"nvidia.com/gpu":"0","nvidia.com/gpu.shared":"32"}\t{"nvidia.com/gpu.shared":"32"}\n'
)
KUBERNETES_RELEASES = (
    '[{"name": "gpu-operator", "chart": "gpu-operator-v26.7.0", "status": "deployed"},'
    ' {"name": "kueue", "chart": "kueue-0.19.2", "status": "deployed"},'
    ' {"name": "network-operator", "chart": "network-operator-26.4.0", "status": "deployed"}]'
)
NODE_METRICS = (
    'node_uname_info{nodename="dgx01"} 1\nnode_textfile_scrape_error 0\n'
    'node_scrape_collector_success{collector="systemd"} 1\n'
)
PROMETHEUS = json.dumps(
    {
        "targets": [["node", "dgx01", "up", ""], ["node", "ctl01", "up", ""], ["dcgm", "dgx01", "up", ""]],
        "rules": {f"gpufleet-{name}": 5 for name in RULE_GROUPS},
        "broken_rules": [],
        "alertmanagers": 1,
    }
)

KUBERNETES = "1.35.4"
CLUSTER_NODES = {
    "items": [
        {
            "metadata": {"name": name, "labels": {"gpufleet.io/rack": "r1"}},
            "spec": {},
            "status": {
                "nodeInfo": {"kubeletVersion": f"v{KUBERNETES}"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for name in ("ctl01", "dgx01")
    ]
}

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"


def policy(**packages: tuple[str, str]) -> str:
    """`apt-cache policy` of installed packages: name -> version and repository."""
    return "".join(
        f"{name}:\n  Installed: {version}\n  Candidate: {version}\n  Version table:\n *** {version} 500\n"
        f"        500 {repository} Packages\n        100 /var/lib/dpkg/status\n     0.9-1 500\n"
        "        500 http://old.example bookworm/main amd64 Packages\n"
        for name, (version, repository) in packages.items()
    )


def containerd(*runtimes: str, cdi: bool = True) -> str:
    """The part of `crictl info` that is read, as containerd 2.2 gives it."""
    return json.dumps({"config": {"containerd": {"runtimes": dict.fromkeys(runtimes)}, "enableCDI": cdi}})


TOOLKIT = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
accept-nvidia-visible-devices-envvar-when-unprivileged = false
disable-require = false
"""
VALUES: dict[str, Any] = {
    "backup_target_sources": [{"name": "slurm", "folder": "/b", "local": "slurm-lab", "remote": "slurm-lab"}],
    "gpufleet_software": software_of(load_catalog().lock("2026.11")),
    "kubernetes_base_version": KUBERNETES,
    "kubernetes_base_containerd_version": "2.2.4",
    "kubernetes_base_nvidia_runtime": True,
    "kubernetes_base_pause_image": "registry.k8s.io/pause:3.10.1",
    "kubernetes_endpoint_address": "10.90.0.10",
    "kubernetes_control_plane_version": KUBERNETES,
    "kubernetes_control_plane_members": [{"name": "ctl01", "address": "10.90.0.11"}],
    "kubernetes_control_plane_node_labels": {"dgx01": {"gpufleet.io/rack": "r1"}},
    "kubernetes_control_plane_backup_every_s": 21600,
    "kubernetes_node_version": KUBERNETES,
    "kubernetes_gpu_pools": [
        {"nodes": ["dgx01"], "resource": "nvidia.com/gpu", "gpus": 8, "per_gpu": 1},
        {"nodes": ["dgx02"], "resource": "nvidia.com/gpu.shared", "gpus": 8, "per_gpu": 4},
    ],
    "kubernetes_gpu_teams": [{"name": "research"}, {"name": "product"}],
    "kubernetes_gpu_gpu_operator_version": "26.7.0",
    "kubernetes_gpu_network_operator_version": "26.4.0",
    "kubernetes_gpu_kueue_version": "0.19.2",
    "gpufleet_role": "gpu",
    "base_gpu_node": True,
    "base_kernel_arguments": ["iommu=pt"],
    "base_cpu_governor": "performance",
    "base_sysctl": {
        "vm.swappiness": 10,
        "net.ipv4.tcp_rmem": "4096 131072 33554432",
        "net.core.rmem_max": 67108864,
    },
    "users_accounts": [{"name": "ada", "uid": 5001, "gid": 5001}],
    "users_groups": [{"name": "vision", "gid": 5000}],
    "nvidia_driver_version": DRIVER,
    "nvidia_driver_gpus": 8,
    "nvidia_driver_open_modules": True,
    "fabric_manager_version": DRIVER,
    "nccl_version": "2.31.2",
    "gpudirect_open_modules": True,
    "gpudirect_gdrcopy": True,
    "gpudirect_storage": True,
    "container_toolkit_version": "1.19.1-1",
    "container_toolkit_environment_needs_privileges": True,
    "dcgm_gpus": 8,
    "health_check_gpus": 8,
    "health_check_gpu": "H100",
    "health_check_fabric_kind": "infiniband",
    "health_check_link_gbps": 400,
    "health_check_driver_version": DRIVER,
    "health_check_slurm": True,
    "health_check_kubernetes": False,
    "bmc_firmware": {"HostBMC_0": "24.09.17"},
    "bmc_power_cap_w": 9000,
    "bmc_boot_order": ["disk", "pxe"],
    "bmc_bios": {"SriovEnable": "Enabled"},
    "rdma_kind": "infiniband",
    "rdma_link_gbps": 400,
    "rdma_adapters": 8,
    "rdma_devices": [f"mlx5_{number}" for number in range(8)],
    "slurm_database_cluster": "lab",
    "prometheus_targets": [{"name": "dgx01"}, {"name": "ctl01"}],
    "slurm_cloud_sites": [{"site": "use1"}],
    "slurm_controller_nodes": [{"name": "dgx01"}, {"name": "dgx02"}],
    "slurm_controller_gpus": 8,
    "slurm_controller_accounts": [{"name": "research", "gpus": 24}],
    "slurm_node_gpus": 8,
    "slurm_node_ssh_requires_job": True,
    "local_nvme_mount": "/raid",
    "nfs_client_mounts": [{"source": "nas01:/export/home", "path": "/home"}],
    "parallel_fs_client_mounts": [
        {"kind": "beegfs", "source": "mgmtd01", "path": "/beegfs", "options": []},
        {"kind": "weka", "source": "weka01,weka02/fast", "path": "/fast", "options": ["num_cores=2"]},
        {"kind": "gpfs", "source": "archive", "path": "/archive", "options": ["ro"]},
    ],
    "parallel_fs_client_options": "nosuid,nodev",
    "lustre_client_mounts": [{"source": "10.0.0.1@o2ib:/scratch", "path": "/scratch"}],
}
"""The variables of a GPU node, as role defaults and inventory give them."""

GOOD: dict[str, dict[str, str | tuple[int, str]]] = {
    "kubernetes_base": {
        "service": "active\n",
        "versions": f"containerd.io 2.2.4-1~debian.12~bookworm\nkubeadm {KUBERNETES}-1.1\n"
        f"kubectl {KUBERNETES}-1.1\nkubelet {KUBERNETES}-1.1\n",
        "swap": "",
        "sysctl": "net.ipv4.ip_forward = 1\n",
        "cgroup": "cgroup2fs\n",
        "runtimes": containerd("nvidia", "runc"),
    },
    "kubernetes_endpoint": {
        "service": "active\nactive\n",
        "addresses": "2: eth0    inet 10.90.0.11/24 scope global eth0\n"
        "2: eth0    inet 10.90.0.10/32 scope global eth0\n",
        "ready": "ok\n",
    },
    "kubernetes_control_plane": {
        "service": "active\nactive\nactive\nactive\n",
        "kubelets": '{"ctl01": 364, "dgx01": 300}',
        "ready": "[+]ping ok\nreadyz check passed\n",
        "nodes": json.dumps(CLUSTER_NODES),
        "certificates": '{"apiserver": 300, "scheduler.conf": 299}',
        "backups": json.dumps([{"taken": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}]),
        "secret_mode": "root 600\n",
    },
    "kubernetes_node": {"service": "active\n", "self": json.dumps(CLUSTER_NODES["items"][1])},
    "base": {
        "time_tracking": TRACKING,
        "sysctl": (
            "vm.swappiness = 10\nnet.ipv4.tcp_rmem = 4096\t131072\t33554432\nnet.core.rmem_max = 67108864\n"
        ),
        "kernel_command_line": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro iommu=pt quiet\n",
        "cpu_governor": "performance\n",
        "reboot_required": (1, ""),
        "versions": policy(
            slurmd=("25.05.8-2", "http://mirror.example/vendor"),
            **{"datacenter-gpu-manager-4-core": ("1:4.6.0-1", CUDA)},
            **{"datacenter-gpu-manager-exporter": ("4.8.3-1", CUDA)},
        ),
    },
    "users": {
        "accounts": "ada:x:5001:5001::/home/ada:/bin/bash\n",
        "groups": "vision:x:5000:ada\n",
        "sudoers": "/etc/sudoers: parsed OK\n",
        "sshd": "port 22\n",
    },
    "firewall": {"rules": RULES, "enabled": "enabled\n"},
    "nvidia_driver": {
        "gpus": GPUS,
        "loaded": f"{DRIVER}\n",
        "installed": f"{DRIVER}\n",
        "license": "Dual MIT/GPL\n",
        "persistence": "active\n",
    },
    "fabric_manager": {
        "version": f"Fabric Manager version is : {DRIVER}\n",
        "driver": f"{DRIVER}\n",
        "active": "active\n",
        "state": "".join(f"{i}, Completed, Success\n" for i in range(8)),
    },
    "nccl": {"library": "2.31.2-1+cuda13.0", "loads": ""},
    "gpudirect": {"modules": (2, "gdrdrv\nnvidia_fs\n")},
    "container_toolkit": {
        "version": "NVIDIA Container Toolkit CLI version 1.19.1\ncommit: 12ab\n",
        "devices": "".join(f"nvidia.com/gpu={i}\n" for i in (*range(8), "all")),
        "configuration": TOOLKIT,
    },
    "dcgm": {
        "discovery": "8 GPUs found.\n",
        "health": json.dumps({"body": {"Overall Health": {"value": "Healthy"}}}),
        "exporter": EXPORTED,
    },
    "mig": {
        "modes": "".join(f"{i}, {'Enabled' if i in (0, 5) else 'Disabled'}\n" for i in range(8)),
        "instances": json.dumps([{"gpu": gpu, "profile": "3g.40gb", "files": []} for gpu in (0, 0, 5, 5)]),
        "unit": "active\n",
    },
    "bmc": {"state": json.dumps(CONTROLLER)},
    "rdma": {
        "ports": PORTS,
        "memlock": "unlimited\n",
        "driver_installed": "26.01-1.0.0.0\n",
        "driver_loaded": "26.01-1.0.0.0\n",
        "ipoib": "absent\n",
    },
    "roce": {
        "settings": '{"interface": "ens24", "setting": "mtu", "is": 9000, "should": 9000}\n',
        "unit": "enabled\n",
    },
    "subnet_manager": {
        "active": "active\n",
        "sminfo": "sminfo: sm lid 1 sm guid 0x506, activity count 9 priority 15 state 3 SMINFO_MASTER\n",
        "ports": LINKS,
        "switches": "switch lid-4\nfan status         | OK\nfan#1 (rpm)        | 8493\n",
    },
    "munge": {"service": "active\n", "round_trip": "STATUS: Success (0)\n", "key_mode": "munge 400\n"},
    "slurm_database": {
        "service": "active\nactive\nactive\n",
        "backups": "[]\n",
        "listens": LISTENING,
        "clusters": "lab|10.90.0.11\n",
        "secret_mode": "slurm 600\n",
    },
    "backup_target": {"copies": "[]\n", "modes": "0 700 \n0 600 target.json\n0 600 s3-key\n"},
    "slurm_controller": {
        "service": "active\n",
        "ping": "Slurmctld(primary) at ctl01 is UP\nSlurmctld(backup) at ctl02 is UP\n",
        "nodes": "dgx01|idle|gpu:h100:8(S:0-1)|none\ndgx02|mixed|gpu:h100:8(S:0-1)|none\n",
        "limits": "root|||\nroot|root||\nresearch||gres/gpu=24|normal\nresearch|ada||normal\n",
    },
    "slurm_cloud": {
        "service": "active\n",
        "nodes": "dgx01 idle none\nuse1-sweep-1 idle+cloud+powered_down none\n"
        "use1-sweep-2 down+cloud+powered_down gpufleet cloud: InsufficientInstanceCapacity, again after"
        " 2026-11-27T14:01:01Z\n",
    },
    "health_check": {"show": HEALTH, "config": HEALTH_CONFIG, "timer": (3, "inactive\n")},
    "slurm_node": {
        "service": "active\n",
        "ping": "Slurmctld(primary) at ctl01 is DOWN\nSlurmctld(backup) at ctl02 is UP\n",
        "state": NODE_STATE,
        "ssh": "1\n",
        "sshd": "port 22\nusepam yes\n",
    },
    "pyxis_enroot": {"version": "3.5.0\n", "options": "1\n"},
    "slurm_login": {"ping": "Slurmctld(primary) at ctl01 is UP\n", "partitions": "gpu*|2|idle\n"},
    "local_nvme": {
        "mounted": MOUNTS,
        "fstab": "/dev/md0 /raid xfs defaults,nofail 0 2\n",
        "arrays": "ARRAY /dev/md0 metadata=1.2 name=dgx01:0 UUID=1:2:3:4\n",
    },
    "nfs_client": {"mounted": MOUNTS, "space_of_/home": "Filesystem 1-blocks\n"},
    "kubernetes_gpu": {
        "nodes": KUBERNETES_NODES,
        "driver_pods": "kube-system/kube-proxy\ngpu-operator/nvidia-device-plugin-daemonset\n",
        "releases": KUBERNETES_RELEASES,
        "queues": "product\tTrue\nresearch\tTrue\nsomebodys\tFalse\n",
    },
    "lustre_client": {"module": "2.17.0\n", "version": "lfs 2.17.0\n", "mounted": MOUNTS},
    "parallel_fs_client": {
        "beegfs": "8.1.0\n",
        "weka": "active\n",
        "gpfs": "mmgetstate::HEADER:version:reserved:reserved:nodeName:nodeNumber:state:quorum:\n"
        "mmgetstate::0:1:::dgx01:7:active:2:\n",
        "mounted": MOUNTS,
        "space_of_/beegfs": "Filesystem 1-blocks\n",
        "space_of_/fast": "Filesystem 1-blocks\n",
        "space_of_/archive": "Filesystem 1-blocks\n",
    },
    "node_exporter": {"metrics": NODE_METRICS},
    "slurm_exporter": {
        "service": "active\n",
        "sources": 'slurm_exporter_source_up{source="ping"} 1\nslurm_exporter_source_up{source="sacct"} 1\n',
    },
    "alertmanager": {
        "service": "active\n",
        "config": "Checking '/etc/prometheus/alertmanager.yml'  SUCCESS\n",
        "secret_mode": "prometheus 600\n",
        "ready": "200\n",
    },
    "prometheus": {
        "service": "active\n",
        "config": "SUCCESS\n",
        "listens": "LISTEN 0 4096 127.0.0.1:9090 0.0.0.0:*\n",
        "api": PROMETHEUS,
    },
    "grafana": {
        "service": "active\n",
        "secret_mode": "grafana 400\n",
        "login": "200\n",
        "dashboards": "cost.json fabric.json fleet.json jobs.json node.json power.json\n",
        "health": '{"database": "ok", "version": "12.1.0"}',
    },
}
"""Role -> measurement (without the role's name) -> output, or (exit code, output)."""


def measured(
    role: str,
    changes: dict[str, str | tuple[int, str] | None] | None = None,
    *,
    container: bool = False,
    **values: Any,
) -> RoleMeasurements:
    """A good host's measurements of a role with some changed; None takes one away."""
    found = {}
    for name, reported in {**GOOD[role], **(changes or {})}.items():
        if reported is not None:
            code, text = reported if isinstance(reported, tuple) else (0, reported)
            found[f"{role}_{name}"] = {
                "rc": code,
                "stdout": text if code in (0, 1, 2, 3, 14) else "",
                "stderr": "",
            }
    layout = {"mig_layout": SPLIT} if role == "mig" else {}
    return RoleMeasurements("dgx01", role, VALUES | layout | values, found, container)
