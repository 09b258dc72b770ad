"""Sessions of boto3 in the account of a stack: its profile, and the roles that it assumes from there.

pulumi_aws reads the same settings (`aws:profile`, `aws:assumeRoles`), so both use one account. boto3 is
imported on first use: commands without a cloud start without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
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
    session = _session(profile, region)
    for role in roles:
        parameters = {name: role[key] for key, name in _ROLE_KEYS.items() if role.get(key)}
        answer = session.client("sts", **client).assume_role(
            RoleArn=role["roleArn"], **{"RoleSessionName": SESSION_NAME, **parameters}
        )
        given = answer["Credentials"]
        session = _session(
            None,
            region,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
    return session


def _session(profile: str | None, region: str | None, **credentials: str) -> Any:
    """Return a boto3 session that shares the models of services with all others of this process.

    They never change, and EC2's takes longer to read than a request to it.
    """
    import boto3
    import botocore.session

    core = botocore.session.get_session()
    if profile is not None:
        core.set_config_variable("profile", profile)
    core.register_component("data_loader", _models(core.get_config_variable("data_path")))
    return boto3.Session(region_name=region, botocore_session=core, **credentials)


@cache
def _models(data_path: str | None) -> Any:
    from botocore.loaders import create_loader

    return create_loader(data_path)
