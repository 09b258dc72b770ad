"""What a rack site's roles install, as JSON. Host names and people's keys are left to the inventory."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.rack_models import KubernetesPlan, RackPlan, SlurmPlan


def rack_to_json(rack: RackPlan) -> dict[str, Any]:
    """The rack's part of a site in `plan_to_json`; the scheduler that places no jobs is null."""
    return {
        "link_gbps": rack.fabric.link_gbps,
        "rails": list(rack.fabric.rails),
        "subnet_managers": [
            {"host": item.host, "priority": item.priority} for item in rack.fabric.subnet_managers
        ],
        "partitions": [{"name": item.name, "pkey": item.pkey} for item in rack.fabric.partitions],
        "slurm": None if rack.slurm is None else _slurm(rack.slurm),
        "kubernetes": None if rack.kubernetes is None else _kubernetes(rack.kubernetes),
        "users": [user.name for user in rack.users],
        "local_nvme": rack.nvme_mount,
        "time_servers": list(rack.time_servers),
        "package_mirror": rack.package_mirror,
        "reboot_batch": rack.reboot_batch,
        "management": None if rack.management is None else rack.management.protocol,
        "mig": None
        if rack.mig is None
        else [
            {"nodes": len(item.nodes), "gpus": list(item.gpus), "profiles": dict(item.profiles)}
            for item in rack.mig
        ],
        "monitoring": None if rack.monitoring is None else rack.monitoring.host,
    }


def _slurm(slurm: SlurmPlan) -> dict[str, Any]:
    return {
        "cluster": slurm.cluster,
        "partitions": [
            {
                "name": item.name,
                "nodes": len(item.nodes),
                "default": item.default,
                "max_minutes": item.max_minutes,
            }
            for item in slurm.partitions
        ],
        "qos": [item.name for item in slurm.qos],
        "accounts": [
            {"name": item.name, "gpus": item.gpus, "qos": item.qos, "users": list(item.users)}
            for item in slurm.accounts
        ],
        "units": len([item for item in slurm.switches if item.nodes]),
        "preemption": slurm.preemption,
    }


def _kubernetes(kubernetes: KubernetesPlan) -> dict[str, Any]:
    return {
        "version": kubernetes.version,
        "endpoint": kubernetes.endpoint,
        "port": kubernetes.port,
        "members": list(kubernetes.members),
        "pod_network": kubernetes.pod_network,
        "service_network": kubernetes.service_network,
        "cni": kubernetes.cni,
        "pod_security": kubernetes.pod_security,
        "node_groups": [
            {
                "name": item.name,
                "nodes": len(item.nodes),
                "sharing": item.sharing,
                "replicas": item.replicas,
                "mig_profile": item.mig_profile,
                "mig_devices": item.mig_devices,
            }
            for item in kubernetes.groups
        ],
        "kueue": kubernetes.kueue,
    }
