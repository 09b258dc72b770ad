"""The policies of each role, user and group of a stack, from all resources that give it one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.policies.rules.security._policy_paths import IDENTITY, documents
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack

ROLE = "aws:iam/role:Role"
USER = "aws:iam/user:User"
GROUP = "aws:iam/group:Group"
POLICY = "aws:iam/policy:Policy"
HOLDERS = (ROLE, USER, GROUP)

INLINE: Mapping[str, str] = {
    "aws:iam/rolePolicy:RolePolicy": "role",
    "aws:iam/userPolicy:UserPolicy": "user",
    "aws:iam/groupPolicy:GroupPolicy": "group",
}
"""Types with a document -> the property with its holder."""

ATTACHED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": (("role",), "policyArn"),
    "aws:iam/userPolicyAttachment:UserPolicyAttachment": (("user",), "policyArn"),
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment": (("group",), "policyArn"),
    "aws:iam/policyAttachment:PolicyAttachment": (("roles", "users", "groups"), "policyArn"),
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive": (("roleName",), "policyArns"),
    "aws:iam/userPolicyAttachmentsExclusive:UserPolicyAttachmentsExclusive": (("userName",), "policyArns"),
    "aws:iam/groupPolicyAttachmentsExclusive:GroupPolicyAttachmentsExclusive": (("groupName",), "policyArns"),
    ROLE: ((), "managedPolicyArns"),
}
"""Types that attach a policy -> the properties with its holders, and the one with its ARN."""

TYPES = (*HOLDERS, POLICY, *INLINE, *(kind for kind in ATTACHED if kind != ROLE))


@dataclass
class Identity:
    """One role, user or group. `name` is its name if known; `resource` is None outside the stack."""

    key: str
    name: str = ""
    resource: Resource | None = None
    documents: list[tuple[Resource, str, Any]] = field(default_factory=list)
    """Resource, path and value of each document."""
    outside: list[tuple[Resource, str, str]] = field(default_factory=list)
    """Resource, path and ARN of each policy that the stack does not define."""


def identities(stack: Stack) -> list[Identity]:
    """Return the roles, users and groups that have policies, those outside the stack by their name."""
    return list(_Reader(stack).read())


class _Reader:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.holders = self._by_attribute(HOLDERS, "name", "id", "arn")
        self.policies = self._by_attribute((POLICY,), "arn", "id")
        self.found: dict[str, Identity] = {}

    def read(self) -> Iterator[Identity]:
        for holder in self.stack.of_type(ROLE):
            self._add(holder, [self._identity(holder.urn, holder)], documents(holder, IDENTITY))
        for kind, prop in INLINE.items():
            for each in self.stack.of_type(kind):
                self._add(each, self._holders_of(each, prop), documents(each, IDENTITY))
        for kind, (props, prop) in ATTACHED.items():
            for each in self.stack.of_type(kind):
                held = [self._identity(each.urn, each)] if kind == ROLE else []
                held += [identity for name in props for identity in self._holders_of(each, name)]
                self._attach(each, held, prop)
        return iter(self.found.values())

    def _by_attribute(self, types: tuple[str, ...], *attributes: str) -> dict[str, Resource]:
        return {
            value: each
            for each in self.stack.of_type(*types)
            for attribute in attributes
            if isinstance(value := each.get(attribute), str)
        }

    def _identity(self, key: str, resource: Resource | None = None, name: str = "") -> Identity:
        if key not in self.found:
            known = resource.get("name") if resource is not None else name
            self.found[key] = Identity(key, known if isinstance(known, str) else "", resource)
        return self.found[key]

    def _holders_of(self, resource: Resource, prop: str) -> list[Identity]:
        found: dict[str, Identity] = {}
        for path, value in resource.items(prop):
            if is_unknown(value):
                for each in self.stack.references(resource, prop, types=HOLDERS):
                    found[each.urn] = self._identity(each.urn, each)
            elif (known := self.holders.get(value)) is not None:
                found[known.urn] = self._identity(known.urn, known)
            else:
                key = f"{path.partition('[')[0].rstrip('s').removesuffix('Name')}/{value}"
                found[key] = self._identity(key, name=value)
        return list(found.values())

    def _add(self, resource: Resource, held: list[Identity], values: Iterator[tuple[str, Any]]) -> None:
        read = list(values)
        for identity in held:
            identity.documents += [(resource, path, value) for path, value in read]

    def _attach(self, resource: Resource, held: list[Identity], prop: str) -> None:
        for path, arn in resource.items(prop):
            if is_unknown(arn):
                policies = self.stack.references(resource, prop, types=(POLICY,))
            else:
                policies = [self.policies[arn]] if arn in self.policies else []
            for identity in held:
                for policy in map(declared, policies):
                    if all(each.urn != policy.urn for each, _, _ in identity.documents):
                        identity.documents += [(policy, "policy", policy.get("policy"))]
                if not policies and not is_unknown(arn):
                    identity.outside.append((resource, path, arn))
