"""Sessions of boto3 in the account of a stack: its profile, and the roles that it assumes from there.

pulumi_aws reads the same settings (`aws:profile`, `aws:assumeRoles`), so both use one account. boto3 is
imported on first use: commands without a cloud start without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SESSION_NAME = "gpufleet"
"""The session name of an assumed role without one."""

_ROLE_KEYS = {
    "sessionName": "RoleSessionName",
    "externalId": "ExternalId",
    "policy": "Policy",
    "sourceIdentity": "SourceIdentity",
}
"""Keys of an entry of `aws:assumeRoles`, and their names in AssumeRole."""


def open_session(
    profile: str | None = None,
    region: str | None = None,
    roles: Sequence[Mapping[str, Any]] = (),
    **client: Any,
) -> Any:
    """Return a boto3 session of a profile, or of the environment, with each of `roles` assumed in turn.

    `roles` are entries of `aws:assumeRoles` (`roleArn`, `sessionName`, `externalId`); `client` are options of
    the STS client. Raises the errors of botocore. The credentials of an assumed role last for an hour.
    """
    import boto3

    session = boto3.Session(profile_name=profile, region_name=region)
    for role in roles:
        parameters = {name: role[key] for key, name in _ROLE_KEYS.items() if role.get(key)}
        answer = session.client("sts", **client).assume_role(
            RoleArn=role["roleArn"], **{"RoleSessionName": SESSION_NAME, **parameters}
        )
        given = answer["Credentials"]
        session = boto3.Session(
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
            region_name=region,
        )
    return session
