"""The use of quotas by everything but the fleet itself, read once per quota of a region."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from gpufleet.account.needs import RegionNeeds
from gpufleet.account.quota_table import (
    ADDRESSES,
    CLUSTERS,
    CUSTOMER_GATEWAYS,
    GROUPS_OF_CLUSTER,
    LUSTRE,
    NODES_OF_GROUP,
    RESOLVER_ENDPOINTS,
    VPCS,
    VPN_CONNECTIONS,
    VPN_GATEWAYS,
    Quota,
    vcpu_quota,
)
from gpufleet.account.reading import Clients, NotCheckedError, pages
from gpufleet.catalog import Catalog
from gpufleet.kinds import DNS_DIRECTIONS
from gpufleet.plan.names import dns_resource_name

_RUNNING = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
_ACTIVE = [{"Name": "state", "Values": ["active"]}]
_LISTED: Mapping[str, tuple[str, str]] = {
    ADDRESSES.code: ("describe_addresses", "Addresses"),
    VPCS.code: ("describe_vpcs", "Vpcs"),
    VPN_CONNECTIONS.code: ("describe_vpn_connections", "VpnConnections"),
    VPN_GATEWAYS.code: ("describe_vpn_gateways", "VpnGateways"),
    CUSTOMER_GATEWAYS.code: ("describe_customer_gateways", "CustomerGateways"),
}
"""Code of a quota of resources in EC2 -> the call that lists them, and the key of its answer."""
_LUSTRE: Mapping[str, tuple[Quota, Quota]] = {
    **{str(kind): pair for kind, pair in LUSTRE.items()},
    "SCRATCH_1": LUSTRE["SCRATCH_2"],
}


class QuotaUse:
    """The use of a region's quotas by others: resources without the tags of the fleet."""

    def __init__(self, needs: RegionNeeds, catalog: Catalog, clients: Clients) -> None:
        self._needs = needs
        self._catalog = catalog
        self._clients = clients

    def of_others(self, quota: Quota) -> float:
        """Return what others use. Raises NotCheckedError if it cannot be read."""
        if quota.code in _LISTED:
            return self._untagged("ec2", *_LISTED[quota.code])
        if quota == RESOLVER_ENDPOINTS:
            return float(self._other_endpoints)
        if quota == CLUSTERS:
            return float(len(self._other_clusters))
        if quota in (GROUPS_OF_CLUSTER, NODES_OF_GROUP):
            # Quotas of a single cluster or group, which only the fleet uses.
            return 0.0
        if quota.service == "fsx":
            return self._file_systems.get(quota.code, 0.0)
        return self._vcpus.get(quota.code, 0.0)

    def _untagged(self, service: str, method: str, key: str) -> float:
        found = pages(self._clients(service, self._needs.region), method, key)
        # VPN resources are listed for some time after their end.
        alive = (each for each in found if each.get("State") not in ("deleting", "deleted"))
        return float(sum(1 for each in alive if not self._needs.owns(each.get("Tags"))))

    @cached_property
    def _other_endpoints(self) -> int:
        """Resolver endpoints with other names: lists have no tags."""
        own = {dns_resource_name(site.name, each) for site in self._needs.sites for each in DNS_DIRECTIONS}
        client = self._clients("route53resolver", self._needs.region)
        found = pages(client, "list_resolver_endpoints", "ResolverEndpoints")
        return sum(1 for each in found if each.get("Name") not in own)

    @cached_property
    def _other_clusters(self) -> list[str]:
        own = {site.name for site in self._needs.sites}
        names = pages(self._clients("eks", self._needs.region), "list_clusters", "clusters")
        return [name for name in names if name not in own]

    @cached_property
    def _file_systems(self) -> dict[str, float]:
        """Code -> number and GiB of Lustre file systems of others."""
        used: dict[str, float] = {}
        for each in pages(self._clients("fsx", self._needs.region), "describe_file_systems", "FileSystems"):
            kind = str((each.get("LustreConfiguration") or {}).get("DeploymentType"))
            pair = _LUSTRE.get(kind)
            if pair is None or self._needs.owns(each.get("Tags")):
                continue
            for quota, amount in zip(pair, (1.0, float(each.get("StorageCapacity") or 0)), strict=True):
                used[quota.code] = used.get(quota.code, 0.0) + amount
        return used

    @cached_property
    def _vcpus(self) -> dict[str, float]:
        """Code -> vCPUs of running instances and of unused reservations of others."""
        used: dict[str, float] = {}
        ec2 = self._clients("ec2", self._needs.region)
        for reservation in pages(ec2, "describe_instances", "Reservations", Filters=_RUNNING):
            for instance in reservation["Instances"]:
                market = instance.get("InstanceLifecycle") or "on-demand"
                if market != "capacity-block" and not self._needs.owns(instance.get("Tags")):
                    self._add(used, instance["InstanceType"], market, 1)
        for held in pages(ec2, "describe_capacity_reservations", "CapacityReservations", Filters=_ACTIVE):
            if held.get("ReservationType") != "capacity-block" and not self._needs.owns(held.get("Tags")):
                self._add(used, held["InstanceType"], "on-demand", held.get("AvailableInstanceCount") or 0)
        return used

    def _add(self, used: dict[str, float], kind: str, market: str, count: int) -> None:
        quota = vcpu_quota(kind, market)
        if quota is None or not count:
            return
        used[quota.code] = used.get(quota.code, 0.0) + count * self._vcpus_of(kind)

    def _vcpus_of(self, kind: str) -> int:
        known = self._catalog.instances.get(kind)
        if known is not None:
            return known.vcpus
        found: list[dict[str, Any]] = self._others_types.get(kind, [])
        if not found:
            raise NotCheckedError(f"the vCPUs of running {kind} instances are not known")
        return int(found[0]["VCpuInfo"]["DefaultVCpus"])

    @cached_property
    def _others_types(self) -> dict[str, list[dict[str, Any]]]:
        """Types outside the catalog, read once."""
        found: dict[str, list[dict[str, Any]]] = {}
        ec2 = self._clients("ec2", self._needs.region)
        for each in pages(ec2, "describe_instance_types", "InstanceTypes"):
            found.setdefault(each["InstanceType"], []).append(each)
        return found
