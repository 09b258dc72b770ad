"""Access that a fleet file declares, and that rules on access therefore allow."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.spec.cloud import CloudSite
from gpufleet.spec.models import FleetSpec

_LISTS = ("admins", "viewers", "public_cidrs", "private_cidrs")


def new_access(before: FleetSpec, after: FleetSpec) -> Iterator[tuple[str, str]]:
    """Yield (field, what) for administrators, viewers, networks and public nodes that the change adds."""
    known = {site.site: site for site in before.cloud}
    for index, site in enumerate(after.cloud):
        former = known.get(site.site)
        for name in _LISTS:
            listed = _listed(former, name)
            for each in (each for each in _listed(site, name) if each not in listed):
                yield f"cloud[{index}].kubernetes.{name}", f"{each} of {site.site} is new"
        public = {group.name for group in former.node_groups if group.public_ip} if former else set()
        for place, group in enumerate(site.node_groups):
            if group.public_ip and group.name not in public:
                yield (
                    f"cloud[{index}].node_groups[{place}].public_ip",
                    f"{site.site}/{group.name} gets public addresses",
                )


def _listed(site: CloudSite | None, name: str) -> list[str]:
    kubernetes = site.kubernetes if site is not None else None
    return [str(each) for each in getattr(kubernetes, name)] if kubernetes is not None else []
