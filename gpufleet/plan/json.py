"""The plan as JSON: a stable contract that others build on.

Keys are added and never renamed or dropped. Money is a number of USD rounded half-even to cents,
here and nowhere before; null means unknown. Lists keep the order of the fleet file.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from gpufleet.plan.capacity_json import capacity_to_json
from gpufleet.plan.models import (
    BucketPlan,
    CloudSitePlan,
    FleetPlan,
    HostPlan,
    KeyPlan,
    LogGroupPlan,
    LustrePlan,
    NodeGroupPlan,
    OnPremSitePlan,
    TeamPlan,
    VolumePlan,
)
from gpufleet.plan.rack_json import rack_to_json

_CENT = Decimal("0.01")


def plan_to_json(plan: FleetPlan) -> dict[str, Any]:
    """The plan as plain JSON values, without its cost (`gpufleet.pricing.json`).

    Equal plans give equal documents, key order included.
    """
    return {
        "fleet": plan.fleet,
        "environment": plan.environment,
        "software_channel": plan.software_channel,
        "tags": dict(plan.tags),
        "gpus_at_maximum": plan.gpus_at_maximum,
        "sites": [_cloud_site(site) for site in plan.cloud] + [_onprem_site(site) for site in plan.onprem],
        "node_groups": [_node_group(group) for group in plan.node_groups],
        "storage": [
            entry
            for site in plan.cloud
            for entry in [*map(_lustre, site.lustre), *map(_bucket, site.buckets)]
        ],
        "hosts": [_host(host) for site in plan.onprem for host in site.hosts],
        "budget": {
            "monthly": cents(plan.budget.monthly),
            "currency": plan.budget.currency,
            "alerts": [float(alert) for alert in plan.budget.alerts],
            "on_breach": plan.budget.on_breach,
            "notify": list(plan.budget.notify),
            "assume": {key: cents(amount) for key, amount in plan.budget.assume.items()},
        },
        "keys": [_key(key) for key in plan.keys],
    }


def cents(amount: Decimal | None) -> float | None:
    """An amount rounded half-even to cents."""
    return None if amount is None else float(amount.quantize(_CENT, ROUND_HALF_EVEN))


def _cloud_site(site: CloudSitePlan) -> dict[str, Any]:
    kubernetes = site.kubernetes
    return {
        "site": site.site,
        "kind": "cloud",
        "provider": site.provider,
        "region": site.region,
        "zones": list(site.zones),
        "cidr": site.cidr,
        "nat": site.nat,
        "subnets": [{"zone": item.zone, "kind": item.kind, "cidr": item.cidr} for item in site.subnets],
        "scheduler": site.scheduler,
        "kubernetes": None
        if kubernetes is None
        else {
            "version": kubernetes.version,
            "private_cidrs": list(kubernetes.private_cidrs),
            "public_cidrs": list(kubernetes.public_cidrs),
            "admins": list(kubernetes.admins),
            "gpu_stack": kubernetes.gpu_stack,
            "system_nodes": {
                "instance_types": list(kubernetes.system_instance_types),
                "min": kubernetes.system_min,
                "max": kubernetes.system_max,
                "volume": _volume(kubernetes.system_volume),
                "image": kubernetes.system_image,
            },
            "support_type": kubernetes.support_type,
            "teams": [_team(team) for team in kubernetes.teams],
        },
        "interface_endpoints": list(site.interface_endpoints),
        "log_groups": [_log_group(each) for each in (site.flow_logs, site.cluster_logs) if each is not None],
        "keys": [_key(key) for key in site.keys],
        "tags": dict(site.tags),
    }


def _key(key: KeyPlan) -> dict[str, Any]:
    return {"name": key.name, "owner": key.owner}


def _log_group(group: LogGroupPlan) -> dict[str, Any]:
    return {"name": group.name, "retention_days": group.retention_days}


def _onprem_site(site: OnPremSitePlan) -> dict[str, Any]:
    return {
        "site": site.site,
        "kind": "onprem",
        "system": site.system,
        "gpu": site.gpu,
        "gpus_per_node": site.gpus_per_node,
        "nodes": sum(1 for host in site.hosts if host.role == "gpu"),
        "fabric": {
            "kind": site.fabric_kind,
            "speed": site.fabric_speed,
            "topology": site.fabric_topology,
        },
        "scheduler": site.scheduler,
        "power_kw_per_node": None if site.power_kw_per_node is None else float(site.power_kw_per_node),
        "power": None
        if site.power is None
        else {"pue": float(site.power.pue), "usd_per_kwh": float(site.power.usd_per_kwh)},
        "ownership": None
        if site.ownership is None
        else {
            "acquisition": cents(site.ownership.acquisition),
            "lifetime_days": site.ownership.lifetime.days,
        },
        "mounts": [
            {"kind": item.kind, "source": item.source, "mount": item.path, "options": list(item.options)}
            for item in site.mounts
        ],
        "teams": [_team(team) for team in site.teams],
        "tags": dict(site.tags),
        "rack": rack_to_json(site.rack),
    }


def _node_group(group: NodeGroupPlan) -> dict[str, Any]:
    return {
        "site": group.site,
        "name": group.name,
        "instance_type": group.instance_type,
        "instance_types": list(group.instance_types),
        "gpu": group.gpu,
        "gpus_per_node": group.gpus_per_node,
        "capacity": capacity_to_json(group.capacity),
        "efa": group.efa,
        "network_interfaces": [
            {
                "network_card_index": item.network_card_index,
                "device_index": item.device_index,
                "interface_type": item.interface_type,
            }
            for item in group.network_interfaces
        ],
        "zones": list(group.zones),
        "placement_group": group.placement_group,
        "workload": group.workload,
        "team": group.team,
        "labels": dict(group.labels),
        "taints": [{"key": item.key, "value": item.value, "effect": item.effect} for item in group.taints],
        "volume": _volume(group.volume),
        "public_ip": group.public_ip,
        "image": group.image,
        "tags": dict(group.tags),
    }


def _volume(volume: VolumePlan) -> dict[str, Any]:
    return {"size_gib": volume.size_gib, "iops": volume.iops, "throughput": volume.throughput}


def _lustre(system: LustrePlan) -> dict[str, Any]:
    return {
        "site": system.site,
        "name": system.name,
        "kind": "lustre",
        "deployment": system.deployment,
        "capacity_gib": system.capacity_gib,
        "throughput": system.throughput,
        "efa": system.efa,
        "metadata_iops": system.metadata_iops,
        "compression": system.compression,
        "backup_days": system.backup_days,
        "zone": system.zone,
        "mount": system.mount,
        "import_bucket": system.import_bucket,
        "import_prefix": system.import_prefix,
        "export": system.export,
        "kms_key": system.kms_key,
        "tags": dict(system.tags),
    }


def _bucket(bucket: BucketPlan) -> dict[str, Any]:
    return {
        "site": bucket.site,
        "name": bucket.name,
        "kind": "bucket",
        "bucket": bucket.bucket,
        "versioning": bucket.versioning,
        "expire_days": bucket.expire_days,
        "kms_key": bucket.kms_key,
        "tags": dict(bucket.tags),
    }


def _host(host: HostPlan) -> dict[str, Any]:
    return {
        "name": host.name,
        "site": host.site,
        "role": host.role,
        "address": host.address,
        "bmc": host.bmc,
    }


def _team(team: TeamPlan) -> dict[str, Any]:
    return {"name": team.name, "gpus": team.gpus, "priority": team.priority}
