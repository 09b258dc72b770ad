"""EKS clusters: the fields, checks and updates that moto's clusters lack.

Sources of the checks: EKS user guide ("Network requirements", "Cluster endpoint", "Update existing
cluster to new Kubernetes version", "Access entries") and the EKS API reference.
"""

from __future__ import annotations

import base64
import secrets
from typing import Any

from gpufleet.kinds import CONTROL_PLANE_LOGS
from gpufleet.lab.aws.backends import eks_access
from gpufleet.lab.aws.backends import eks_support as eks
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

DEFAULT_VERSION = "1.34"

CREATOR = "user/moto"
"""The caller in moto's GetCallerIdentity."""

_NO_ENDPOINT = "Private and public endpoint access cannot both be false."
_NO_CERTIFICATE = b"the sandbox's clusters have no API server, so nothing is ever verified against this"
_DEFAULTS: dict[str, Any] = {
    "accessConfig": {"authenticationMode": "CONFIG_MAP"},
    "upgradePolicy": {"supportType": "EXTENDED"},
    "zonalShiftConfig": {"enabled": False},
    "deletionProtection": False,
}
_ATTRIBUTES = {
    "accessConfig": "access_config",
    "upgradePolicy": "upgrade_policy",
    "zonalShiftConfig": "zonal_shift_config",
    "computeConfig": "compute_config",
    "storageConfig": "storage_config",
    "deletionProtection": "deletion_protection",
    "remoteNetworkConfig": "remote_network_config",
    "controlPlaneScalingConfig": "control_plane_scaling_config",
}


@operation("eks", "CreateCluster")
def create_cluster(call: Call) -> Passthrough:
    """Create a cluster with its security group; it is ACTIVE from the next request on."""
    given = call.params
    network = given["resourcesVpcConfig"]
    vpc_id = _check_network(call, network)
    if not network.get("endpointPublicAccess", True) and not network.get("endpointPrivateAccess", False):
        raise AwsError("InvalidParameterException", _NO_ENDPOINT)
    for one in given.get("encryptionConfig") or []:
        _check_key(call, (one.get("provider") or {}).get("keyArn") or "")
    if given.get("version"):
        _minor(given["version"])
    answer = call.original()
    cluster = answer.result["cluster"]
    cluster.version = given.get("version") or DEFAULT_VERSION
    cluster.logging = _logging(given.get("logging"))
    cluster.health = {"issues": []}
    # moto gives every cluster of a process the same issuer, and OIDC providers would conflict.
    issuer = f"https://oidc.eks.{call.region}.amazonaws.com/id/{secrets.token_hex(16).upper()}"
    cluster.identity = {"oidc": {"issuer": issuer}}
    cluster.certificate_authority = {"data": base64.b64encode(_NO_CERTIFICATE).decode()}
    cluster.kubernetes_network_config = {
        "serviceIpv4Cidr": "172.20.0.0/16",
        "ipFamily": "ipv4",
        **(given.get("kubernetesNetworkConfig") or {}),
    }
    cluster.resources_vpc_config = {
        "securityGroupIds": [],
        "endpointPublicAccess": True,
        "endpointPrivateAccess": False,
        "publicAccessCidrs": ["0.0.0.0/0"] if network.get("endpointPublicAccess", True) else [],
        **network,
        "vpcId": vpc_id,
        "clusterSecurityGroupId": _security_group(call, cluster.name, vpc_id),
    }
    for key, attribute in _ATTRIBUTES.items():
        default = _DEFAULTS.get(key)
        value = given.get(key, default)
        if isinstance(default, dict):
            value = {**default, **(value or {})}
        if value is not None:
            setattr(cluster, attribute, value)
    mode = cluster.access_config["authenticationMode"]
    if mode != "CONFIG_MAP" and cluster.access_config.get("bootstrapClusterCreatorAdminPermissions", True):
        creator = f"arn:{call.partition}:iam::{call.account}:{CREATOR}"
        eks_access.admit(call, cluster, creator, "STANDARD", "AmazonEKSClusterAdminPolicy")
    return answer


@operation("eks", "UpdateClusterConfig")
def update_cluster_config(call: Call) -> Params:
    """Change one kind of setting at a time, as EKS does."""
    given, cluster = call.params, eks.cluster_of(call)
    kinds = [key for key in given if key not in ("name", "clientRequestToken")]
    network = given.get("resourcesVpcConfig") or {}
    endpoint = any(key.startswith(("endpoint", "publicAccess")) for key in network)
    if len(kinds) != 1 or (endpoint and ("subnetIds" in network or "securityGroupIds" in network)):
        raise AwsError("InvalidParameterException", "Only one type of update can be allowed.")
    kind = kinds[0]
    if kind == "resourcesVpcConfig":
        return {"update": _update_network(call, cluster, network, endpoint)}
    if kind == "logging":
        cluster.logging = _logging(given["logging"], cluster.logging)
        return {"update": eks.record_update(cluster, "LoggingUpdate", {"ClusterLogging": given["logging"]})}
    if kind == "kubernetesNetworkConfig":
        cluster.kubernetes_network_config = {**cluster.kubernetes_network_config, **given[kind]}
        return {"update": eks.record_update(cluster, "ConfigUpdate", {})}
    if kind not in _ATTRIBUTES:
        raise AwsError("InvalidParameterException", f"The sandbox cannot update {kind}.")
    current = vars(cluster).get(_ATTRIBUTES[kind])
    if kind == "accessConfig":
        _check_mode(current or {}, given[kind])
    value = {**current, **given[kind]} if isinstance(current, dict) else given[kind]
    setattr(cluster, _ATTRIBUTES[kind], value)
    types = {"accessConfig": "AccessConfigUpdate", "upgradePolicy": "UpgradePolicyUpdate"}
    return {"update": eks.record_update(cluster, types.get(kind, "ConfigUpdate"), {})}


@operation("eks", "UpdateClusterVersion")
def update_cluster_version(call: Call) -> Params:
    """Update to the next Kubernetes minor version only."""
    cluster, wanted = eks.cluster_of(call), call.params["version"]
    if _minor(wanted) != _minor(cluster.version) + 1:
        message = f"Unsupported Kubernetes minor version update from {cluster.version} to {wanted}"
        raise AwsError("InvalidParameterException", message)
    cluster.version = wanted
    return {"update": eks.record_update(cluster, "VersionUpdate", {"Version": wanted})}


@operation("eks", "AssociateEncryptionConfig")
def associate_encryption_config(call: Call) -> Params:
    """Encrypt the secrets of a cluster that does not do so yet; this cannot be undone."""
    cluster, wanted = eks.cluster_of(call), call.params["encryptionConfig"]
    if cluster.encryption_config:
        raise AwsError("InvalidRequestException", "The cluster already has an encryption configuration.")
    for one in wanted:
        _check_key(call, (one.get("provider") or {}).get("keyArn") or "")
    cluster.encryption_config = wanted
    return {"update": eks.record_update(cluster, "AssociateEncryptionConfig", {"EncryptionConfig": wanted})}


@operation("eks", "DeleteCluster")
def delete_cluster(call: Call) -> Passthrough:
    """Delete a cluster and its security group; rejected with node groups or under protection."""
    cluster = eks.cluster_of(call)
    if vars(cluster).get("deletion_protection"):
        raise AwsError("InvalidRequestException", f"Cluster {cluster.name} has deletion protection enabled.")
    answer = call.original()
    group = cluster.resources_vpc_config.get("clusterSecurityGroupId")
    if group:
        _ec2(call).delete_security_group(group_id=group)
    return answer


@operation("eks", "DescribeUpdate")
def describe_update(call: Call) -> Params:
    """One update of a cluster, node group or add-on."""
    found = eks.part(eks.cluster_of(call), "updates").get(call.params["updateId"])
    if found is None:
        raise AwsError("ResourceNotFoundException", f"No update found for id: {call.params['updateId']}")
    return {"update": found["update"]}


@operation("eks", "ListUpdates")
def list_updates(call: Call) -> Params:
    """The ids of the updates of a cluster, or of one of its node groups or add-ons."""
    owner = call.params.get("nodegroupName") or call.params.get("addonName") or ""
    every = eks.part(eks.cluster_of(call), "updates")
    items, token = eks.page(call, [key for key, one in every.items() if one["owner"] == owner])
    return {"updateIds": items, "nextToken": token}


def _ec2(call: Call) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[call.account][call.region]


def _check_network(call: Call, network: Params) -> str:
    subnets = {subnet.id: subnet for zone in _ec2(call).subnets.values() for subnet in zone.values()}
    wanted = network.get("subnetIds") or []
    missing = [one for one in wanted if one not in subnets]
    if missing:
        raise AwsError("InvalidParameterException", f"The subnet ID '{missing[0]}' does not exist")
    if len({subnets[one].vpc_id for one in wanted}) > 1:
        raise AwsError("InvalidParameterException", "Subnets must be in one VPC.")
    if len({subnets[one].availability_zone for one in wanted}) < 2:
        message = "Subnets specified must be in at least two different AZs"
        raise AwsError("InvalidParameterException", message)
    for group in network.get("securityGroupIds") or []:
        if _ec2(call).get_security_group_from_id(group) is None:
            raise AwsError("InvalidParameterException", f"The security group '{group}' does not exist")
    vpc: str = subnets[wanted[0]].vpc_id
    return vpc


def _update_network(call: Call, cluster: Any, wanted: Params, endpoint: bool) -> Params:
    merged = {**cluster.resources_vpc_config, **wanted}
    if not merged["endpointPublicAccess"] and not merged["endpointPrivateAccess"]:
        raise AwsError("InvalidParameterException", _NO_ENDPOINT)
    if not endpoint:
        vpc_id = _check_network(call, merged)
        if vpc_id != merged["vpcId"]:
            raise AwsError("InvalidParameterException", "Provided subnets belong to another VPC.")
    cluster.resources_vpc_config = merged
    kind = "EndpointAccessUpdate" if endpoint else "VpcConfigUpdate"
    params = {key[0].upper() + key[1:]: value for key, value in wanted.items()}
    return eks.record_update(cluster, kind, params)


def _logging(wanted: Params | None, current: Params | None = None) -> Params:
    on = {t for one in (current or {}).get("clusterLogging", []) if one.get("enabled") for t in one["types"]}
    for one in (wanted or {}).get("clusterLogging") or []:
        types = set(one.get("types") or [])
        unknown = types - set(CONTROL_PLANE_LOGS)
        if unknown:
            raise AwsError("InvalidParameterException", f"Log type {min(unknown)} is not valid.")
        on = on | types if one.get("enabled") else on - types
    groups = [
        ([t for t in CONTROL_PLANE_LOGS if t in on], True),
        ([t for t in CONTROL_PLANE_LOGS if t not in on], False),
    ]
    return {"clusterLogging": [{"types": types, "enabled": on_} for types, on_ in groups if types]}


def _check_mode(current: Params, wanted: Params) -> None:
    order = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
    before, after = current.get("authenticationMode", order[0]), wanted.get("authenticationMode", order[0])
    if order.index(after) != order.index(before) + 1:
        raise AwsError(
            "InvalidParameterException", f"Unsupported authentication mode update {before} to {after}"
        )


def _check_key(call: Call, arn: str) -> None:
    from moto.kms.models import kms_backends

    keys = kms_backends[call.account][call.region].keys
    if arn not in {key.arn for key in keys.values() if key.enabled}:
        raise AwsError("InvalidParameterException", f"The keyArn {arn} is not an enabled key of this region.")


def _minor(version: str) -> int:
    major, _, minor = version.partition(".")
    if major != "1" or not minor.isdigit():
        raise AwsError("InvalidParameterException", f"unsupported Kubernetes version {version}")
    return int(minor)


def _security_group(call: Call, name: str, vpc_id: str) -> str:
    backend = _ec2(call)
    own = f"eks-cluster-sg-{name}-{eks.short_id()[:8]}"
    group = backend.create_security_group(
        own,
        "EKS created security group applied to the network interfaces of control plane and nodes",
        vpc_id,
        {"Name": own, f"kubernetes.io/cluster/{name}": "owned"},
    )
    backend.authorize_security_group_ingress(
        group.id, "-1", None, None, [], source_groups=[{"GroupId": group.id}], vpc_id=vpc_id
    )
    made: str = group.id
    return made
