"""EKS access entries and the access policies associated with them."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import eks_support as eks
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

TYPES = ("STANDARD", "EC2", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX")

POLICIES = (
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonEKSSecretReaderPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingPolicy",
    "AmazonEKSComputePolicy",
    "AmazonEKSHybridPolicy",
)
"""Names of the managed access policies (EKS user guide, access policy permissions)."""


@operation("eks", "CreateAccessEntry")
def create_access_entry(call: Call) -> Params:
    """Add an IAM principal to a cluster whose authentication mode supports access entries."""
    given, cluster = call.params, eks.cluster_of(call)
    _check_mode(cluster)
    principal = given["principalArn"]
    if principal in eks.part(cluster, "access_entries"):
        message = "The specified access entry resource is already in use on this cluster."
        raise AwsError("ResourceInUseException", message)
    kind = given.get("type") or "STANDARD"
    if kind not in TYPES:
        raise AwsError("InvalidParameterException", f"The access entry type {kind} is not valid.")
    groups = given.get("kubernetesGroups") or []
    if kind != "STANDARD" and (groups or given.get("username")):
        raise AwsError("InvalidParameterException", f"Type {kind} takes neither groups nor a username.")
    found = admit(call, cluster, principal, kind)
    entry: Params = found["entry"]
    entry["tags"] = given.get("tags") or {}
    if kind == "STANDARD":
        entry["kubernetesGroups"] = groups
        entry["username"] = given.get("username") or entry["username"]
    return {"accessEntry": entry}


def _check_mode(cluster: Any) -> None:
    """Refuse as EKS does for a cluster in authentication mode CONFIG_MAP, which has no access entries."""
    mode = (vars(cluster).get("access_config") or {}).get("authenticationMode", "API_AND_CONFIG_MAP")
    if mode == "CONFIG_MAP":
        message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP]"
        raise AwsError("InvalidRequestException", f"{message} to perform this operation.")


def admit(call: Call, cluster: Any, principal: str, kind: str, policy: str | None = None) -> Any:
    """Add an access entry if there is none, with a policy for the whole cluster if given.

    EKS does this for a cluster's creator and for the role of managed nodes.
    """
    entries = eks.part(cluster, "access_entries")
    if principal in entries:
        return entries[principal]
    now = utcnow()
    entry: Params = {
        "clusterName": cluster.name,
        "principalArn": principal,
        "kubernetesGroups": ["system:nodes"] if kind != "STANDARD" else [],
        "accessEntryArn": eks.arn(call, f"access-entry/{cluster.name}/{_path(principal)}/{uuid.uuid4()}"),
        "createdAt": now,
        "modifiedAt": now,
        "tags": {},
        "username": _username(principal, kind),
        "type": kind,
    }
    entries[principal] = {"entry": entry, "policies": {}}
    if policy:
        arn = f"arn:{call.partition}:eks::aws:cluster-access-policy/{policy}"
        entries[principal]["policies"][arn] = _associated(arn, {"type": "cluster"}, now, now)
    return entries[principal]


@operation("eks", "DescribeAccessEntry")
def describe_access_entry(call: Call) -> Params:
    """One access entry."""
    return {"accessEntry": _find(call)["entry"]}


@operation("eks", "ListAccessEntries")
def list_access_entries(call: Call) -> Params:
    """Return the principals of a cluster, or those with one policy."""
    policy, cluster = call.params.get("associatedPolicyArn"), eks.cluster_of(call)
    _check_mode(cluster)
    entries = eks.part(cluster, "access_entries")
    kept = sorted(p for p, one in entries.items() if policy is None or policy in one["policies"])
    items, token = eks.page(call, kept)
    return {"accessEntries": items, "nextToken": token}


@operation("eks", "UpdateAccessEntry")
def update_access_entry(call: Call) -> Params:
    """Change groups or username."""
    entry = _find(call)["entry"]
    for key in ("kubernetesGroups", "username"):
        if call.params.get(key) is not None:
            entry[key] = call.params[key]
    entry["modifiedAt"] = utcnow()
    return {"accessEntry": entry}


@operation("eks", "DeleteAccessEntry")
def delete_access_entry(call: Call) -> Params:
    """Remove an entry with its policy associations."""
    _find(call)
    del eks.part(eks.cluster_of(call), "access_entries")[call.params["principalArn"]]
    return {}


@operation("eks", "AssociateAccessPolicy")
def associate_access_policy(call: Call) -> Params:
    """Give an entry a policy; a second time replaces the scope."""
    given, found = call.params, _find(call)
    if found["entry"]["type"] != "STANDARD":
        message = "Access policies can be associated with access entries of type STANDARD only."
        raise AwsError("InvalidRequestException", message)
    policy, scope = given["policyArn"], given["accessScope"]
    if policy not in _policy_arns(call):
        raise AwsError("ResourceNotFoundException", f"The policyArn parameter format is not valid: {policy}")
    if scope.get("type") == "namespace" and not scope.get("namespaces"):
        raise AwsError("InvalidParameterException", "A namespace scope needs at least one namespace.")
    now = utcnow()
    before = found["policies"].get(policy)
    found["policies"][policy] = _associated(policy, scope, before["associatedAt"] if before else now, now)
    return {
        "clusterName": given["clusterName"],
        "principalArn": given["principalArn"],
        "associatedAccessPolicy": found["policies"][policy],
    }


@operation("eks", "DisassociateAccessPolicy")
def disassociate_access_policy(call: Call) -> Params:
    """Remove a policy from an entry."""
    found, policy = _find(call), call.params["policyArn"]
    if policy not in found["policies"]:
        raise AwsError("ResourceNotFoundException", f"The policy {policy} is not associated.")
    del found["policies"][policy]
    return {}


@operation("eks", "ListAssociatedAccessPolicies")
def list_associated_access_policies(call: Call) -> Params:
    """The policies of an entry."""
    items, token = eks.page(call, _find(call)["policies"].values())
    return {
        "clusterName": call.params["clusterName"],
        "principalArn": call.params["principalArn"],
        "associatedAccessPolicies": items,
        "nextToken": token,
    }


@operation("eks", "ListAccessPolicies")
def list_access_policies(call: Call) -> Params:
    """Return the available access policies."""
    every = [{"name": arn.rpartition("/")[2], "arn": arn} for arn in _policy_arns(call)]
    items, token = eks.page(call, every)
    return {"accessPolicies": items, "nextToken": token}


def _associated(arn: str, scope: Params, since: dt.datetime, now: dt.datetime) -> Params:
    return {
        "policyArn": arn,
        "accessScope": {"type": scope.get("type"), "namespaces": scope.get("namespaces") or []},
        "associatedAt": since,
        "modifiedAt": now,
    }


def _policy_arns(call: Call) -> list[str]:
    return [f"arn:{call.partition}:eks::aws:cluster-access-policy/{name}" for name in POLICIES]


def _find(call: Call) -> Any:
    principal = call.params["principalArn"]
    entry = eks.part(eks.cluster_of(call), "access_entries").get(principal)
    if entry is None:
        message = f"The specified principalArn could not be found. principalArn: {principal}"
        raise AwsError("ResourceNotFoundException", message)
    return entry


def _path(principal: str) -> str:
    # arn:aws:iam::123456789012:role/name -> role/123456789012/name
    account, _, resource = principal.split(":", 4)[4].partition(":")
    kind, _, name = resource.partition("/")
    return f"{kind}/{account}/{name.rpartition('/')[2]}"


def _username(principal: str, kind: str) -> str:
    if kind != "STANDARD":
        return "system:node:{{EC2PrivateDNSName}}"
    if ":role/" in principal:
        assumed = principal.replace(":iam:", ":sts:").replace(":role/", ":assumed-role/")
        return f"{assumed}/{{{{SessionName}}}}"
    return principal
