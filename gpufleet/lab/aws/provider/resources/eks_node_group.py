"""EKS managed node groups."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Handler, only, without
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.eks import await_active, await_update, optional, retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle, until_gone
from gpufleet.lab.aws.provider.wire import Props, contains_unknown

_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")
_NAMES = Names(
    rename={
        "nodeGroupName": "nodegroupName",
        "nodeRoleArn": "nodeRole",
        "subnetIds": "subnets",
        "remoteAccess.sourceSecurityGroupIds": "sourceSecurityGroups",
        "resources.remoteAccessSecurityGroupId": "remoteAccessSecurityGroup",
        "arn": "nodegroupArn",
        "nodeRepairConfig.maxUnhealthyNodeThresholdCount": "maxUnhealthyNodeThresholdCount",
    }
)


class NodeGroup(Handler):
    """aws.eks.NodeGroup."""

    pulumi_type = "aws:eks/nodeGroup:NodeGroup"
    force_new = frozenset({
        "amiType", "capacityType", "clusterName", "diskSize", "instanceTypes", "launchTemplate.id",
        "launchTemplate.name", "nodeGroupName", "nodeGroupNamePrefix", "nodeRoleArn", "remoteAccess",
        "subnetIds",
    })  # fmt: skip
    computed = frozenset({
        "amiType", "capacityType", "diskSize", "instanceTypes", "nodeRepairConfig", "releaseVersion",
        "updateConfig",
        "version", "warmPoolConfig",
    })  # fmt: skip
    ordered = frozenset({"instanceTypes"})
    sets = frozenset({"taints"})
    auto_name = AutoName(prop="nodeGroupName", max_length=63)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that sizes ascend and taints are valid."""
        found = []
        sizes = inputs["scalingConfig"]
        if not contains_unknown(sizes):
            low, wanted, high = (int(sizes[key]) for key in ("minSize", "desiredSize", "maxSize"))
            if not low <= wanted <= high or high < 1:
                found.append(
                    Problem(
                        "scalingConfig",
                        f"minSize {low}, desiredSize {wanted}, maxSize {high}: must ascend, maxSize from 1",
                    )
                )
        for index, taint in enumerate(inputs.get("taints") or ()):
            effect = taint.get("effect")
            if not contains_unknown(effect) and effect not in _EFFECTS:
                known = ", ".join(_EFFECTS)
                found.append(
                    Problem(
                        f"taints[{index}].effect", f"{effect!r} is not a taint effect of EKS (known: {known})"
                    )
                )
        return found

    def replaces(self, old: Props, new: Props, changed: frozenset[str]) -> frozenset[str]:
        """A launch template can only be added or removed with the node group."""
        if "launchTemplate" in changed and bool(old.get("launchTemplate")) != bool(new.get("launchTemplate")):
            return frozenset({"launchTemplate"})
        return frozenset()

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the node group and wait until it is active."""
        cluster, name = str(inputs["clusterName"]), str(inputs["nodeGroupName"])
        rid = f"{cluster}:{name}"
        tags = {"tags": inputs["tags"]} if inputs.get("tags") else {}
        parameters = without(inputs, "forceUpdateVersion", "nodeGroupNamePrefix")
        settle(
            lambda: aws.send("eks", "CreateNodegroup", parameters, _NAMES, **tags),
            codes="InvalidParameter", message="does not exist|could not be assumed", timeout_s=20.0,
        )  # fmt: skip
        with keep_on_failure(rid):
            await_active(lambda: self._describe(aws, rid), f"EKS node group {name}")
        return rid

    @staticmethod
    def _of(rid: str) -> dict[str, str]:
        cluster, _, name = rid.partition(":")
        return {"clusterName": cluster, "nodegroupName": name}

    def _describe(self, aws: Aws, rid: str) -> Props:
        found: Props = aws.client("eks").describe_nodegroup(**self._of(rid))["nodegroup"]
        return found

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The node group."""
        found = self._describe(aws, rid)
        out = self.decode(found, _NAMES)
        if found.get("launchTemplate"):
            out["launchTemplate"] = _named_template(
                found["launchTemplate"], state.get("launchTemplate") or {}
            )
        out["labels"] = dict(found.get("labels") or {})
        out.setdefault("taints", [])
        out["tags"] = dict(found.get("tags") or {})
        out["resources"] = (
            [out["resources"]] if isinstance(out.get("resources"), dict) else out.get("resources", [])
        )
        # "No labels" and labels that are not set are the same.
        return {
            key: value for key, value in out.items() if value not in ({}, []) or key in state or key == "tags"
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the version (a rolling replacement of the nodes), then sizes, labels and taints.

        A group whose creation failed cannot be changed: it is created again under its name.
        """
        of = self._of(rid)
        if self._describe(aws, rid).get("status") == "CREATE_FAILED":
            self.delete(aws, rid, old)
            self.create(aws, new)
            return
        waiting = {"name": of["clusterName"], "nodegroupName": of["nodegroupName"]}
        if changed & {"launchTemplate", "releaseVersion", "version"}:
            # As the real provider does, and EKS takes its newest image for a version that is left out.
            parameters = only(new, *changed & {"releaseVersion", "version"})
            if new.get("launchTemplate"):
                parameters["launchTemplate"] = _one_name(new["launchTemplate"])
            forced = {"force": True} if new.get("forceUpdateVersion") else {}
            made = aws.send("eks", "UpdateNodegroupVersion", parameters, _NAMES, **of, **forced)
            await_update(aws, made["update"], **waiting)
        if changed & {
            "labels",
            "taints",
            "scalingConfig",
            "updateConfig",
            "nodeRepairConfig",
            "warmPoolConfig",
        }:
            parameters = {key: new[key] for key in ("scalingConfig", "updateConfig", "nodeRepairConfig",
            "warmPoolConfig")
                          if key in changed and new.get(key)}  # fmt: skip
            extra: dict[str, Any] = {}
            if "labels" in changed:
                extra["labels"] = _label_change(old.get("labels") or {}, new.get("labels") or {})
            if "taints" in changed:
                extra["taints"] = _taint_change(old.get("taints") or [], new.get("taints") or [])
            made = aws.send("eks", "UpdateNodegroupConfig", parameters, _NAMES, **of, **extra)
            await_update(aws, made["update"], **waiting)
        retag(aws, str(old["arn"]), old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the group and wait until it and its nodes are gone."""
        eks, of = aws.client("eks"), self._of(rid)
        settle(lambda: eks.delete_nodegroup(**of), codes="ResourceInUse", timeout_s=30.0)
        until_gone(
            lambda: optional(lambda: eks.describe_nodegroup(**of)),
            timeout_s=3600,
            what=f"the deletion of node group {rid}",
        )


def _named_template(found: Props, declared: Props) -> Props:
    """Return a launch template with id, name and version; what AWS omits comes from the program."""
    both = {key: found.get(key) or declared.get(key) for key in ("id", "name")}
    return {key: value for key, value in both.items() if value} | {"version": str(found.get("version", ""))}


def _one_name(template: Props) -> Props:
    """Return the id or the name: AWS accepts only one of them."""
    keys = ("id", "version") if template.get("id") else ("name", "version")
    return {key: template[key] for key in keys if template.get(key)}


def _label_change(old: Props, new: Props) -> Props:
    change: Props = {}
    if fresh := {key: str(value) for key, value in new.items() if old.get(key) != value}:
        change["addOrUpdateLabels"] = fresh
    if gone := sorted(key for key in old if key not in new):
        change["removeLabels"] = gone
    return change


def _taint_change(old: list[Props], new: list[Props]) -> Props:
    def identity(taint: Props) -> tuple[str, str]:
        return str(taint["key"]), str(taint["effect"])

    kept = {identity(taint) for taint in new}
    change: Props = {}
    if fresh := [taint for taint in new if taint not in old]:
        change["addOrUpdateTaints"] = fresh
    if gone := [taint for taint in old if identity(taint) not in kept]:
        change["removeTaints"] = gone
    return change


HANDLERS = (NodeGroup(),)
