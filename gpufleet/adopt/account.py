"""What a region of an account has that a fleet file can describe. Only reading calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from gpufleet.account.reading import Clients, pages, read

Facts = Mapping[str, Any]
"""An answer of AWS, with AWS's names."""


class ClusterFacts(Struct, frozen=True):
    """An EKS cluster with its node groups, add-ons, and administrators by ARN and access policy.

    `access` is empty in authentication mode CONFIG_MAP.
    """

    cluster: Facts
    node_groups: tuple[Facts, ...]
    addons: tuple[str, ...]
    access: tuple[tuple[str, str], ...]


class RegionFacts(Struct, frozen=True):
    """A region. `templates` are launch template versions by (id, version), `images` names of AMIs by id."""

    region: str
    vpcs: tuple[Facts, ...]
    subnets: tuple[Facts, ...]
    nat_gateways: tuple[Facts, ...]
    clusters: tuple[ClusterFacts, ...]
    scaling_groups: tuple[Facts, ...]
    reservations: Mapping[str, Facts]
    file_systems: tuple[Facts, ...]
    links: tuple[Facts, ...]
    templates: Mapping[tuple[str, str], Facts] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)

    def template(self, reference: Facts | None) -> Facts:
        """Return the launch template that a group refers to; empty without one."""
        key = _template_key(reference)
        return self.templates.get(key, {}) if key else {}


def read_region(region: str, clients: Clients) -> RegionFacts:
    """Read a region. Raises NotCheckedError if AWS refuses a call: half a fleet file would mislead."""
    ec2, scaling, fsx = (clients(name, region) for name in ("ec2", "autoscaling", "fsx"))
    clusters = tuple(_clusters(clients("eks", region)))
    groups = tuple(pages(scaling, "describe_auto_scaling_groups", "AutoScalingGroups"))
    references = [group.get("launchTemplate") for each in clusters for group in each.node_groups]
    references += [scaling_template(group) for group in groups]
    templates = {
        key: _template_version(ec2, *key) for key in dict.fromkeys(map(_template_key, references)) if key
    }
    images = sorted({str(each["ImageId"]) for each in templates.values() if is_image_id(each.get("ImageId"))})
    reservations = pages(ec2, "describe_capacity_reservations", "CapacityReservations")
    systems = pages(fsx, "describe_file_systems", "FileSystems")
    return RegionFacts(
        region=region,
        vpcs=tuple(pages(ec2, "describe_vpcs", "Vpcs")),
        subnets=tuple(pages(ec2, "describe_subnets", "Subnets")),
        nat_gateways=tuple(
            each
            for each in pages(ec2, "describe_nat_gateways", "NatGateways")
            if each["State"] == "available"
        ),
        clusters=clusters,
        scaling_groups=groups,
        reservations={
            each["CapacityReservationId"]: each for each in reservations if each.get("State") in _HELD
        },
        file_systems=tuple(each for each in systems if each["FileSystemType"] == "LUSTRE"),
        links=tuple(pages(fsx, "describe_data_repository_associations", "Associations")),
        templates=templates,
        images={each["ImageId"]: each.get("Name", "") for each in _images(ec2, images)},
    )


_FILTER_VALUES = 200
"""Values of one filter in a request (EC2 User Guide, "List and filter using the CLI and API")."""

_HELD = ("active", "scheduled", "payment-pending", "assessing", "delayed")
"""States of reservations that hold capacity, or will (EC2 API Reference, CapacityReservation)."""


def scaling_template(group: Facts) -> Facts | None:
    """Return what an Auto Scaling group says of its launch template."""
    policy = group.get("MixedInstancesPolicy") or {}
    found: Facts | None = group.get("LaunchTemplate") or (policy.get("LaunchTemplate") or {}).get(
        "LaunchTemplateSpecification"
    )
    return found


def tags_of(item: Facts) -> dict[str, str]:
    """Return tags of either form of AWS's answers."""
    tags = item.get("Tags") or item.get("tags") or {}
    if isinstance(tags, Mapping):
        return {str(key): str(value) for key, value in tags.items()}
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags}


def is_image_id(image: str | None) -> bool:
    """Return whether the image of a launch template is an id.

    It can be an SSM parameter too (`resolve:ssm:...`): DescribeLaunchTemplateVersions returns it as written.
    """
    return (image or "").startswith("ami-")


def _template_key(reference: Facts | None) -> tuple[str, str] | None:
    if not reference:
        return None
    found = reference.get("id") or reference.get("LaunchTemplateId")
    version = reference.get("version") or reference.get("Version") or "$Default"
    return (str(found), str(version)) if found else None


def _template_version(ec2: Any, template: str, version: str) -> Facts:
    answer = read(ec2, "describe_launch_template_versions", LaunchTemplateId=template, Versions=[version])[
        "LaunchTemplateVersions"
    ]
    return dict(answer[0]["LaunchTemplateData"]) if answer else {}


def _images(ec2: Any, ids: Sequence[str]) -> Iterator[Facts]:
    """Yield the images that exist and that the account may use, deprecated ones too.

    ImageIds would make the whole request fail for a deregistered image, which a launch template still names.
    """
    for start in range(0, len(ids), _FILTER_VALUES):
        wanted = {"Name": "image-id", "Values": list(ids[start : start + _FILTER_VALUES])}
        yield from pages(ec2, "describe_images", "Images", Filters=[wanted], IncludeDeprecated=True)


def _clusters(eks: Any) -> Iterator[ClusterFacts]:
    for name in pages(eks, "list_clusters", "clusters"):
        cluster = read(eks, "describe_cluster", name=name)["cluster"]
        groups = pages(eks, "list_nodegroups", "nodegroups", clusterName=name)
        yield ClusterFacts(
            cluster=cluster,
            node_groups=tuple(
                read(eks, "describe_nodegroup", clusterName=name, nodegroupName=group)["nodegroup"]
                for group in groups
            ),
            addons=tuple(pages(eks, "list_addons", "addons", clusterName=name)),
            access=tuple(_access(eks, name)) if has_access_entries(cluster) else (),
        )


def has_access_entries(cluster: Facts) -> bool:
    """Return whether the cluster has access entries: in authentication mode CONFIG_MAP, EKS refuses to list
    them (EKS User Guide, "Set the authentication mode")."""
    mode = (cluster.get("accessConfig") or {}).get("authenticationMode")
    return mode != "CONFIG_MAP"


def _access(eks: Any, cluster: str) -> Iterator[tuple[str, str]]:
    """Yield principal and access policy of each entry."""
    for arn in pages(eks, "list_access_entries", "accessEntries", clusterName=cluster):
        policies = pages(
            eks,
            "list_associated_access_policies",
            "associatedAccessPolicies",
            clusterName=cluster,
            principalArn=arn,
        )
        for each in policies:
            yield str(arn), str(each["policyArn"]).rpartition("/")[2]
