"""EKS pod identity associations: the IAM role of a service account's pods."""

from __future__ import annotations

from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import eks_support as eks
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

_SUMMARY = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn")


@operation("eks", "CreatePodIdentityAssociation")
def create_pod_identity_association(call: Call) -> Params:
    """Associate a role with a service account; a service account can have one association."""
    given, cluster = call.params, eks.cluster_of(call)
    for one in eks.part(cluster, "pod_identities").values():
        if (one["namespace"], one["serviceAccount"]) == (given["namespace"], given["serviceAccount"]):
            message = f"Association already exists: {one['associationId']}"
            raise AwsError("ResourceInUseException", message)
    association_id = f"a-{eks.short_id()}"
    now = utcnow()
    association: Params = {
        "clusterName": cluster.name,
        "namespace": given["namespace"],
        "serviceAccount": given["serviceAccount"],
        "roleArn": given["roleArn"],
        "associationArn": eks.arn(call, f"podidentityassociation/{cluster.name}/{association_id}"),
        "associationId": association_id,
        "tags": given.get("tags") or {},
        "createdAt": now,
        "modifiedAt": now,
        "disableSessionTags": bool(given.get("disableSessionTags")),
    }
    _set_target(cluster, association, given)
    eks.part(cluster, "pod_identities")[association_id] = association
    return {"association": association}


@operation("eks", "DescribePodIdentityAssociation")
def describe_pod_identity_association(call: Call) -> Params:
    """One association."""
    return {"association": _find(call)}


@operation("eks", "ListPodIdentityAssociations")
def list_pod_identity_associations(call: Call) -> Params:
    """Return the associations of a cluster, filtered by namespace and service account."""
    wanted = {key: call.params[key] for key in ("namespace", "serviceAccount") if call.params.get(key)}
    every = eks.part(eks.cluster_of(call), "pod_identities").values()
    kept = [one for one in every if all(one[key] == value for key, value in wanted.items())]
    items, token = eks.page(call, kept)
    summaries = [{key: one[key] for key in _SUMMARY if key in one} for one in items]
    return {"associations": summaries, "nextToken": token}


@operation("eks", "UpdatePodIdentityAssociation")
def update_pod_identity_association(call: Call) -> Params:
    """Change the role, the target role or the session tags."""
    given, association = call.params, _find(call)
    if given.get("roleArn"):
        association["roleArn"] = given["roleArn"]
    if given.get("disableSessionTags") is not None:
        association["disableSessionTags"] = given["disableSessionTags"]
    _set_target(eks.cluster_of(call), association, given)
    association["modifiedAt"] = utcnow()
    return {"association": association}


@operation("eks", "DeletePodIdentityAssociation")
def delete_pod_identity_association(call: Call) -> Params:
    """Remove an association."""
    association = _find(call)
    del eks.part(eks.cluster_of(call), "pod_identities")[association["associationId"]]
    return {"association": association}


def associations_of(call: Call) -> list[Params]:
    """Every association of the account and region."""
    clusters = eks.clusters_of(call).values()
    return [one for cluster in clusters for one in eks.part(cluster, "pod_identities").values()]


def _find(call: Call) -> Any:
    wanted = call.params["associationId"]
    association = eks.part(eks.cluster_of(call), "pod_identities").get(wanted)
    if association is None:
        raise AwsError("ResourceNotFoundException", f"No association found with id: {wanted}")
    return association


def _set_target(cluster: Any, association: Params, given: Params) -> None:
    if given.get("policy") is not None:
        association["policy"] = given["policy"]
    if given.get("targetRoleArn"):
        association["targetRoleArn"] = given["targetRoleArn"]
        region_account = cluster.arn.removeprefix("arn:aws:eks:").removesuffix(f":cluster/{cluster.name}")
        association["externalId"] = f"{region_account.replace(':', '/')}/{cluster.name}"
