"""Parts of an EKS cluster: add-ons, access entries and their policies, pod identities."""

from __future__ import annotations

from typing import ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.eks import await_active, await_update, optional, retag
from gpufleet.lab.aws.provider.waiting import settle, until_gone
from gpufleet.lab.aws.provider.wire import Props

_NOT_YET = "does not exist|could not be assumed|invalid"


def _tags(inputs: Props) -> Props:
    return {"tags": inputs["tags"]} if inputs.get("tags") else {}


class Addon(Handler):
    """aws.eks.Addon."""

    pulumi_type = "aws:eks/addon:Addon"
    force_new = frozenset({"addonName", "clusterName", "namespaceConfig"})
    computed = frozenset({"addonVersion", "configurationValues"})
    documents = frozenset({"configurationValues"})
    sets = frozenset({"podIdentityAssociations"})
    delete_before_replace = True
    _names = Names(
        rename={"resolveConflictsOnCreate": "resolveConflicts",
        "resolveConflictsOnUpdate": "resolveConflicts",
                "arn": "addonArn"},
        drop={"podIdentityAssociations"},
    )  # fmt: skip

    def create(self, aws: Aws, inputs: Props) -> str:
        """Install the add-on and wait until it is active."""
        parameters = only(
            inputs, "clusterName", "addonName", "addonVersion", "configurationValues", "namespaceConfig",
            "resolveConflictsOnCreate", "serviceAccountRoleArn",
        )  # fmt: skip
        pods = (
            {"podIdentityAssociations": inputs["podIdentityAssociations"]}
            if inputs.get("podIdentityAssociations")
            else {}
        )
        settle(
            lambda: aws.send("eks", "CreateAddon", parameters, self._names, **pods, **_tags(inputs)),
            codes="InvalidParameter", message=_NOT_YET, timeout_s=10.0,
        )  # fmt: skip
        rid = f"{inputs['clusterName']}:{inputs['addonName']}"
        with keep_on_failure(rid):
            await_active(lambda: self._describe(aws, rid), f"EKS add-on {inputs['addonName']}")
        return rid

    @staticmethod
    def _of(rid: str) -> dict[str, str]:
        cluster, _, name = rid.partition(":")
        return {"clusterName": cluster, "addonName": name}

    def _describe(self, aws: Aws, rid: str) -> Props:
        found: Props = aws.client("eks").describe_addon(**self._of(rid))["addon"]
        return found

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The add-on."""
        found = self._describe(aws, rid)
        out = self.decode(
            {key: value for key, value in found.items() if key != "podIdentityAssociations"}, self._names
        )
        out.setdefault("serviceAccountRoleArn", None)
        out["tags"] = dict(found.get("tags") or {})
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change version, configuration and roles in place."""
        of = self._of(rid)
        if changed & {
            "addonVersion",
            "configurationValues",
            "serviceAccountRoleArn",
            "podIdentityAssociations",
        }:
            keys = (
                "addonVersion",
                "configurationValues",
                "resolveConflictsOnUpdate",
                "serviceAccountRoleArn",
            )
            pods = {"podIdentityAssociations": new.get("podIdentityAssociations") or []} \
                if "podIdentityAssociations" in changed else {}  # fmt: skip
            made = aws.send("eks", "UpdateAddon", only(new, *keys), self._names, **of, **pods)
            await_update(aws, made["update"], name=of["clusterName"], addonName=of["addonName"])
        retag(aws, str(old["arn"]), old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the add-on; `preserve` keeps its software on the nodes."""
        eks, of = aws.client("eks"), self._of(rid)
        eks.delete_addon(**of, **({"preserve": True} if state.get("preserve") else {}))
        until_gone(
            lambda: optional(lambda: eks.describe_addon(**of)), timeout_s=1200, what=f"the deletion of {rid}"
        )


class AccessEntry(Handler):
    """aws.eks.AccessEntry."""

    pulumi_type = "aws:eks/accessEntry:AccessEntry"
    force_new = frozenset({"clusterName", "principalArn", "type"})
    computed = frozenset({"kubernetesGroups", "userName"})
    defaults: ClassVar[Defaults] = {"type": "STANDARD"}
    delete_before_replace = True
    _names = Names(rename={"userName": "username"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Add the principal."""
        keys = ("clusterName", "principalArn", "kubernetesGroups", "type", "userName")
        settle(
            lambda: aws.send("eks", "CreateAccessEntry", only(inputs, *keys), self._names, **_tags(inputs)),
            codes="InvalidParameter", message=_NOT_YET, timeout_s=10.0,
        )  # fmt: skip
        return f"{inputs['clusterName']}:{inputs['principalArn']}"

    @staticmethod
    def _of(rid: str) -> dict[str, str]:
        cluster, _, principal = rid.partition(":")
        return {"clusterName": cluster, "principalArn": principal}

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The entry."""
        found: Props = aws.client("eks").describe_access_entry(**self._of(rid))["accessEntry"]
        out = self.decode(found, self._names)
        out["tags"] = dict(found.get("tags") or {})
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change groups, user name and tags in place."""
        if changed & {"kubernetesGroups", "userName"}:
            parameters = only(new, "userName")
            groups = {"kubernetesGroups": new.get("kubernetesGroups") or []}
            aws.send("eks", "UpdateAccessEntry", parameters, self._names, **self._of(rid), **groups)
        retag(aws, str(old["accessEntryArn"]), old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the principal."""
        aws.client("eks").delete_access_entry(**self._of(rid))


class AccessPolicyAssociation(Handler):
    """aws.eks.AccessPolicyAssociation."""

    pulumi_type = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    force_new = frozenset({"accessScope", "clusterName", "policyArn", "principalArn"})
    delete_before_replace = True

    def create(self, aws: Aws, inputs: Props) -> str:
        """Associate the policy with the principal, whose access entry may be seconds old."""
        keys = ("clusterName", "principalArn", "policyArn", "accessScope")
        settle(
            lambda: aws.send("eks", "AssociateAccessPolicy", only(inputs, *keys)),
            codes="ResourceNotFound",
            timeout_s=5.0,
        )
        return "#".join(str(inputs[key]) for key in keys[:3])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the association among those of the principal."""
        cluster, principal, policy = rid.split("#")
        pages = (
            aws.client("eks")
            .get_paginator("list_associated_access_policies")
            .paginate(clusterName=cluster, principalArn=principal)
        )
        found = next(
            (
                item
                for page in pages
                for item in page["associatedAccessPolicies"]
                if item["policyArn"] == policy
            ),
            None,
        )
        if found is None:
            return None
        return self.decode(found) | {"clusterName": cluster, "principalArn": principal}

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the policy from the principal."""
        cluster, principal, policy = rid.split("#")
        aws.client("eks").disassociate_access_policy(
            clusterName=cluster, principalArn=principal, policyArn=policy
        )


class PodIdentityAssociation(Handler):
    """aws.eks.PodIdentityAssociation."""

    pulumi_type = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    force_new = frozenset({"clusterName", "namespace", "serviceAccount"})
    computed = frozenset({"disableSessionTags"})
    documents = frozenset({"policy"})
    delete_before_replace = True

    def create(self, aws: Aws, inputs: Props) -> str:
        """Associate the role with the service account."""
        keys = (
            "clusterName",
            "namespace",
            "serviceAccount",
            "roleArn",
            "disableSessionTags",
            "targetRoleArn",
            "policy",
        )
        made = settle(
            lambda: aws.send("eks", "CreatePodIdentityAssociation", only(inputs, *keys), None,
            **_tags(inputs)),
            codes="InvalidParameter", message=_NOT_YET, timeout_s=10.0,
        )  # fmt: skip
        return str(made["association"]["associationId"])

    @staticmethod
    def _of(rid: str, state: Props) -> dict[str, str]:
        return {"clusterName": str(state["clusterName"]), "associationId": rid}

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The association."""
        found: Props = aws.client("eks").describe_pod_identity_association(**self._of(rid, state))[
            "association"
        ]
        out = self.decode(found)
        out["tags"] = dict(found.get("tags") or {})
        out.setdefault("targetRoleArn", None)
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change the role in place."""
        if changed & {"roleArn", "disableSessionTags", "targetRoleArn", "policy"}:
            keys = ("roleArn", "disableSessionTags", "targetRoleArn", "policy")
            aws.send("eks", "UpdatePodIdentityAssociation", only(new, *keys), None, **self._of(rid, new))
        retag(aws, str(old["associationArn"]), old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the role from the service account."""
        aws.client("eks").delete_pod_identity_association(**self._of(rid, state))


HANDLERS = (Addon(), AccessEntry(), AccessPolicyAssociation(), PodIdentityAssociation())
