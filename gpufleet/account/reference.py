"""docs/reference/preflight.md, generated from the tables of quotas, zones and actions."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpufleet.account import action_table as table
from gpufleet.account import quota_table
from gpufleet.account.actions import LINKED_ROLE
from gpufleet.account.quota_table import Quota
from gpufleet.account.zones import EKS_UNSUPPORTED

_HEADER = """# What `gpufleet preflight` checks

[Guide](../guide/preflight.md). This page is written by `make docs`; a test keeps it current.

## Findings

| rule | what is missing | severity |
|---|---|---|
| `quota` | a service quota is below what others use and the fleet needs | error if needed now, else warning |
| `zone-unknown` | the account has no zone of that name in the region | error |
| `eks-zone` | a zone of a Kubernetes site is one in which EKS accepts no subnet of a cluster | error |
| `type-offered` | a zone of a group lacks an instance type | error if no zone has any type, else warning |
| `reservation-id` | the account has no such reservation, or it is of the other kind | error |
| `reservation-state` | it is not active (a Capacity Block: nor scheduled), or has ended | error |
| `reservation-instance_type`, `reservation-zone` | it holds another type, or is in another zone | error |
| `reservation-group` | the account has no such resource group, or launches cannot target it | error |
| `reservation-nodes` | it holds fewer instances than the group has nodes, or others run in it | error |
| `reservation-end` | a reservation or Capacity Block ends within a week, or some of a group do | warning |
| `direct-connect-gateway` | the account has no Direct Connect gateway of that id | error |
| `direct-connect-state` | it is not available | error |
| `direct-connect-owner` | `owner` is the account itself: it needs no proposal | error |
| `direct-connect-full` | it has 20 virtual private gateways, or not room for those of the fleet | error |
| `direct-connect-asn` | it has the BGP number of the VPN's router | warning |
| `service-linked-role` | a role of an AWS service does not exist, and the caller may not create it | error |
| `permission` | an action of `up` is not allowed | error if a policy denies it, else warning |

`up` stops at an error. `preflight` ends with 1 for either.
"""

_QUOTAS = """
## Quotas

| service | code | quota | unit |
|---|---|---|---|"""

_ZONES = """
## Zones without EKS

EKS accepts no subnet of a cluster in {zones} (EKS user guide, "View Amazon EKS networking requirements for
VPC and subnets"). Zone names differ between accounts: the preflight compares ids.

## Simulated actions

`iam:SimulatePrincipalPolicy` evaluates these on `*`, roles and buckets on ARNs of the fleet's names, with
`aws:RequestedRegion`.
"""

_ACTIONS = (
    ("network, keys and logs of every site", (*table.NETWORK, *table.KEYS)),
    ("interface endpoints", table.PRIVATE_NAMES),
    ("VPNs", (*table.PRIVATE_GATEWAY, *table.VPN, *table.STATIC_ROUTES)),
    ("logs of VPNs", table.TUNNEL_LOGS),
    ("Direct Connect", (*table.PRIVATE_GATEWAY, *table.DIRECT_CONNECT)),
    ("Direct Connect by a gateway of another account", (*table.PRIVATE_GATEWAY, *table.PROPOSAL)),
    ("DNS", (*table.DNS, *table.DNS_RULES)),
    ("node groups", table.LAUNCH),
    ("Auto Scaling groups", table.SCALING),
    ("Kubernetes sites", table.CLUSTER),
    ("Kubernetes sites with an autoscaler, and budgets that drain spot nodes", table.AUTOSCALED),
    ("Kubernetes sites that are reached by Session Manager", table.SESSIONS),
    ("nodes that Slurm launches", (*table.PARAMETERS, *table.LAUNCHER)),
    ("servers of a Slurm site", table.SERVERS),
    ("shared folders of a Slurm site", table.SHARED_FILES),
    ("roles", (*table.ROLES, *table.PROFILES)),
    ("ordered capacity", table.ORDERS),
    ("Capacity Blocks that the fleet buys", table.BLOCKS),
    ("extensions of Capacity Blocks", table.EXTENSIONS),
    ("On-Demand Capacity Reservations that the fleet makes", table.RESERVATIONS),
    ("reservations that are shared", table.SHARES),
    ("FSx for Lustre", table.LUSTRE),
    ("buckets", table.BUCKET),
    ("notices of interruptions", table.NOTICES),
    ("the budget", table.BUDGET),
    ("reports of unusual cost", table.ANOMALIES),
    ("a budget that stops growth", (*table.STOP, *table.PARAMETERS)),
    ("a budget that stops growth of Karpenter's nodes", table.DENIALS),
    ("a service-linked role that does not exist yet", (LINKED_ROLE,)),
)


def preflight_reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEADER.rstrip("\n"), _QUOTAS]
    parts += [f"| `{each.service}` | `{each.code}` | {each.name} | {each.unit} |" for each in _quotas()]
    zones = ", ".join(f"`{each}`" for each in sorted(EKS_UNSUPPORTED))
    parts += [_ZONES.format(zones=zones).rstrip("\n"), ""]
    for title, names in _ACTIONS:
        parts += [f"- {title}: {', '.join(f'`{name}`' for name in sorted(names))}"]
    return "\n".join(parts) + "\n"


def _quotas() -> Iterator[Quota]:
    yield from quota_table.ON_DEMAND.values()
    yield from quota_table.SPOT.values()
    yield quota_table.ADDRESSES
    yield quota_table.VPCS
    yield quota_table.VPN_GATEWAYS
    yield from quota_table.VPN
    yield quota_table.RESOLVER_ENDPOINTS
    yield from (quota_table.CLUSTERS, quota_table.GROUPS_OF_CLUSTER, quota_table.NODES_OF_GROUP)
    for pair in quota_table.LUSTRE.values():
        yield from pair


if __name__ == "__main__":
    sys.stdout.write(preflight_reference())
