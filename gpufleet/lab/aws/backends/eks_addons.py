"""EKS add-ons: create, describe, list, update and delete, and their versions.

The add-ons are those of gpufleet's components and the cluster's own. Their versions are fictitious
(`-eksbuild.1` of a plausible release) and stable: real ones are not shipped.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import eks_support as eks
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

DEFAULT_VERSIONS = {
    "vpc-cni": "v1.20.4-eksbuild.1",
    "coredns": "v1.12.4-eksbuild.1",
    "kube-proxy": "v1.34.0-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.8-eksbuild.1",
    "aws-ebs-csi-driver": "v1.50.1-eksbuild.1",
    "aws-efs-csi-driver": "v2.1.12-eksbuild.1",
    "aws-fsx-csi-driver": "v1.6.0-eksbuild.1",
    "aws-mountpoint-s3-csi-driver": "v2.1.0-eksbuild.1",
    "amazon-cloudwatch-observability": "v4.5.0-eksbuild.1",
    "eks-node-monitoring-agent": "v1.4.0-eksbuild.1",
    "metrics-server": "v0.8.0-eksbuild.1",
    "snapshot-controller": "v8.3.0-eksbuild.1",
    "aws-network-flow-monitoring-agent": "v1.0.3-eksbuild.1",
    "cert-manager": "v1.18.2-eksbuild.1",
    "external-dns": "v0.19.0-eksbuild.1",
    "kube-state-metrics": "v2.17.0-eksbuild.1",
    "prometheus-node-exporter": "v1.9.1-eksbuild.1",
}
"""Add-on name -> its default version."""


@operation("eks", "CreateAddon")
def create_addon(call: Call) -> Params:
    """Install an add-on; it is ACTIVE at once."""
    given, cluster = call.params, eks.cluster_of(call)
    name = given["addonName"]
    if name in eks.part(cluster, "addons"):
        raise AwsError("ResourceInUseException", f"Addon already exists: {name}")
    version = _version(name, given.get("addonVersion"), cluster.version)
    now = utcnow()
    addon: Params = {
        "addonName": name,
        "clusterName": cluster.name,
        "status": "ACTIVE",
        "addonVersion": version,
        "health": {"issues": []},
        "addonArn": eks.arn(call, f"addon/{cluster.name}/{name}/{uuid.uuid4()}"),
        "createdAt": now,
        "modifiedAt": now,
        "tags": given.get("tags") or {},
        "publisher": "eks",
        "owner": "aws",
    }
    for key in ("serviceAccountRoleArn", "namespaceConfig"):
        if given.get(key):
            addon[key] = given[key]
    _configure(call, cluster, addon, given)
    eks.part(cluster, "addons")[name] = addon
    return {"addon": {**addon, "status": "CREATING"}}


@operation("eks", "DescribeAddon")
def describe_addon(call: Call) -> Params:
    """One add-on of a cluster."""
    return {"addon": _find(call)}


@operation("eks", "ListAddons")
def list_addons(call: Call) -> Params:
    """The names of a cluster's add-ons."""
    items, token = eks.page(call, sorted(eks.part(eks.cluster_of(call), "addons")))
    return {"addons": items, "nextToken": token}


@operation("eks", "UpdateAddon")
def update_addon(call: Call) -> Params:
    """Change version, role or configuration; settings that the request omits stay."""
    given, addon = call.params, _find(call)
    cluster = eks.cluster_of(call)
    if given.get("addonVersion"):
        addon["addonVersion"] = _version(addon["addonName"], given["addonVersion"], cluster.version)
    if given.get("serviceAccountRoleArn"):
        addon["serviceAccountRoleArn"] = given["serviceAccountRoleArn"]
    _configure(call, cluster, addon, given)
    addon["modifiedAt"] = utcnow()
    params = {
        "AddonVersion": given.get("addonVersion"),
        "ServiceAccountRoleArn": given.get("serviceAccountRoleArn"),
        "ResolveConflicts": given.get("resolveConflicts"),
        "ConfigurationValues": given.get("configurationValues"),
    }
    return {"update": eks.record_update(cluster, "AddonUpdate", params, addon["addonName"])}


@operation("eks", "DeleteAddon")
def delete_addon(call: Call) -> Params:
    """Remove an add-on with its own pod identity associations."""
    cluster, addon = eks.cluster_of(call), _find(call)
    del eks.part(cluster, "addons")[addon["addonName"]]
    associations = eks.part(cluster, "pod_identities")
    for key in [k for k, a in associations.items() if a.get("ownerArn") == addon["addonArn"]]:
        del associations[key]
    return {"addon": {**addon, "status": "DELETING"}}


@operation("eks", "DescribeAddonVersions")
def describe_addon_versions(call: Call) -> Params:
    """Return the add-ons, each with one version for every cluster version."""
    wanted = call.params.get("addonName")
    cluster_version = call.params.get("kubernetesVersion")
    compatibility: Params = {"platformVersions": ["*"], "defaultVersion": True}
    if cluster_version:
        compatibility["clusterVersion"] = cluster_version
    addons = [
        {
            "addonName": name,
            "type": "networking" if name in {"vpc-cni", "coredns", "kube-proxy"} else "storage-or-tooling",
            "owner": "aws",
            "publisher": "eks",
            "addonVersions": [
                {
                    "addonVersion": version,
                    "architecture": ["amd64", "arm64"],
                    "computeTypes": ["ec2"],
                    "compatibilities": [compatibility],
                    "requiresConfiguration": False,
                    "requiresIamPermissions": name.endswith("csi-driver") or name == "vpc-cni",
                }
            ],
        }
        for name, version in sorted(DEFAULT_VERSIONS.items())
        if wanted in (None, name)
    ]
    items, token = eks.page(call, addons)
    return {"addons": items, "nextToken": token}


@operation("eks", "DescribeAddonConfiguration")
def describe_addon_configuration(call: Call) -> Params:
    """Return the configuration schema: any object, since the real schemas are not shipped."""
    name, version = call.params["addonName"], call.params["addonVersion"]
    _version(name, version)
    schema = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})
    return {"addonName": name, "addonVersion": version, "configurationSchema": schema}


def _find(call: Call) -> Any:
    name = call.params["addonName"]
    addon = eks.part(eks.cluster_of(call), "addons").get(name)
    if addon is None:
        message = f"No addon: {name} found in cluster: {call.params['clusterName']}"
        raise AwsError("ResourceNotFoundException", message)
    return addon


def _version(name: str, wanted: str | None, kubernetes: str = "") -> str:
    if name not in DEFAULT_VERSIONS:
        message = f"Addon {name} specified is not supported"
        raise AwsError("InvalidParameterException", message)
    version = wanted or DEFAULT_VERSIONS[name]
    if not version.startswith("v") or "-eksbuild." not in version:
        message = f"Addon version specified is not supported: {version}"
        raise AwsError("InvalidParameterException", message)
    if wanted and kubernetes and name == "kube-proxy" and not wanted.startswith(f"v{kubernetes}."):
        message = f"Addon version specified is not supported with Kubernetes {kubernetes}: {version}"
        raise AwsError("InvalidParameterException", message)
    return version


def _configure(call: Call, cluster: Any, addon: Params, given: Params) -> None:
    values = given.get("configurationValues")
    if values is not None:
        addon["configurationValues"] = values
    if given.get("podIdentityAssociations") is None:
        return
    associations = eks.part(cluster, "pod_identities")
    for key in [k for k, a in associations.items() if a.get("ownerArn") == addon["addonArn"]]:
        del associations[key]
    arns = []
    for wanted in given["podIdentityAssociations"]:
        association_id = f"a-{eks.short_id()}"
        arn = eks.arn(call, f"podidentityassociation/{cluster.name}/{association_id}")
        now = utcnow()
        associations[association_id] = {
            "clusterName": cluster.name,
            "namespace": "kube-system",
            "serviceAccount": wanted["serviceAccount"],
            "roleArn": wanted["roleArn"],
            "associationArn": arn,
            "associationId": association_id,
            "tags": {},
            "createdAt": now,
            "modifiedAt": now,
            "ownerArn": addon["addonArn"],
            "disableSessionTags": False,
        }
        arns.append(arn)
    addon["podIdentityAssociations"] = arns
