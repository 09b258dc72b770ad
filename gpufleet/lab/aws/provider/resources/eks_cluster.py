"""EKS clusters."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.kinds import CONTROL_PLANE_LOGS
from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, without
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.eks import await_active, await_update, optional, retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle, until_gone
from gpufleet.lab.aws.provider.wire import Props, contains_unknown

_ROLE_NOT_YET = "does not exist|Error in role params|could not be assumed|doesn't have the Amazon EKS"
_LOCAL = ("defaultAddonsToRemoves", "forceUpdateVersion")


def _logging(types: Any) -> dict[str, Any]:
    """Return every log type in one of two entries, as EKS requires."""
    enabled = [kind for kind in CONTROL_PLANE_LOGS if kind in (types or ())]
    disabled = [kind for kind in CONTROL_PLANE_LOGS if kind not in enabled]
    entries = [{"types": kinds, "enabled": on} for kinds, on in ((enabled, True), (disabled, False)) if kinds]
    return {"clusterLogging": entries}


def _enabled(logging: Any) -> list[str]:
    entries = (logging or {}).get("clusterLogging") or []
    return sorted(kind for entry in entries if entry.get("enabled") for kind in entry.get("types") or ())


_NAMES = Names(
    rename={
        "vpcConfig": "resourcesVpcConfig",
        "enabledClusterLogTypes": "logging",
        "name": "name",
        "version": "version",
    },
    encode={"enabledClusterLogTypes": _logging, "encryptionConfig": lambda value: [_encryption(value)]},
    decode={
        "enabledClusterLogTypes": _enabled,
        "encryptionConfig": lambda value: value[0] if value else None,
        "certificateAuthority": lambda value: {"data": value.get("data", "")},
    },
    drop={"vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId", "kubernetesNetworkConfig.serviceIpv6Cidr"},
)


def _encryption(value: Props) -> Props:
    return {"provider": {"keyArn": value["provider"]["keyArn"]}, "resources": value["resources"]}


class Cluster(Handler):
    """aws.eks.Cluster."""

    pulumi_type = "aws:eks/cluster:Cluster"
    force_new = frozenset({
        "bootstrapSelfManagedAddons", "name", "roleArn",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "kubernetesNetworkConfig.ipFamily", "kubernetesNetworkConfig.serviceIpv4Cidr", "remoteNetworkConfig",
        "outpostConfig.controlPlaneInstanceType", "outpostConfig.controlPlanePlacement.groupName",
    })  # fmt: skip
    computed = frozenset({
        "accessConfig", "kubernetesNetworkConfig", "upgradePolicy", "version", "deletionProtection",
        "kubeApiServerConfig", "kubeControllerManagerConfig", "kubeSchedulerConfig",
        "controlPlaneScalingConfig",
        "storageConfig", "computeConfig", "zonalShiftConfig", "vpcConfig.publicAccessCidrs",
        "vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"bootstrapSelfManagedAddons": True}
    auto_name = AutoName(max_length=100)

    def check(self, inputs: Props) -> list[Problem]:
        """Check what EKS would reject late."""
        found = []
        vpc = inputs["vpcConfig"]
        private, public = vpc.get("endpointPrivateAccess", False), vpc.get("endpointPublicAccess", True)
        if not contains_unknown([private, public]) and not private and not public:
            found.append(
                Problem(
                    "vpcConfig",
                    "the cluster would have no endpoint: set endpointPrivateAccess or endpointPublicAccess",
                )
            )
        subnets = vpc.get("subnetIds")
        if isinstance(subnets, list) and len(set(map(str, subnets))) < 2 and not contains_unknown(subnets):
            found.append(
                Problem(
                    "vpcConfig.subnetIds", f"{len(subnets)} subnet(s): EKS needs two or more, in two zones"
                )
            )
        bad = sorted(set(inputs.get("enabledClusterLogTypes") or ()) - set(CONTROL_PLANE_LOGS))
        if bad and not contains_unknown(bad):
            known = ", ".join(CONTROL_PLANE_LOGS)
            found.append(
                Problem("enabledClusterLogTypes", f"{', '.join(bad)}: no such log type (known: {known})")
            )
        return found

    def replaces(self, old: Props, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """Encryption of secrets can be enabled in place but not disabled."""
        if "encryptionConfig" in changed and old.get("encryptionConfig"):
            return frozenset({"encryptionConfig"})
        return frozenset()

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the cluster and wait until it is active; its role may be seconds old."""
        tags = {"tags": inputs["tags"]} if inputs.get("tags") else {}
        rid = str(inputs["name"])
        settle(
            lambda: aws.send("eks", "CreateCluster", without(inputs, *_LOCAL), _NAMES, **tags),
            codes="InvalidParameter", message=_ROLE_NOT_YET, timeout_s=20.0,
        )  # fmt: skip
        with keep_on_failure(rid):
            await_active(lambda: self._describe(aws, rid), f"EKS cluster {rid}")
        return rid

    @staticmethod
    def _describe(aws: Aws, rid: str) -> Props:
        found: Props = aws.client("eks").describe_cluster(name=rid)["cluster"]
        return found

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The cluster."""
        found = self._describe(aws, rid)
        out = self.decode(found, _NAMES)
        out.setdefault("enabledClusterLogTypes", [])
        out.setdefault("encryptionConfig", None)
        out["createdAt"] = out.get("createdAt", "")
        out["tags"] = dict(found.get("tags") or {})
        issuer = ((found.get("identity") or {}).get("oidc") or {}).get("issuer", "")
        out["identities"] = [{"oidcs": [{"issuer": issuer}]}]
        out["vpcConfig"].setdefault("securityGroupIds", [])
        # Given at creation and never returned.
        access = (state.get("accessConfig") or {}).get("bootstrapClusterCreatorAdminPermissions")
        if access is not None and "accessConfig" in out:
            out["accessConfig"]["bootstrapClusterCreatorAdminPermissions"] = access
        for key in ("bootstrapSelfManagedAddons",):
            out.pop(key, None)
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Run one update at a time, as EKS does: version, then each kind of configuration, then tags."""
        eks = aws.client("eks")
        if "version" in changed and new.get("version"):
            forced = {"force": True} if new.get("forceUpdateVersion") else {}
            await_update(
                aws,
                eks.update_cluster_version(name=rid, version=str(new["version"]), **forced)["update"],
                name=rid,
            )
        if "encryptionConfig" in changed and new.get("encryptionConfig"):
            made = eks.associate_encryption_config(
                clusterName=rid, encryptionConfig=[_encryption(new["encryptionConfig"])]
            )
            await_update(aws, made["update"], name=rid)
        if "enabledClusterLogTypes" in changed:
            made = eks.update_cluster_config(name=rid, logging=_logging(new.get("enabledClusterLogTypes")))
            await_update(aws, made["update"], name=rid)
        if "vpcConfig" in changed:
            self._change_vpc(aws, rid, old.get("vpcConfig") or {}, new["vpcConfig"])
        for key in (
            "accessConfig", "upgradePolicy", "computeConfig", "kubernetesNetworkConfig", "storageConfig",
            "zonalShiftConfig", "deletionProtection", "controlPlaneScalingConfig", "remoteNetworkConfig",
            "kubeApiServerConfig", "kubeControllerManagerConfig", "kubeSchedulerConfig",
        ):  # fmt: skip
            if key in changed and new.get(key) is not None:
                made = aws.send(
                    "eks", "UpdateClusterConfig", {key: _changeable(key, new[key])}, _NAMES, name=rid
                )
                await_update(aws, made["update"], name=rid)
        retag(aws, str(old["arn"]), old, new)

    @staticmethod
    def _change_vpc(aws: Aws, rid: str, old: Props, new: Props) -> None:
        """Change endpoint access and network in two updates, as EKS requires."""
        for keys in (("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs"),
                     ("subnetIds", "securityGroupIds")):  # fmt: skip
            wanted = {key: new[key] for key in keys if new.get(key) is not None}
            if any(_unordered(old.get(key)) != _unordered(value) for key, value in wanted.items()):
                made = aws.send("eks", "UpdateClusterConfig", {"vpcConfig": wanted}, _NAMES, name=rid)
                await_update(aws, made["update"], name=rid)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the cluster and wait; its node groups that are being deleted end first."""
        eks = aws.client("eks")
        settle(lambda: eks.delete_cluster(name=rid), codes="ResourceInUse", timeout_s=30.0)
        until_gone(
            lambda: optional(lambda: eks.describe_cluster(name=rid)),
            timeout_s=900,
            what=f"the deletion of cluster {rid}",
        )


def _unordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _changeable(key: str, value: Any) -> Any:
    """Return the changeable part of a block: the rest is fixed at creation."""
    if key == "accessConfig":
        return {name: item for name, item in value.items() if name == "authenticationMode"}
    if key == "kubernetesNetworkConfig":
        return {name: item for name, item in value.items() if name == "elasticLoadBalancing"}
    return value


HANDLERS = (Cluster(),)
