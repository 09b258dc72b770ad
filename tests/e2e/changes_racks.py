"""Rack sites with only the required fields, and the same sites with every field set and changed."""

from __future__ import annotations

from typing import Any

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdwdWZsZWV0Z3B1ZmxlZXRncHVmbGVldGdwdWZsZWV0 ada@example.com"

RACKS_BEFORE: list[dict[str, Any]] = [
    {
        "site": "hall",
        "system": "dgx-h100",
        "nodes": "dgx[01-02]",
        "fabric": {"kind": "infiniband", "speed": "ndr", "topology": "fat-tree"},
        "controllers": "adm00",
        "scheduler": "kubernetes",
    },
    {
        "site": "barn",
        "system": "dgx-h100",
        "nodes": "hgx[01-02]",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
    },
]

SLURM_RACKS: list[dict[str, Any]] = [
    {
        "site": name,
        "system": "dgx-h100",
        "nodes": f"{name}[01-02]",
        "controllers": f"ctl-{name}",
        "network": f"10.{number}.0.0/24",
        "addresses": {f"ctl-{name}": f"10.{number}.0.11"},
        "fabric": {"kind": "infiniband", "speed": "ndr"},
        "scheduler": "slurm",
        "teams": [{"name": "red", "gpus": 8}, {"name": "blue", "gpus": 8}],
    }
    for name, number in (("east", 95), ("west", 96))
]
"""Sites whose Slurm launches cloud nodes."""

RACKS_AFTER: list[dict[str, Any]] = [
    {
        "site": "hall",
        "system": "dgx-h200",
        "nodes": "dgx[01-04]",
        "bmc": "bmc[01-04]",
        "controllers": "ctl[01-02]",
        "login": "login01",
        "network": "10.90.0.0/24",
        "fabric": {
            "kind": "infiniband",
            "speed": "ndr",
            "topology": "rail-optimized",
            "rails": [f"mlx5_{number}" for number in range(8)],
            "ipoib": True,
            "switches": [
                {"name": "leaf1", "nodes": "dgx[01-04]", "uplinks": ["spine1"], "rail": 0},
                {"name": "spine1", "tier": "spine", "guid": "0x0002c903000e0b72"},
            ],
            "subnet_managers": [{"host": "ctl01", "priority": 10, "port_guid": "0x0002c903000e0b73"}],
            "partitions": [
                {"name": "red", "pkey": "0x0002", "port_guids": ["0x0002c903000e0b74"], "ipoib": True}
            ],
        },
        "scheduler": "slurm",
        "power": {"per_rack": "40 kW", "pue": 1.25, "price": "0.11 USD/kWh"},
        "ownership": {"acquisition": "270000 USD", "lifetime": "5 y"},
        "running_costs": {"colocation": "42000 USD", "support": "31000 USD", "staff": "25000 USD"},
        "ssh": {
            "user": "ops",
            "port": 2222,
            "domain": "hall.example.com",
            "fingerprints": {"dgx01": "SHA256:" + "A" * 43},
        },
        "storage": [
            {"name": "home", "kind": "nfs", "source": "nas01:/export/home", "mount": "/shared/home"},
            {
                "name": "work",
                "kind": "beegfs",
                "source": "mgmtd01",
                "mount": "/shared/work",
                "options": ["noatime"],
            },
        ],
        "teams": [{"name": "red", "gpus": 16, "priority": "high"}],
        "slurm": {
            "cluster": "big",
            "state": "nas01:/export/slurm",
            "partitions": [
                {
                    "name": "gpu",
                    "nodes": "dgx[01-04]",
                    "default": True,
                    "max_time": "2 d",
                    "priority": 10,
                    "teams": ["red"],
                }
            ],
            "qos": [
                {
                    "name": "urgent",
                    "priority": 5000,
                    "max_gpus_per_user": 8,
                    "max_time": "1 d",
                    "preempts": ["low"],
                }
            ],
            "preemption": "cancel",
            "billing": {"gpu": 2.0, "cpu": 0.5, "memory_gib": 0.25},
            "health_check": False,
            "ssh_requires_job": False,
            "reserved_cpus": 4,
            "reserved_memory_gib": 16,
        },
        "groups": [{"name": "staff", "gid": 2000}],
        "users": [
            {
                "name": "ada",
                "uid": 2001,
                "gid": 2002,
                "groups": ["staff"],
                "ssh_keys": [KEY],
                "teams": ["red"],
                "sudo": True,
            }
        ],
        "local_nvme": {"mount": "/scratch", "cache": "/scratch/cache", "drives": 8},
        "time_servers": ["ntp1.example.com"],
        "package_mirror": "http://mirror.example.com/rack",
        "image_mirror": "https://registry.example.com",
        "doca": {
            "repository": "https://mirror.example.com/doca",
            "key": "/etc/doca.gpg",
            "fingerprint": "AB" * 20,
        },
        "addresses": {"dgx01": "10.90.0.11"},
        "backups": {
            "s3": {"url": "s3://atlas-backups/hall", "endpoint": "https://s3.example.com", "region": "eu-1"},
            "keep": 9,
        },
        "reboot": {"batch": "50%", "timeout": "30 min"},
        "management": {
            "protocol": "redfish",
            "port": 8443,
            "user": "admin",
            "ca": "/etc/ssl/bmc.pem",
            "certificates": {"dgx01": "ab" * 32},
            "model": "DGXH200",
            "serials": {"dgx01": "1660224000001"},
            "firmware": {"HostBMC_0": "24.09.17"},
            "power_cap": "9 kW",
            "boot_order": ["disk", "pxe"],
            "bios": {"SriovEnable": "Enabled"},
        },
        "mig": [{"nodes": "dgx[03-04]", "gpus": [0, 1], "profiles": {"1g.18gb": 7}}],
        "monitoring": {
            "host": "ctl01",
            "interval": "15 s",
            "retention": "60 d",
            "retention_size": "200 GiB",
            "remote_write": {"url": "https://metrics.example.com/push", "username": "hall"},
            "alerts": {
                "webhook": {"url": "https://hooks.example.com/gpu", "token": True},
                "heartbeat": True,
                "slack": {"channel": "#gpu"},
                "email": {
                    "to": ["ops@example.com"],
                    "sender": "gpufleet@example.com",
                    "server": "mail.example.com:587",
                    "username": "gpufleet",
                },
            },
            "grafana": True,
            "open_to": ["10.20.0.0/16"],
        },
    },
    {
        "site": "barn",
        "system": "dgx-h100",
        "nodes": "hgx[01-02]",
        "controllers": "adm[01-03]",
        "network": "10.91.0.0/24",
        "addresses": {f"adm0{number}": f"10.91.0.1{number}" for number in (1, 2, 3)},
        "scheduler": "kubernetes",
        "racks": [{"name": "r1", "nodes": "hgx[01-02]"}],
        "mig": [{"nodes": "hgx01", "profiles": {"1g.10gb": 7}}],
        "teams": [{"name": "vision", "gpus": 4}],
        "kubernetes": {
            "version": "1.36",
            "endpoint": "10.91.0.10",
            "port": 8443,
            "pod_network": "10.128.0.0/14",
            "service_network": "10.112.0.0/16",
            "cni": "cilium",
            "network_policies": False,
            "pod_security": "restricted",
            "host_network": ["vision"],
            "node_groups": [
                {
                    "name": "shared",
                    "nodes": "hgx01",
                    "labels": {"example.com/use": "notebooks"},
                    "taints": [{"key": "example.com/shared", "value": "yes", "effect": "NoExecute"}],
                    "gpu_sharing": {"time_slicing": {"replicas": 4}},
                },
                {"name": "whole", "nodes": "hgx02", "gpu_sharing": {"mps": {"replicas": 2}}},
            ],
            "kueue": False,
            "operators": {"gpu_operator": False, "network_operator": False},
            "backup": {"folder": "/srv/etcd", "keep": 7, "every": "1 h"},
            "reserved_cpus": 4,
            "reserved_memory_gib": 16,
        },
        "backups": {"rsync": {"to": "backup@vault:/srv/barn", "port": 2222, "host_key": KEY}},
        "fabric": {
            "kind": "roce",
            "speed": "400gbe",
            "interfaces": [f"eth{number}" for number in range(8)],
            "rails": [f"mlx5_{number}" for number in range(8)],
            "roce": {"priority": 4, "dscp": 34, "mtu": 4200, "ecn": False},
        },
    },
    {
        "site": "shed",
        "system": "dgx-h100",
        "nodes": "sgx01",
        "controllers": "sctl01",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
        "backups": {"nfs": {"source": "nas01:/export/backups"}},
    },
]


NAMED = {
    *("fingerprints", "addresses", "labels"),
    *("certificates", "serials", "firmware", "bios", "profiles"),
}
"""Fields whose keys the user chooses."""


def written(document: Any, prefix: str = "") -> set[str]:
    """The paths of the fields that a part of a fleet file sets, as documented."""
    found: set[str] = set()
    for key, value in document.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, list) and value and isinstance(value[0], dict):
            found.add(f"{path}[]")
            for item in value:
                found |= written(item, f"{path}[]")
        elif key in NAMED:
            found.add(f"{path}.<name>")
        elif isinstance(value, dict):
            found |= {path} | written(value, path)
        else:
            found.add(path)
    return found
