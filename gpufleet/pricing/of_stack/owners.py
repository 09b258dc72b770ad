"""The owner of a resource's cost: by its name in the plan, else by its tags.

The name has priority, so that a changed tag cannot move cost out of a cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.kinds import ALWAYS_SUFFIX, EXTENSION_SUFFIX
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import (
    FALLBACK_SUFFIX,
    SERVERS_SUFFIX,
    SYSTEM,
    group_resource_name,
    site_resource_name,
)
from gpufleet.pricing.book import Owner
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import KEY

SITE_TAG = "gpufleet:site"
NODE_GROUP_TAG = "gpufleet:node-group"
STORAGE_TAG = "gpufleet:storage"
TEAM_TAG = "gpufleet:team"


class Owners:
    """Finds the owner of resources of one stack."""

    def __init__(self, stack: Stack, plan: FleetPlan | None) -> None:
        self._stack = stack
        self._names: dict[str, tuple[str, str]] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        self._teams: dict[tuple[str, str], str] = {}
        if plan is not None:
            self._read(plan)

    def of(self, resource: Resource, *also: Resource | None, default: str = "") -> Owner:
        """Return the owner of a resource. `also` are resources whose tags apply too (its launch template),
        `default` is the owner if neither name nor tags have one."""
        tags = _tags(resource)
        for each in also:
            tags = {**(_tags(each) if each is not None else {}), **tags}
        site, owner = self._by_name(resource)
        if not owner:
            site = site or tags.get(SITE_TAG, "")
            owner = tags.get(NODE_GROUP_TAG) or tags.get(STORAGE_TAG) or (default if site else "")
        planned = (site, owner) in self._teams
        return Owner(site, owner, self._teams[site, owner] if planned else tags.get(TEAM_TAG, ""))

    def _by_name(self, resource: Resource) -> tuple[str, str]:
        if resource.type == KEY and resource.name in self._keys:
            return self._keys[resource.name]
        nearest = (resource, *self._stack.ancestors(resource))
        return next((self._names[each.name] for each in nearest if each.name in self._names), ("", ""))

    def _read(self, plan: FleetPlan) -> None:
        about = (plan.fleet, plan.environment)
        for site in plan.cloud:
            self._names[site_resource_name(*about, site.site)] = (site.site, "")
            self._names[group_resource_name(*about, site.site, SYSTEM)] = (site.site, SYSTEM)
            self._names[f"{site_resource_name(*about, site.site)}{SERVERS_SUFFIX}"] = (site.site, SYSTEM)
            for name in (*(each.name for each in site.lustre), *(each.name for each in site.buckets)):
                self._names[group_resource_name(*about, site.site, name)] = (site.site, name)
            self._keys |= {key.name: (site.site, key.owner) for key in site.keys}
            for group in site.node_groups:
                name = group_resource_name(*about, site.site, group.name)
                for suffix in ("", FALLBACK_SUFFIX, ALWAYS_SUFFIX):
                    self._names[f"{name}{suffix}"] = (site.site, group.name)
                extensions = getattr(group.capacity, "extensions", ())
                for place, _ in enumerate(extensions, 1):
                    self._names[f"{name}{EXTENSION_SUFFIX}{place}"] = (site.site, group.name)
                self._teams[site.site, group.name] = group.team or ""


def _tags(resource: Resource) -> dict[str, str]:
    """Return the known tags of the resource, its provider's defaults, and a group's tag list."""
    found: dict[str, str] = {}
    for name in ("tagsAll", "tags"):
        tags: Any = resource.props.get(name)
        if name in resource.secrets:
            continue
        if isinstance(tags, Mapping):
            found |= {key: each for key, each in tags.items() if isinstance(each, str) and each.strip()}
        elif isinstance(tags, list | tuple):
            found |= {
                str(each.get("key")): str(each.get("value"))
                for each in tags
                if isinstance(each, Mapping)
                and isinstance(each.get("value"), str)
                and str(each["value"]).strip()
            }
    return found
