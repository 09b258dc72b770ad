"""How things in the cloud are called: derived once, so that checks can judge lengths before AWS does."""

from __future__ import annotations

PULUMI_SUFFIX = 8
"""Pulumi makes a physical name of a logical one by adding '-' and seven random characters."""

FALLBACK_SUFFIX = "-fallback"
"""What the on-demand part of a spot group with that fallback is called besides the group itself."""

LONGEST_ROLE_SUFFIX = "-flow-logs"
"""The longest of what IAM roles of a site add to the site's name."""


def site_resource_name(fleet: str, environment: str, site: str) -> str:
    """The name of a cloud site's resources, and of its EKS cluster."""
    return f"{fleet}-{environment}-{site}"


def group_resource_name(fleet: str, environment: str, site: str, group: str) -> str:
    """The name of a node group's resources."""
    return f"{site_resource_name(fleet, environment, site)}-{group}"
