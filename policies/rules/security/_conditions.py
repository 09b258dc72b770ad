"""Conditions of policies: which of them restrict who calls, and which restrict what an action applies to.

A condition restricts only if it is false for others. Sources: IAM User Guide, "IAM JSON policy elements:
Condition operators" (a negated operator, `...IfExists` and `ForAllValues` are true for an absent key) and
"AWS global condition context keys" (which keys the caller's own account sets: tags of its principals, user
agent, referrer, names of sessions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from gpufleet.policies.rules.security._managed_policies import gives_rights_of_others
from gpufleet.policies.rules.security._patterns import WIDE, has_wildcard, share

EXACT = frozenset({"stringequals", "stringequalsignorecase"})
LIKE = frozenset({"stringlike"})
ARNS = frozenset({"arnequals", "arnlike"})
"""`ArnEquals` takes wildcards as `ArnLike` does."""

_ACCOUNT = re.compile(r"\d{12}")
_ORGANISATION = re.compile(r"o-[a-z0-9]+")
_ORGANISATION_PATH = re.compile(r"o-[a-z0-9]+/.*")
_VPC = re.compile(r"vpc-[0-9a-z]+")
_ENDPOINT = re.compile(r"vpce-[0-9a-z]+")
_USER_ID = re.compile(r"(A[A-Z0-9]{15,}|\d{12})(:.*)?")
_CONTROLLER = re.compile(
    r"resourcetag/((elbv2|ingress|service|node)\.k8s\.aws|(ebs|efs|fsx)\.csi\.aws\.com|karpenter(\.sh|\.k8s\.aws))/"
    r"|resourcetag/csivolume(snapshot)?name$"
)
"""Tags that controllers of AWS and Karpenter give to what they create. `kubernetes.io/` is on every node."""


class Condition(Struct, frozen=True):
    """One key of a condition block; `operator` and `key` in lower case, all values as strings."""

    operator: str
    key: str
    values: tuple[str, ...]

    @property
    def plain(self) -> str:
        """Return the operator without `ForAnyValue:`, which is false for an absent key."""
        return self.operator.removeprefix("foranyvalue:")

    @property
    def restricts(self) -> bool:
        """Return whether it restricts the caller or the source to those of certain accounts."""
        specific = RESTRICTING.get(self.key)
        return (
            specific is not None
            and bool(self.values)
            and all(specific(self.plain, value.strip()) for value in self.values)
        )

    @property
    def scopes(self) -> bool:
        """Return whether it restricts the resources of an action: by their tags, or those of the request.

        A required tag without a value counts if its key belongs to a controller (`elbv2.k8s.aws/cluster`).
        The caller chooses the tags of a request: they restrict what is created, and not what exists.
        """
        if _CONTROLLER.search(self.key) and self._required:
            return True
        tagged = "resourcetag/" in self.key or self.key.startswith(("aws:requesttag/", *_SCOPES))
        return (
            tagged
            and self.plain in EXACT | LIKE | ARNS
            and bool(self.values)
            and all(self.narrow(value) for value in self.values)
        )

    @property
    def _required(self) -> bool:
        """Return whether the key must be there, with any value."""
        present = {"null": ["false"], "stringlike": ["*"]}
        return present.get(self.operator) == [value.strip().lower() for value in self.values]

    @property
    def by_request(self) -> bool:
        """Return whether it is about a tag of the request, which the caller chooses."""
        return self.key.startswith("aws:requesttag/")

    @property
    def by_tag(self) -> bool:
        """Return whether it is about tags that the resources have."""
        return "resourcetag/" in self.key

    def narrow(self, value: str) -> bool:
        """Return whether a value matches few: no pattern for nearly all, nor the key compared with itself.

        A policy that a role may get, or its boundary, is one policy without the rights of others.
        """
        if self.key in _POLICIES:
            return not has_wildcard(value) and not gives_rights_of_others(value)
        if f"${{{self.key}" in value.lower():
            return False
        if "${" in value:
            return "principaltag/" in value.lower()
        return bool(value.strip()) and (self.plain in EXACT or share(value) < WIDE)


_POLICIES = ("iam:permissionsboundary", "iam:policyarn")
_SCOPES = ("ec2:createaction", "elasticloadbalancing:createaction", *_POLICIES)

Specific = Callable[[str, str], bool]
"""Whether an operator and a value match only callers of certain accounts."""


def _named(pattern: re.Pattern[str]) -> Specific:
    """Values of this form, compared as a whole."""

    def specific(operator: str, value: str) -> bool:
        return operator in EXACT | LIKE and pattern.fullmatch(value) is not None

    return specific


def _started(pattern: re.Pattern[str]) -> Specific:
    """Values with a certain start; the rest may be a pattern."""

    def specific(operator: str, value: str) -> bool:
        known = "${" not in value and pattern.fullmatch(value) is not None
        return known and operator in EXACT | LIKE

    return specific


def _arn(operator: str, value: str) -> bool:
    """ARNs of one account, or of one bucket, whose ARN has no account.

    `StringLike` lets a wildcard match a colon, so that what follows it may be part of a chosen name.
    """
    if operator not in EXACT | LIKE | ARNS or "${" in value:
        return False
    parts = value.split(":", 5)
    if len(parts) != 6 or (operator in EXACT | LIKE and has_wildcard(":".join(parts[:5]))):
        return False
    if parts[4]:
        return _ACCOUNT.fullmatch(parts[4]) is not None
    bucket = parts[5].partition("/")[0]
    return parts[2] == "s3" and bool(bucket) and not has_wildcard(bucket)


def _mount_target(operator: str, value: str) -> bool:
    return operator == "bool" and value.lower() == "true"


RESTRICTING: Mapping[str, Specific] = {
    "aws:principalorgid": _named(_ORGANISATION),
    "aws:sourceorgid": _named(_ORGANISATION),
    "aws:principalorgpaths": _started(_ORGANISATION_PATH),
    "aws:sourceorgpaths": _started(_ORGANISATION_PATH),
    "aws:principalarn": _arn,
    "aws:sourcearn": _arn,
    "aws:principalaccount": _named(_ACCOUNT),
    "aws:sourceaccount": _named(_ACCOUNT),
    "aws:sourceowner": _named(_ACCOUNT),
    "aws:vpcsourceaccount": _named(_ACCOUNT),
    "kms:calleraccount": _named(_ACCOUNT),
    "s3:dataaccesspointaccount": _named(_ACCOUNT),
    "aws:sourcevpc": _named(_VPC),
    "aws:sourcevpce": _named(_ENDPOINT),
    "aws:userid": _started(_USER_ID),
    "elasticfilesystem:accessedviamounttarget": _mount_target,
}
"""Condition keys, in lower case, that restrict the caller or the source: none can be chosen by the caller."""
