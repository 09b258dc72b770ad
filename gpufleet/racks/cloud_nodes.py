"""Cloud nodes that Ansible configures: read from the outputs of a stack, checked against the plan.

The stack exports `nodes`, a list of `{site, node_group, name, address}` with an optional `user`.
Only nodes of Slurm sites are listed there: nodes of a Kubernetes site are configured by their image.
Without that output (nothing deployed yet, or no node running) there are no cloud nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpufleet.errors import InputError
from gpufleet.plan.models import CloudSitePlan

OUTPUT = "nodes"
_REMEDY = "run `gpufleet refresh` and `gpufleet up`, so that the outputs are those of this fleet file"


class CloudNode(Struct, frozen=True):
    """A running cloud node. `user` is the login user of Ansible, empty for Ansible's default."""

    site: str
    node_group: str
    name: str
    address: str
    user: str
    efa: bool


def cloud_nodes(sites: Sequence[CloudSitePlan], outputs: Mapping[str, Any]) -> tuple[CloudNode, ...]:
    """The nodes of `sites` that the outputs list, sorted by site, group and name.

    Raises InputError for an entry without a needed field and for a site or group not in the plan.
    """
    listed = outputs.get(OUTPUT) or ()
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise InputError(f"stack output {OUTPUT!r} is {listed!r}, which is not a list", remedy=_REMEDY)
    groups = {(site.site, group.name): group for site in sites for group in site.node_groups}
    nodes = []
    for entry in listed:
        site, name, group = (_field(entry, key) for key in ("site", "name", "node_group"))
        if (site, group) not in groups:
            raise InputError(
                f"stack output {OUTPUT!r} has node {name!r} of node group {group!r} of site {site!r}, "
                "which is no Slurm node group of this fleet file",
                remedy=_REMEDY,
            )
        nodes.append(
            CloudNode(
                site,
                group,
                name,
                _field(entry, "address"),
                str(entry.get("user") or ""),
                groups[site, group].efa,
            )
        )
    return tuple(sorted(nodes, key=lambda node: (node.site, node.node_group, node.name)))


def _field(entry: Any, key: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if not isinstance(value, str) or not value:
        raise InputError(f"stack output {OUTPUT!r} has {entry!r}, which lacks {key!r}", remedy=_REMEDY)
    return value
