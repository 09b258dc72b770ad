"""The AWS identity of a stack: its profile and the roles that are assumed from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpufleet.errors import CloudError, InputError

SESSION_NAME = "gpufleet"

_PARAMETERS: Mapping[str, str] = {
    "role_arn": "RoleArn",
    "session_name": "RoleSessionName",
    "external_id": "ExternalId",
    "duration": "DurationSeconds",
    "policy": "Policy",
    "policy_arns": "PolicyArns",
    "source_identity": "SourceIdentity",
    "tags": "Tags",
    "transitive_tag_keys": "TransitiveTagKeys",
}
"""Fields of the AWS provider's `assumeRoles` -> parameters of STS AssumeRole."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_ASSUMED = re.compile(r"(arn:[^:]+):sts::(\d{12}):assumed-role/([^/]+)/.*")
_PRINCIPAL = re.compile(r"(arn:[^:]+):iam::(\d{12}):(role|user)/(?:.*/)?([^/]+)")


class AwsIdentity(Struct, frozen=True):
    """Who a stack is in AWS: a profile (None: the environment's), and roles assumed one after the other.

    Each role has the fields of the AWS provider's `assumeRoles` in snake case, with `role_arn` at least.
    """

    profile: str | None = None
    roles: tuple[Mapping[str, Any], ...] = ()

    def arguments(self) -> list[str]:
        """Return the options of `gpufleet eks-token` for this identity."""
        profile = ["--profile", self.profile] if self.profile else []
        roles = ["--assume-roles", json.dumps([dict(role) for role in self.roles])] if self.roles else []
        return [*profile, *roles]

    @property
    def only_role(self) -> str | None:
        """Return the ARN of the one role that is assumed with no other parameter than a session's name."""
        plain = [role["role_arn"] for role in self.roles if not set(role) - {"role_arn", "session_name"}]
        return str(plain[0]) if len(plain) == len(self.roles) == 1 else None

    def session(self, region: str) -> Any:
        """Return a boto3 session with this identity's credentials.

        Raises InputError for a missing profile, CloudError for a role that cannot be assumed.
        """
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            session = boto3.Session(profile_name=self.profile, region_name=region)
        except BotoCoreError as error:
            raise InputError(f"the AWS profile cannot be used: {error}", remedy="check aws:profile") from None
        for role in self.roles:
            try:
                given = session.client("sts").assume_role(**assume_role_parameters(role))["Credentials"]
            except (BotoCoreError, ClientError) as error:
                raise CloudError(
                    f"the role {role['role_arn']} cannot be assumed: {error}",
                    remedy="check aws:assumeRoles, and that the role's trust policy admits this identity",
                ) from None
            session = boto3.Session(
                aws_access_key_id=given["AccessKeyId"],
                aws_secret_access_key=given["SecretAccessKey"],
                aws_session_token=given["SessionToken"],
                region_name=region,
            )
        return session


def read_roles(text: str | None) -> tuple[Mapping[str, Any], ...]:
    """Return the roles of `--assume-roles`. Raises InputError for anything else than a list of roles."""
    try:
        found = json.loads(text) if text else []
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and each.get("role_arn") for each in found
    ):
        raise InputError(
            f"--assume-roles is {text!r}; it must be a JSON list of roles",
            remedy='write it as [{"role_arn": "arn:aws:iam::123456789012:role/deploy"}]',
        )
    return tuple(found)


def assume_role_parameters(role: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of STS AssumeRole for a role of the AWS provider's `assumeRoles`."""
    unknown = sorted(set(role) - set(_PARAMETERS))
    if unknown:
        raise InputError(
            f"aws:assumeRoles has {unknown[0]}, which STS does not take",
            remedy=f"use some of {', '.join(_PARAMETERS)}",
        )
    found = {_PARAMETERS[key]: value for key, value in role.items() if value}
    found.setdefault("RoleSessionName", SESSION_NAME)
    if "DurationSeconds" in found:
        found["DurationSeconds"] = _seconds(str(found["DurationSeconds"]))
    if "PolicyArns" in found:
        found["PolicyArns"] = [{"arn": arn} for arn in found["PolicyArns"]]
    if "Tags" in found:
        found["Tags"] = [{"Key": key, "Value": value} for key, value in found["Tags"].items()]
    return found


def principal_key(arn: str) -> tuple[str, str, str] | None:
    """Return account, kind and name of an IAM role or user, also of a session of a role; None for others.

    A session's ARN has no path, and names of roles and of users are unique in an account whatever their path
    (IAM User Guide, "IAM identifiers"), so the path does not count.
    """
    assumed = _ASSUMED.fullmatch(arn)
    if assumed:
        return assumed.group(2), "role", assumed.group(3)
    found = _PRINCIPAL.fullmatch(arn)
    return (found.group(2), found.group(3), found.group(4)) if found else None


def same_principal(one: str, others: Sequence[str]) -> str | None:
    """Return the first of `others` that is the same role or user as `one`."""
    key = principal_key(one)
    return next((other for other in others if key is not None and principal_key(other) == key), None)


def _seconds(duration: str) -> int:
    """Return the seconds of a duration of the provider (`1h`, `1h30m`, `900s`)."""
    found = _DURATION.fullmatch(duration)
    if found is None or not any(found.groups()):
        raise InputError(
            f"aws:assumeRoles has the duration {duration!r}", remedy="write it as 1h, 90m or 3600s"
        )
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds
