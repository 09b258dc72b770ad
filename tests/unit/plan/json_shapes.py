"""The keys and types of the plan's JSON, in order: the contract that others build on."""

from __future__ import annotations

from typing import Any

NUMBER = (int, float)
MONEY = (int, float, type(None))
TEXT_OR_NONE = (str, type(None))
INT_OR_NONE = (int, type(None))
RANGE = {"low": MONEY, "expected": MONEY, "high": MONEY}
KEY = {"name": str, "owner": str}
VOLUME = {"size_gib": int, "iops": int, "throughput": int}
TEAM = {"name": str, "gpus": int, "priority": str}

SHAPE: dict[str, Any] = {
    "fleet": str,
    "environment": str,
    "tags": dict,
    "budget": {
        "monthly": NUMBER,
        "currency": str,
        "alerts": [NUMBER],
        "on_breach": str,
        "notify": [str],
        "assume": dict,
    },
    "software_channel": str,
    "keys": [KEY],
    "sites": list,
    "node_groups": [
        {
            "site": str,
            "name": str,
            "instance_type": str,
            "instance_types": [str],
            "gpu": str,
            "gpus_per_node": int,
            "capacity": {
                "reservation_id": TEXT_OR_NONE,
                "reservation_zone": TEXT_OR_NONE,
                "reservation_placement_group": TEXT_OR_NONE,
                "start": TEXT_OR_NONE,
                "duration_hours": MONEY,
                "on_demand_fallback": bool,
                "spot_max_price": MONEY,
                "kind": str,
                "min": int,
                "max": int,
                "desired": int,
            },
            "efa": bool,
            "network_interfaces": [{"network_card_index": int, "device_index": int, "interface_type": str}],
            "zones": [str],
            "placement_group": bool,
            "workload": str,
            "labels": dict,
            "taints": [{"key": str, "value": str, "effect": str}],
            "volume": VOLUME,
            "public_ip": bool,
            "image": str,
            "tags": dict,
            "team": TEXT_OR_NONE,
            "public_addresses": int,
        }
    ],
    "storage": list,
    "hosts": [{"name": str, "site": str, "role": str, "address": str, "bmc": TEXT_OR_NONE}],
    "gpus_at_maximum": int,
    "cost": {
        "monthly": {
            "amount": MONEY,
            "low": MONEY,
            "high": MONEY,
            "currency": str,
            "unknown": [{"site": str, "owner": str, "what": str, "reason": str}],
        },
        "upfront": {"amount": NUMBER, "currency": str},
        "budget": {"monthly": NUMBER, "currency": str},
        "by_site": dict,
        "by_owner": dict,
        "by_tag": dict,
        "lines": [
            {
                "site": str,
                "owner": str,
                "kind": str,
                "what": str,
                "monthly": RANGE,
                "upfront": MONEY,
                "basis": str,
                "source": str,
                "date": TEXT_OR_NONE,
                "note": str,
                "assumed": bool,
            }
        ],
        "not_counted": [str],
    },
}

SLURM: dict[str, Any] = {
    "cluster": str,
    "state": TEXT_OR_NONE,
    "partitions": [
        {
            "name": str,
            "hosts": [str],
            "default": bool,
            "max_minutes": INT_OR_NONE,
            "priority": int,
            "accounts": [str],
            "nodes": int,
        }
    ],
    "qos_settings": [
        {
            "name": str,
            "priority": int,
            "max_gpus_per_user": INT_OR_NONE,
            "max_minutes": INT_OR_NONE,
            "preempts": list,
        }
    ],
    "accounts": [{"name": str, "gpus": int, "qos": str, "users": [str]}],
    "switches": [{"name": str, "hosts": [str], "switches": list}],
    "preemption": str,
    "billing_gpu": NUMBER,
    "billing_cpu": NUMBER,
    "billing_memory_gib": NUMBER,
    "health_check": bool,
    "reserved_cpus": int,
    "reserved_memory_mib": int,
    "qos": [str],
    "units": int,
}

KUBERNETES: dict[str, Any] = {
    "version": str,
    "endpoint": TEXT_OR_NONE,
    "port": int,
    "router_id": int,
    "members": [str],
    "pod_network": str,
    "service_network": str,
    "cni": str,
    "pod_security": str,
    "node_groups": [
        {
            "name": str,
            "hosts": [str],
            "labels": dict,
            "taints": [{"key": str, "value": str, "effect": str}],
            "sharing": str,
            "replicas": int,
            "mig_profile": TEXT_OR_NONE,
            "mig_devices": int,
            "nodes": int,
        }
    ],
    "node_labels": dict,
    "kueue": bool,
    "gpu_operator": bool,
    "network_operator": bool,
    "backup_folder": str,
    "backup_keep": int,
    "backup_every_s": int,
    "reserved_cpus": int,
    "reserved_memory_mib": int,
}

MONITORING: dict[str, Any] = {
    "host": str,
    "interval_s": int,
    "retention_s": int,
    "retention_gib": INT_OR_NONE,
    "remote_write_url": TEXT_OR_NONE,
    "remote_write_user": TEXT_OR_NONE,
    "webhook_url": TEXT_OR_NONE,
    "webhook_token": bool,
    "slack_channel": TEXT_OR_NONE,
    "email_to": list,
    "email_sender": TEXT_OR_NONE,
    "email_server": TEXT_OR_NONE,
    "email_user": TEXT_OR_NONE,
    "grafana": bool,
    "open_to": list,
    "racks": dict,
    "rack_kw": MONEY,
    "pue": MONEY,
    "energy_price": MONEY,
    "node_hour_cost": MONEY,
}

MANAGEMENT: dict[str, Any] = {
    "protocol": str,
    "port": int,
    "user": str,
    "ca": TEXT_OR_NONE,
    "certificates": dict,
    "model": TEXT_OR_NONE,
    "serials": dict,
    "firmware": dict,
    "power_cap_w": INT_OR_NONE,
    "boot_order": [str],
    "bios": dict,
}

SITE_SHAPES: dict[str, dict[str, Any]] = {
    "cloud": {
        "site": str,
        "kind": str,
        "provider": str,
        "region": str,
        "zones": [str],
        "cidr": str,
        "nat": str,
        "subnets": [{"zone": str, "kind": str, "cidr": str}],
        "scheduler": str,
        "kubernetes": {
            "version": str,
            "private_cidrs": [str],
            "public_cidrs": [str],
            "admins": [str],
            "gpu_stack": str,
            "device_plugin_version": str,
            "gpu_operator_version": str,
            "system_nodes": {
                "instance_types": [str],
                "min": int,
                "max": int,
                "volume": VOLUME,
                "image": str,
            },
            "support_type": str,
            "teams": [TEAM],
        },
        "interface_endpoints": list,
        "keys": [KEY],
        "tags": dict,
        "nat_zones": [str],
        "log_groups": [{"name": str, "retention_days": int}],
    },
    "onprem": {
        "site": str,
        "kind": str,
        "system": str,
        "gpu": str,
        "gpus_per_node": int,
        "fabric": {"kind": str, "speed": str, "topology": str},
        "scheduler": str,
        "ssh_user": str,
        "ssh_port": int,
        "mounts": [{"kind": str, "source": str, "mount": str, "options": list}],
        "teams": [TEAM],
        "power_kw_per_node": MONEY,
        "power": {"pue": NUMBER, "usd_per_kwh": NUMBER},
        "ownership": {"acquisition": NUMBER, "lifetime_days": int},
        "tags": dict,
        "rack": {
            "network": str,
            "link_gbps": int,
            "rails": [str],
            "interfaces": list,
            "ipoib": bool,
            "subnet_managers": [{"host": str, "priority": int, "port_guid": TEXT_OR_NONE}],
            "partitions": [{"name": str, "pkey": str, "port_guids": [str], "ipoib": bool}],
            "root_guids": list,
            "roce_priority": int,
            "roce_dscp": int,
            "roce_mtu": int,
            "roce_ecn": bool,
            "slurm": SLURM,
            "kubernetes": KUBERNETES,
            "groups": dict,
            "people": [
                {"name": str, "uid": int, "gid": int, "groups": [str], "ssh_keys": [str], "sudo": bool}
            ],
            "local_nvme": str,
            "local_nvme_cache": TEXT_OR_NONE,
            "local_nvme_drives": INT_OR_NONE,
            "time_servers": [str],
            "package_mirror": TEXT_OR_NONE,
            "host_addresses": dict,
            "reboot_batch": int,
            "reboot_timeout_s": int,
            "fingerprints": dict,
            "monitoring_settings": MONITORING,
            "management_settings": MANAGEMENT,
            "mig": [{"hosts": [str], "gpus": [int], "profiles": dict, "nodes": int}],
            "users": [str],
            "monitoring": str,
            "management": str,
        },
        "nodes": int,
    },
}
"""A rack site has one of `slurm` and `kubernetes`; the other is null."""
