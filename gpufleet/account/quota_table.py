"""Service quotas that a fleet needs: their codes, and the families of EC2's vCPU quotas.

Codes and names: the quota tables of the AWS General Reference ("Amazon EC2 endpoints and quotas", "Amazon EKS
endpoints and quotas", "Amazon FSx endpoints and quotas", "Amazon VPC quotas"), the AWS Site-to-Site VPN User
Guide ("quotas"), the Route 53 Developer Guide ("Quotas") and the answers of `service-quotas
list-service-quotas`. Families: EC2 user guide, "On-Demand Instance quotas" and "Spot Instance quotas". No
table names the Spot quota of P6: it is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gpufleet.kinds import LustreDeployment


class Quota(Struct, frozen=True):
    """A quota by AWS's codes and name. `unit` is what it counts."""

    service: str
    code: str
    name: str
    unit: str


ON_DEMAND: Mapping[str, Quota] = {
    "p": Quota("ec2", "L-417A185B", "Running On-Demand P instances", "vCPUs"),
    "g": Quota("ec2", "L-DB2E81BA", "Running On-Demand G and VT instances", "vCPUs"),
    "standard": Quota(
        "ec2", "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "vCPUs"
    ),
    "inf": Quota("ec2", "L-1945791B", "Running On-Demand Inf instances", "vCPUs"),
    "trn": Quota("ec2", "L-2C3B7624", "Running On-Demand Trn instances", "vCPUs"),
}
SPOT: Mapping[str, Quota] = {
    "p4": Quota("ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", "vCPUs"),
    "p5": Quota("ec2", "L-C4BD4855", "All P5 Spot Instance Requests", "vCPUs"),
    "g": Quota("ec2", "L-3819A6DF", "All G and VT Spot Instance Requests", "vCPUs"),
    "standard": Quota(
        "ec2", "L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "vCPUs"
    ),
    "inf": Quota("ec2", "L-B5D1601B", "All Inf Spot Instance Requests", "vCPUs"),
    "trn": Quota("ec2", "L-6B0D517C", "All Trn Spot Instance Requests", "vCPUs"),
}

ADDRESSES = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs", "addresses")
VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region", "VPCs")
VPN_CONNECTIONS = Quota("ec2", "L-3E6EC3A3", "Site-to-Site VPN connections per Region", "connections")
VPN_GATEWAYS = Quota("ec2", "L-7029FAB6", "Virtual private gateways per Region", "gateways")
CUSTOMER_GATEWAYS = Quota("ec2", "L-4FB7FF5D", "Customer gateways per Region", "gateways")
VPN = (VPN_CONNECTIONS, CUSTOMER_GATEWAYS)
RESOLVER_ENDPOINTS = Quota("route53resolver", "L-4A669CC0", "Resolver endpoints per AWS Region", "endpoints")
CLUSTERS = Quota("eks", "L-1194D53C", "Clusters", "clusters")
GROUPS_OF_CLUSTER = Quota("eks", "L-6D54EA21", "Managed node groups per cluster", "node groups")
NODES_OF_GROUP = Quota("eks", "L-BD136A63", "Nodes per managed node group", "nodes")

LUSTRE: Mapping[LustreDeployment, tuple[Quota, Quota]] = {
    "SCRATCH_2": (
        Quota("fsx", "L-C48231E5", "Lustre Scratch file systems", "file systems"),
        Quota("fsx", "L-AD2FC696", "Lustre Scratch storage capacity", "GiB"),
    ),
    "PERSISTENT_1": (
        Quota("fsx", "L-9AFA1F09", "Lustre Persistent_1 file systems", "file systems"),
        Quota("fsx", "L-C8640C82", "Lustre Persistent_1 storage capacity", "GiB"),
    ),
    "PERSISTENT_2": (
        Quota("fsx", "L-FD6F2F22", "Lustre Persistent_2 file systems", "file systems"),
        Quota("fsx", "L-8F1B9C74", "Lustre Persistent_2 storage capacity", "GiB"),
    ),
}
"""Deployment type -> quota of file systems, and of their capacity."""

_FAMILY = re.compile(r"^([a-z]+)(\d*)")
_STANDARD = frozenset("acdhimrtz")


def vcpu_quota(instance_type: str, market: str) -> Quota | None:
    """Return the vCPU quota of an instance type (`p5.48xlarge`) in a market, None if none is known."""
    parts = _FAMILY.match(instance_type)
    letters, generation = (parts[1], parts[2]) if parts else ("", "")
    if market == "spot" and letters == "p":
        return {"2": SPOT["p4"], "3": SPOT["p4"], "4": SPOT["p4"], "5": SPOT["p5"]}.get(generation)
    if letters in ("g", "gr", "vt"):
        family = "g"
    elif letters in ("p", "inf", "trn"):
        family = letters
    elif letters[:1] in _STANDARD and letters not in ("dl", "hpc", "mac"):
        family = "standard"
    else:
        return None
    return (SPOT if market == "spot" else ON_DEMAND)[family]
