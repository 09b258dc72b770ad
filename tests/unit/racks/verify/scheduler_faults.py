"""Faults of munge, Slurm, file systems and containers, with the messages of their judges."""

from __future__ import annotations

from typing import Any

from .samples import KUBERNETES_NODES, KUBERNETES_RELEASES, MOUNTS, NODE_STATE

DRAINED = (
    '{"findings": [{"check": "ecc", "subject": "GPU 0", "message": "2 errors", "remedy": "reset", '
    '"action": "drain"}]}'
)

SCHEDULER_FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("munge", {"round_trip": (2, "munge: Error")}, "round trip", "exit code 2: munge: Error"),
    ("munge", {"key_mode": "munge 644"}, "key", "munge 644 instead of munge 400"),
    (
        "slurm_database",
        {"service": (3, "active\ninactive\n")},
        "services",
        "mariadb, slurmdbd, gpufleet-slurm-backup.timer is active, inactive",
    ),
    (
        "slurm_database",
        {"listens": "LISTEN 0 80 0.0.0.0:3306 0.0.0.0:*"},
        "listens",
        "MariaDB listens on 0.0.0.0:3306",
    ),
    (
        "slurm_database",
        {"backups": '[{"created": "2020-01-01T00:00:00Z"}]'},
        "backups",
        "the newest backup is too old",
    ),
    (
        "backup_target",
        {"copies": (1, "backup-target: no route")},
        "copies",
        "exit code 1: backup-target: no route",
    ),
    (
        "backup_target",
        {"copies": '[{"name": "slurm-lab-20200101T000000Z"}, {"name": "slurm-other-20990101T000000Z"}]'},
        "copies",
        "the newest copy of slurm is too old",
    ),
    ("backup_target", {"modes": "0 700 \n0 644 s3-key\n"}, "keys", "others can read s3-key"),
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
        "gpus, gpu, fabric_kind, link_gbps, driver_version, slurm, kubernetes differ",
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
    ("slurm_cloud", {"service": (3, "failed\n")}, "service", "gpufleet-cloud-nodes is failed"),
    ("slurm_cloud", {"nodes": "dgx01 idle none\n"}, "cloud nodes", "Slurm has no cloud node"),
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
        "gpu-operator/nvidia-driver-daemonset would install what the host already has",
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
    ("parallel_fs_client", {"beegfs": (1, "")}, "beegfs module", "exit code 1"),
    ("parallel_fs_client", {"weka": (3, "inactive\n")}, "weka agent", "weka-agent is inactive"),
    (
        "parallel_fs_client",
        {"gpfs": "mmgetstate::0:1:::dgx01:7:down:\n"},
        "gpfs daemon",
        "the daemon of IBM Storage Scale is not active",
    ),
    ("parallel_fs_client", {"mounted": ""}, "/fast", "/fast is not mounted"),
    (
        "parallel_fs_client",
        {"mounted": MOUNTS.replace("wekafs", "nfs4")},
        "/fast",
        "/fast is nfs4 instead of wekafs",
    ),
    (
        "parallel_fs_client",
        {"mounted": MOUNTS.replace("weka02/fast", "weka02/slow")},
        "/fast",
        "/fast is weka02/slow instead of weka01,weka02/fast",
    ),
    (
        "parallel_fs_client",
        {"mounted": MOUNTS.replace("mgmtd01", "mgmtd09")},
        "/beegfs",
        "/beegfs is mgmtd09 instead of mgmtd01",
    ),
    (
        "parallel_fs_client",
        {"mounted": MOUNTS.replace("gpfs ro,nosuid", "gpfs rw")},
        "/archive",
        "/archive is mounted without ro, nosuid",
    ),
    ("parallel_fs_client", {"space_of_/archive": (124, "")}, "/archive answers", "it did not end in time"),
    ("pyxis_enroot", {"version": (127, "")}, "enroot", "it is not installed"),
    ("pyxis_enroot", {"options": (1, "0\n")}, "pyxis", "srun has no option --container-image"),
]
