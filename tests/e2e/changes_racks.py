"""Rack sites with as little as they need, and the same sites with every field written and changed."""

from __future__ import annotations

from typing import Any

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdwdWZsZWV0Z3B1ZmxlZXRncHVmbGVldGdwdWZsZWV0 ada@example.com"

RACKS_BEFORE: list[dict[str, Any]] = [
    {
        "site": "hall",
        "system": "dgx-h100",
        "nodes": "dgx[01-02]",
        "fabric": {"kind": "infiniband", "speed": "ndr", "topology": "fat-tree"},
        "scheduler": "kubernetes",
    },
    {
        "site": "barn",
        "system": "dgx-h100",
        "nodes": "hgx[01-02]",
        "fabric": {"kind": "infiniband", "speed": "ndr"},
    },
]

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
        "ssh": {
            "user": "ops",
            "port": 2222,
            "domain": "hall.example.com",
            "fingerprints": {"dgx01": "SHA256:" + "A" * 43},
        },
        "storage": [{"name": "home", "kind": "nfs", "source": "nas01:/export/home", "mount": "/shared/home"}],
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
                "ssh_keys": [_KEY],
                "teams": ["red"],
                "sudo": True,
            }
        ],
        "local_nvme": {"mount": "/scratch", "cache": "/scratch/cache", "drives": 8},
        "time_servers": ["ntp1.example.com"],
        "package_mirror": "http://mirror.example.com/rack",
        "addresses": {"dgx01": "10.90.0.11"},
        "reboot": {"batch": "50%", "timeout": "30 min"},
    },
    {
        "site": "barn",
        "system": "dgx-h100",
        "nodes": "hgx[01-02]",
        "fabric": {
            "kind": "roce",
            "speed": "400gbe",
            "interfaces": [f"eth{number}" for number in range(8)],
            "rails": [f"mlx5_{number}" for number in range(8)],
            "roce": {"priority": 4, "dscp": 34, "mtu": 4200, "ecn": False},
        },
    },
]


def written(document: Any, prefix: str = "") -> set[str]:
    """The paths of the fields that a part of a fleet file writes, as documentation names them."""
    found: set[str] = set()
    for key, value in document.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, list) and value and isinstance(value[0], dict):
            found.add(f"{path}[]")
            for item in value:
                found |= written(item, f"{path}[]")
        elif key in ("fingerprints", "addresses"):
            found.add(f"{path}.<name>")
        elif isinstance(value, dict):
            found |= {path} | written(value, path)
        else:
            found.add(path)
    return found
