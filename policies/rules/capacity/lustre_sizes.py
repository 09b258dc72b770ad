"""FSx for Lustre file systems have a tier, throughput and size that AWS offers together."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog.lustre import is_size, nearest_sizes, size_steps
from gpufleet.kinds import METADATA_IOPS
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.launch_inputs import number
from gpufleet.resources.launches import declared
from gpufleet.resources.lustre import deployment_type
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.types import LUSTRE


@resource_rule(
    "lustre-sizes",
    group="capacity",
    title="FSx for Lustre has a tier, throughput and size that AWS offers together",
    why="AWS rejects a wrong size only after everything else was created. EFA and metadata IOPS are not "
    "available on every tier, and a tier that the catalog does not list has no price.",
    fix="Use a deployment type and throughput of `gpufleet catalog storage`, and a size in its steps.",
    severity="medium",
    types=(LUSTRE,),
    fleet_field="cloud",
    passes=Example(
        (
            {
                "type": LUSTRE,
                "props": {
                    "deploymentType": "PERSISTENT_2",
                    "perUnitStorageThroughput": 125,
                    "storageCapacity": 4800,
                },
            },
        )
    ),
    fails=Example(
        (
            {
                "type": LUSTRE,
                "props": {
                    "deploymentType": "PERSISTENT_2",
                    "perUnitStorageThroughput": 200,
                    "storageCapacity": 3600,
                },
            },
        )
    ),
)
def lustre_sizes(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check the tier, size, metadata and storage type of one file system."""
    resource = declared(resource)
    catalog = context.shared.catalog
    deployment = deployment_type(resource)
    if deployment is UNKNOWN:
        yield _violation(resource, "deploymentType", "its sizes are unknown", "write it", unknown=True)
        return
    known = {tier.deployment for tier in catalog.lustre_tiers}
    if deployment not in known:
        yield Violation(
            f"deploymentType is {deployment!r}"
            f"{'' if resource.get('deploymentType') else ' (the default)'}, which the catalog does not list",
            f"use one of {', '.join(sorted(known))}",
            prop="deploymentType",
        )
        return
    if resource.get("storageType", "SSD") != "SSD":
        yield _violation(
            resource,
            "storageType",
            "the catalog has sizes only for SSD",
            "use SSD",
            unknown=resource.get("storageType") is UNKNOWN,
        )
        return
    throughputs = catalog.lustre_throughputs(deployment)
    yield from _throughput(resource, deployment, throughputs)
    yield from _size(resource, context, deployment)
    yield from _metadata(resource, deployment)


def _throughput(resource: Resource, deployment: str, allowed: tuple[int, ...]) -> Iterator[Violation]:
    value = resource.get("perUnitStorageThroughput")
    choice = ", ".join(map(str, allowed))
    if not allowed and value is not None:
        yield _violation(
            resource, "perUnitStorageThroughput", f"{deployment} has a fixed throughput", "leave it out"
        )
    elif allowed and (value is None or number(value) not in allowed):
        yield _violation(
            resource,
            "perUnitStorageThroughput",
            f"{deployment} has {choice} MB/s/TiB",
            f"write one of {choice}",
            unknown=value is UNKNOWN,
        )


def _size(resource: Resource, context: RuleContext[Settings], deployment: str) -> Iterator[Violation]:
    efa = resource.get("efaEnabled", False)
    written = resource.get("perUnitStorageThroughput")
    throughput = number(written) if written is not None else None
    if efa is UNKNOWN:
        yield _violation(resource, "efaEnabled", "its sizes depend on it", "write it", unknown=True)
        return
    steps = size_steps(
        context.shared.catalog, deployment, None if throughput is UNKNOWN else throughput, efa=bool(efa)
    )
    if steps is None:
        yield _violation(resource, "efaEnabled", f"{deployment} has no EFA at this throughput", "write false")
        return
    gib = number(resource.get("storageCapacity"))
    if gib is UNKNOWN:
        yield _violation(
            resource, "storageCapacity", "its price is unknown", "write the size in GiB", unknown=True
        )
    elif not is_size(gib, steps):
        below, above = nearest_sizes(gib, steps)
        first, multiple = steps
        yield _violation(
            resource,
            "storageCapacity",
            f"{'EFA-enabled ' if efa else ''}{deployment} comes in multiples of {multiple} GiB"
            + (f", or {first} GiB" if first != multiple else ""),
            "write " + " or ".join(str(size) for size in (below, above) if size is not None),
        )


def _metadata(resource: Resource, deployment: str) -> Iterator[Violation]:
    metadata = resource.get("metadataConfiguration")
    if resource.get("efaEnabled", False) is True and metadata is None:
        yield _violation(
            resource,
            "metadataConfiguration",
            "EFA needs one",
            "write metadataConfiguration with mode USER_PROVISIONED and iops 6000",
        )
    if metadata is None:
        return
    if deployment != "PERSISTENT_2":
        yield _violation(
            resource, "metadataConfiguration", "only PERSISTENT_2 has metadata IOPS", "leave it out"
        )
        return
    iops = resource.get("metadataConfiguration.iops")
    if iops is not None and number(iops) not in METADATA_IOPS:
        yield _violation(
            resource,
            "metadataConfiguration.iops",
            "metadata IOPS are 1500, 3000, 6000 or a multiple of 12000 up to 192000",
            "write one of these",
            unknown=iops is UNKNOWN,
        )


def _violation(resource: Resource, prop: str, why: str, remedy: str, *, unknown: bool = False) -> Violation:
    return Violation(f"{prop} is {resource.show(prop)}, and {why}", remedy, prop=prop, unknown=unknown)
