"""Names of cloud resources, derived in one place so that checks can verify their lengths."""

from __future__ import annotations

from gpufleet.kinds import TEAMS_SHARED

PULUMI_SUFFIX = 8
"""Pulumi makes a physical name of a logical one by adding '-' and seven random characters."""

FALLBACK_SUFFIX = "-fallback"
"""What the on-demand part of a spot group with that fallback is called besides the group itself."""

FLOW_LOGS_SUFFIX = "-flow-logs"
"""What the flow logs of a site, their key and their role are called besides the site."""

BUDGET_REGION = "us-east-1"
"""The region of AWS Budgets, of its topic and function, and of what the function keeps."""

BUDGET_SUFFIX = "-budget"
"""What an environment's budget and its key are called besides the environment."""

TEAM_DATA_SUFFIX = "-data"
"""What the role of a team's pods is called besides the site and the team."""

SHARED_CLAIM_SUFFIX = f"-{TEAMS_SHARED}"
"""What the claim of a mounted bucket's shared folder is called besides the bucket's name in the storage, by
which the claim of the team's own folder is called."""

NOTICES_SUFFIX = "-notices"
"""What the queue of AWS's notices and the role of its handler are called besides the site."""

SERVERS_SUFFIX = "-slurm"
"""What the servers of a site's own Slurm, their roles and their file systems are called besides the site."""

MUNGE_SUFFIX = "-munge"
"""What the key of the munge key of a site's nodes is called besides the site."""

AUTOSCALER_SUFFIX = "-scaling"
"""What the autoscaler of a site and the role of its pods are called besides the site."""

KARPENTER_SUFFIX = "-karpenter"
"""What Karpenter of a site and the role of its pods are called besides the site. The role has this name in
AWS: the function of a spent budget attaches policies to it."""

STOP_POLICY_SUFFIX = "-stop"
"""What the policy that denies Karpenter the launches of a group is called besides the group, in AWS too."""

QUEUES_SUFFIX = "-queues"
"""What the queues of a site are called besides the site."""

REPAIR_SUFFIX = "-repair"
"""What NVSentinel of a site, and what it needs in the cluster, are called besides the site."""

VPN_SUFFIX = "-vpn"
"""What the VPN of a site and its gateways are called besides the site."""

VPN_LOGS_SUFFIX = f"{VPN_SUFFIX}-logs"
"""What the logs of the VPN of a site and their key are called besides the site."""

DNS_SUFFIX = "-dns"
"""What the DNS endpoints of a site are called besides the site and their direction."""

LONGEST_ROLE_SUFFIX = FLOW_LOGS_SUFFIX
"""The longest of what IAM roles of a site add to the site's name."""

NETWORK = "network"
CONTROL_PLANE = "control-plane"
SYSTEM = "system"
RACKS = "racks"
OWNERS = (NETWORK, CONTROL_PLANE, SYSTEM)
"""Owners of what is neither a node group's nor a storage's; no group of a cloud site may take these names.
`RACKS` are all GPU nodes of a rack site."""


def environment_resource_name(fleet: str, environment: str) -> str:
    """The name of what an environment has once for its account."""
    return f"{fleet}-{environment}"


def site_resource_name(fleet: str, environment: str, site: str) -> str:
    """The name of a cloud site's resources, and of its EKS cluster."""
    return f"{environment_resource_name(fleet, environment)}-{site}"


def group_resource_name(fleet: str, environment: str, site: str, group: str) -> str:
    """The name of a node group's resources."""
    return f"{site_resource_name(fleet, environment, site)}-{group}"


def cap_name(kind: str, name: str) -> str:
    """What the budget of a site or team (`kind`) with a cap is called besides the environment's."""
    return f"{kind}-{name}"


def gateway_resource_name(site_name: str, zone: str) -> str:
    """The name of a zone's NAT gateway and of its address."""
    return f"{site_name}-nat-{zone}"


def endpoint_resource_name(site_name: str, service: str) -> str:
    """The name of the interface endpoint of a service (`ecr.api`)."""
    return f"{site_name}-{service.replace('.', '-')}"


def dns_resource_name(site_name: str, direction: str) -> str:
    """The name of a site's DNS endpoint, `inbound` or `outbound`."""
    return f"{site_name}{DNS_SUFFIX}-{direction}"


def bucket_claims(storage: str) -> tuple[str, str]:
    """The claims of a bucket that a team mounts: of the team's own folder, and of the shared one."""
    return storage, f"{storage}{SHARED_CLAIM_SUFFIX}"


def stopped_groups_parameter(fleet: str, environment: str) -> str:
    """The name of the SSM parameter with the node groups that a breach of the budget stopped."""
    return f"{parameters_path(fleet, environment)}/stopped-groups"


def drained_groups_path(fleet: str, environment: str) -> str:
    """The folder of the SSM parameters with the node groups that a breach of the budget drains, one each."""
    return f"{parameters_path(fleet, environment)}/drained"


def drained_group_parameter(path: str, group: str) -> str:
    """The name of the parameter of a node group, by the name of its resource."""
    return f"{path}/{group}"


def parameters_path(fleet: str, environment: str) -> str:
    """The folder of an environment's SSM parameters."""
    return f"/gpufleet/{fleet}/{environment}"
