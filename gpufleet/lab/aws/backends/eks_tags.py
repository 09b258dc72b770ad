"""Tags of all taggable EKS resources; moto has only those of clusters."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.backends import eks_support as eks
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation


@operation("eks", "TagResource")
def tag_resource(call: Call) -> Params:
    """Add or replace tags."""
    _tags(call).update(call.params["tags"])
    return {}


@operation("eks", "UntagResource")
def untag_resource(call: Call) -> Params:
    """Remove tags; missing ones are not an error."""
    tags = _tags(call)
    for key in call.params["tagKeys"]:
        tags.pop(key, None)
    return {}


@operation("eks", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> Params:
    """The tags of one resource."""
    return {"tags": _tags(call)}


def _tags(call: Call) -> dict[str, str]:
    arn = call.params["resourceArn"]
    for cluster in eks.clusters_of(call).values():
        for owner, tags in _owners(cluster):
            if owner == arn:
                return tags
    raise AwsError("NotFoundException", f"Resource was not found: {arn}")


def _owners(cluster: Any) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = [(cluster.arn, cluster.tags)]
    found += [(group.arn, group.tags) for group in cluster.nodegroups.values()]
    found += [(one.fargate_profile_arn, one.tags) for one in cluster.fargate_profiles.values()]
    found += [(one["addonArn"], one["tags"]) for one in eks.part(cluster, "addons").values()]
    entries = [one["entry"] for one in eks.part(cluster, "access_entries").values()]
    found += [(one["accessEntryArn"], one["tags"]) for one in entries]
    associations = eks.part(cluster, "pod_identities").values()
    return found + [(one["associationArn"], one["tags"]) for one in associations]
