"""IAM roles and their policies."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import UNKNOWN, Props


def document(value: Any) -> str:
    """Return a policy document as JSON text; botocore returns documents as objects."""
    return value if isinstance(value, str) else json.dumps(value)


def document_problem(inputs: Props, key: str) -> list[Problem]:
    """Reject a policy that is not JSON before it is sent to AWS."""
    value = inputs.get(key)
    if not isinstance(value, str) or UNKNOWN in value:
        return []
    try:
        json.loads(value)
    except ValueError as error:
        return [Problem(key, f"not a JSON document: {error}")]
    return []


class Role(Handler):
    """aws.iam.Role."""

    pulumi_type = "aws:iam/role:Role"
    force_new = frozenset({"name", "namePrefix", "path"})
    computed = frozenset({"inlinePolicies", "managedPolicyArns"})
    defaults: ClassVar[Defaults] = {"forceDetachPolicies": False, "maxSessionDuration": 3600, "path": "/"}
    documents = frozenset({"assumeRolePolicy", "inlinePolicies.policy"})
    sets = frozenset({"inlinePolicies"})
    auto_name = AutoName(max_length=64)
    _names = Names(rename={
        "assumeRolePolicy": "AssumeRolePolicyDocument", "name": "RoleName", "uniqueId": "RoleId",
    }, decode={"assumeRolePolicy": document,
    "permissionsBoundary": lambda value: value.get("PermissionsBoundaryArn")})  # fmt: skip

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the trust policy is JSON."""
        return document_problem(inputs, "assumeRolePolicy")

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the role, then its policies."""
        parameters = only(
            inputs,
            "name",
            "path",
            "assumeRolePolicy",
            "description",
            "maxSessionDuration",
            "permissionsBoundary",
        )
        tags = {"Tags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        aws.send("iam", "CreateRole", parameters, self._names, **tags)
        rid = str(inputs["name"])
        with keep_on_failure(rid):
            self._inline(aws, rid, [], inputs.get("inlinePolicies") or [])
            self._managed(aws, rid, set(), set(inputs.get("managedPolicyArns") or ()))
        return rid

    @staticmethod
    def _inline(aws: Aws, rid: str, old: list[Props], new: list[Props]) -> None:
        iam = aws.client("iam")
        for name in sorted(
            {item["name"] for item in old if item.get("name")} - {item.get("name") for item in new}
        ):
            iam.delete_role_policy(RoleName=rid, PolicyName=name)
        for item in new:
            if item.get("name"):
                iam.put_role_policy(
                    RoleName=rid, PolicyName=item["name"], PolicyDocument=document(item["policy"])
                )

    @staticmethod
    def _managed(aws: Aws, rid: str, old: set[str], new: set[str]) -> None:
        for arn in sorted(old - new):
            aws.client("iam").detach_role_policy(RoleName=rid, PolicyArn=arn)
        for arn in sorted(new - old):
            aws.client("iam").attach_role_policy(RoleName=rid, PolicyArn=arn)

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the role, and its policies only if the program manages them here."""
        iam = aws.client("iam")
        role = iam.get_role(RoleName=rid)["Role"]
        out = self.decode(role, self._names)
        out.setdefault("permissionsBoundary", None)
        out.setdefault("description", None)
        out["tags"] = out.get("tags", {})
        if state.get("managedPolicyArns") is not None:
            attached = iam.list_attached_role_policies(RoleName=rid)["AttachedPolicies"]
            out["managedPolicyArns"] = sorted(item["PolicyArn"] for item in attached)
        if state.get("inlinePolicies") is not None:
            names = iam.list_role_policies(RoleName=rid)["PolicyNames"]
            out["inlinePolicies"] = [
                {
                    "name": name,
                    "policy": document(iam.get_role_policy(RoleName=rid, PolicyName=name)["PolicyDocument"]),
                }
                for name in names
            ]
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change trust, limits, policies and tags in place."""
        iam = aws.client("iam")
        if "assumeRolePolicy" in changed:
            iam.update_assume_role_policy(RoleName=rid, PolicyDocument=document(new["assumeRolePolicy"]))
        if changed & {"description", "maxSessionDuration"}:
            iam.update_role(
                RoleName=rid, Description=new.get("description") or "",
                MaxSessionDuration=int(new.get("maxSessionDuration") or 3600),
            )  # fmt: skip
        if "permissionsBoundary" in changed:
            if new.get("permissionsBoundary"):
                iam.put_role_permissions_boundary(
                    RoleName=rid, PermissionsBoundary=new["permissionsBoundary"]
                )
            else:
                iam.delete_role_permissions_boundary(RoleName=rid)
        if "inlinePolicies" in changed:
            self._inline(aws, rid, old.get("inlinePolicies") or [], new.get("inlinePolicies") or [])
        if "managedPolicyArns" in changed:
            self._managed(
                aws, rid, set(old.get("managedPolicyArns") or ()), set(new.get("managedPolicyArns") or ())
            )
        retag(iam, {"RoleName": rid}, old, new, suffix="role")

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the policies of this resource (or all, with forceDetachPolicies), then delete the role."""
        iam = aws.client("iam")
        for profile in iam.list_instance_profiles_for_role(RoleName=rid)["InstanceProfiles"]:
            iam.remove_role_from_instance_profile(
                InstanceProfileName=profile["InstanceProfileName"], RoleName=rid
            )
        every = bool(state.get("forceDetachPolicies"))
        if every or state.get("managedPolicyArns"):
            for item in iam.list_attached_role_policies(RoleName=rid)["AttachedPolicies"]:
                iam.detach_role_policy(RoleName=rid, PolicyArn=item["PolicyArn"])
        if every or state.get("inlinePolicies"):
            for name in iam.list_role_policies(RoleName=rid)["PolicyNames"]:
                iam.delete_role_policy(RoleName=rid, PolicyName=name)
        settle(lambda: iam.delete_role(RoleName=rid), codes="DeleteConflict", timeout_s=5.0)


class RolePolicy(Handler):
    """aws.iam.RolePolicy: an inline policy of a role."""

    pulumi_type = "aws:iam/rolePolicy:RolePolicy"
    force_new = frozenset({"name", "namePrefix", "role"})
    documents = frozenset({"policy"})
    auto_name = AutoName(max_length=128)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the policy is JSON."""
        return document_problem(inputs, "policy")

    def _put(self, aws: Aws, inputs: Props) -> None:
        settle(
            lambda: aws.client("iam").put_role_policy(
                RoleName=inputs["role"], PolicyName=inputs["name"], PolicyDocument=document(inputs["policy"])
            ),
            codes="NoSuchEntity",
            timeout_s=5.0,
        )

    def create(self, aws: Aws, inputs: Props) -> str:
        """Add the policy to the role."""
        self._put(aws, inputs)
        return f"{inputs['role']}:{inputs['name']}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The policy of the role."""
        role, _, name = rid.partition(":")
        found = aws.client("iam").get_role_policy(RoleName=role, PolicyName=name)
        return {"role": role, "name": name, "policy": document(found["PolicyDocument"])}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Write the new document."""
        self._put(aws, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the policy."""
        role, _, name = rid.partition(":")
        aws.client("iam").delete_role_policy(RoleName=role, PolicyName=name)


class RolePolicyAttachment(Handler):
    """aws.iam.RolePolicyAttachment."""

    pulumi_type = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    force_new = frozenset({"role", "policyArn"})
    delete_before_replace = True

    def create(self, aws: Aws, inputs: Props) -> str:
        """Attach the policy; it or the role may be seconds old."""
        role, arn = str(inputs["role"]), str(inputs["policyArn"])
        try:
            settle(
                lambda: aws.client("iam").attach_role_policy(RoleName=role, PolicyArn=arn),
                codes="NoSuchEntity", timeout_s=3.0,
            )  # fmt: skip
        except Exception as error:
            if is_missing(error) and arn.startswith("arn:aws:iam::aws:policy/"):
                raise CloudError(
                    f"AWS has no managed policy {arn}", remedy="check the policy's name and path"
                ) from error
            raise
        return f"{role}/{arn}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the attachment if it exists."""
        role, _, arn = rid.partition("/")
        pages = aws.client("iam").get_paginator("list_attached_role_policies").paginate(RoleName=role)
        attached = {item["PolicyArn"] for page in pages for item in page["AttachedPolicies"]}
        return {"role": role, "policyArn": arn} if arn in attached else None

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Detach the policy."""
        role, _, arn = rid.partition("/")
        aws.client("iam").detach_role_policy(RoleName=role, PolicyArn=arn)


HANDLERS = (Role(), RolePolicy(), RolePolicyAttachment())
