"""Cloud nodes that the Slurm of a rack site launches: a Slurm that exists, and groups that it can launch."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from gpufleet.checks.networks import parse_network
from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.plan.cloud_slurm import partition_name
from gpufleet.plan.rack_slurm import declared_partitions
from gpufleet.spec.models import CloudSite, CloudSlurm, OnDemand, OnPremSite, Spot

_METADATA_KEY = re.compile(r"[A-Za-z0-9+\-=.,_:@]{1,255}")
"""Keys of tags that the metadata service shows (EC2 User Guide, "View tags for your EC2 instances using
instance metadata"): EC2 refuses a launch with others."""


@check("cloud-slurm-controllers")
def slurm_controllers(fleet: Fleet) -> Iterator[FieldFinding]:
    """Nodes of a Slurm site may be launched by the controllers of a rack site with Slurm, which they have to
    reach."""
    racks = {site.site: site for site in fleet.spec.onprem}
    with_slurm = [name for name, site in racks.items() if site.scheduler == "slurm"]
    for path, site, slurm in _sites(fleet):
        if site.scheduler != "slurm":
            yield FieldFinding(
                (*path, "slurm"),
                f"site {site.site!r} is a Kubernetes site, and `slurm` is for Slurm sites",
                "remove `slurm`",
                value=slurm.controllers or "servers",
            )
            continue
        if slurm.controllers is None:
            continue
        if slurm.identity is None:
            yield FieldFinding(
                (*path, "slurm"),
                f"the controllers of {slurm.controllers!r} launch nodes of site {site.site!r}, and `identity`"
                " is missing: the role that they assume trusts nobody else",
                "add the ARN of the IAM role or user that they have, such as"
                " 'identity: arn:aws:iam::111122223333:role/dc1-controllers'",
                value=slurm.controllers,
            )
        rack = racks.get(slurm.controllers)
        if rack is None or rack.scheduler != "slurm":
            what = "no rack site" if rack is None else "no site with Slurm"
            yield FieldFinding(
                (*path, "slurm", "controllers"),
                f"{slurm.controllers!r} is {what} of this fleet",
                did_you_mean(
                    nearest(slurm.controllers, with_slurm),
                    f"write one of: {listed(with_slurm) or 'none is declared'}",
                ),
            )
            continue
        yield from _reachable(fleet, path, site, rack)


def _reachable(fleet: Fleet, path: SpecPath, site: CloudSite, rack: OnPremSite) -> Iterator[FieldFinding]:
    where = ("onprem", fleet.spec.onprem.index(rack))
    hosts = rack.controllers.hosts if rack.controllers is not None else ()
    if not hosts:
        yield FieldFinding(
            (*path, "slurm", "controllers"),
            f"site {rack.site!r} has no controllers",
            f"add `controllers` to site {rack.site!r}",
        )
    # Nodes in AWS ask AWS's name servers, which do not know the rack's names.
    named = [host for host in hosts if not _is_address(rack.address_of(host))]
    if named:
        yield FieldFinding(
            (*where, "controllers"),
            f"nodes of site {site.site!r} cannot resolve the names of controllers ({listed(named)})",
            f"write their IP addresses: 'addresses: {{{named[0]}: ...}}'",
        )
    own, network = parse_network(site.network.cidr), parse_network(rack.network)
    if rack.network is None:
        yield FieldFinding(
            (*where, "site"),
            f"nodes of site {site.site!r} take connections from the network of site {rack.site!r} only, and"
            " the fleet file does not say which it is",
            f"add `network` to site {rack.site!r}, such as 'network: 10.60.0.0/22'",
        )
    elif own is not None and network is not None and own.overlaps(network):
        yield FieldFinding(
            (*path, "network", "cidr"),
            f"{site.network.cidr} overlaps {rack.network}, the network of site {rack.site!r}: nothing is"
            " routed between them",
            "use other addresses for one of them",
        )


@check("cloud-slurm-nodes")
def slurm_launches(fleet: Fleet) -> Iterator[FieldFinding]:
    """Slurm launches nodes from none on, from an image with Slurm, under names of their own."""
    taken = {host: site.site for site in fleet.spec.onprem for host in site.nodes.hosts}
    partitions = {
        partition.name: site.site for site in fleet.spec.onprem for partition in site.slurm.partitions
    }
    for each in fleet.groups():
        if each.site.slurm is None or each.site.scheduler != "slurm":
            continue
        if each.group.image is None:
            yield FieldFinding(
                (*each.path, "name"),
                f"{each.name} has AWS's image, which has no Slurm",
                "write the `image` that `gpufleet image build` made; for the first `up` any image will do"
                " (docs/guide/cloud_slurm.md, Images)",
            )
        option = each.option
        if isinstance(option, OnDemand | Spot):
            for name in ("min", "desired"):
                if getattr(option, name):
                    yield FieldFinding(
                        (*each.option_path, name),
                        f"Slurm launches the nodes of {each.name} when jobs need them, from 0 nodes on",
                        f"remove `{name}`",
                        value=getattr(option, name),
                    )
        if each.group.public_ip:
            yield FieldFinding(
                (*each.path, "public_ip"),
                f"the controllers reach nodes of {each.name} by their private addresses",
                "remove `public_ip`",
            )
        partition = partition_name(each.site.site, each.group.name)
        if partition in partitions:
            yield FieldFinding(
                (*each.path, "name"),
                f"its partition {partition!r} has the name of one of site {partitions[partition]!r}",
                "choose another name",
            )
        if f"{partition}-1" in taken:
            yield FieldFinding(
                (*each.path, "name"),
                f"its node {partition}-1 has the name of a node of site {taken[f'{partition}-1']!r}",
                "choose another name",
            )
    for path, site, _ in _sites(fleet):
        if site.ordered_capacity:
            yield FieldFinding(
                (*path, "ordered_capacity"),
                f"Slurm launches the nodes of site {site.site!r}, and orders need groups with a size",
                "remove `ordered_capacity`",
                value=site.ordered_capacity[0].name,
            )


@check("cloud-slurm-tags")
def slurm_metadata_tags(fleet: Fleet) -> Iterator[FieldFinding]:
    """A node reads its name from its tags by the metadata service, which shows plain keys only."""
    for _, site, _ in _sites(fleet):
        for key in fleet.spec.tags:
            if not _METADATA_KEY.fullmatch(key):
                yield FieldFinding(
                    ("tags", key),
                    f"EC2 refuses to launch nodes of site {site.site!r} with the tag {key!r}: their names are"
                    " read by the metadata service, which shows letters, digits and + - = . , _ : @ only",
                    "rename the tag",
                    value=key,
                )
        return


@check("cloud-slurm-burst")
def bursts(fleet: Fleet) -> Iterator[FieldFinding]:
    """Rules of bursts name teams, partitions and node groups that exist, and let each other in."""
    racks: dict[str | None, OnPremSite] = {site.site: site for site in fleet.spec.onprem}
    for path, site, slurm in _sites(fleet):
        burst, rack = slurm.burst, racks.get(slurm.controllers)
        if burst is None or rack is None:
            continue
        where = (*path, "slurm", "burst")
        groups = {group.name: group for group in site.node_groups}
        for field, known, of in (
            ("teams", [team.name for team in rack.teams], f"team of site {rack.site!r}"),
            (
                "partitions",
                [each.name for each in declared_partitions(rack)],
                f"partition of site {rack.site!r}",
            ),
            ("groups", list(groups), f"node group of site {site.site!r}"),
        ):
            for place, name in enumerate(getattr(burst, field)):
                if name not in known:
                    yield FieldFinding(
                        (*where, field, place),
                        f"{name!r} is no {of}",
                        did_you_mean(
                            nearest(name, known), f"write one of: {listed(known) or 'none is declared'}"
                        ),
                    )
        for name in burst.groups or groups:
            owner = groups[name].team if name in groups else None
            if owner is not None and owner not in burst.teams:
                yield FieldFinding(
                    (*where, "groups" if burst.groups else "teams"),
                    f"node group {name!r} is for jobs of team {owner!r}, which may not leave the racks",
                    f"add {owner!r} to `teams`, or leave {name!r} out of `groups`",
                )


def _sites(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, CloudSlurm]]:
    for path, site in fleet.cloud():
        if site.slurm is not None:
            yield path, site, site.slurm


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


CHECKS = (slurm_controllers, slurm_launches, slurm_metadata_tags, bursts)
