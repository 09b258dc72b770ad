"""The stack's configuration: which cloud, which fleet file, what may be deleted and paid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.containment import fleet_file_of_settings
from gpufleet.errors import InputError
from gpufleet.lab_extra import sandbox_access


@dataclass(frozen=True)
class StackSettings:
    """What the program is told besides the fleet file.

    `fleet_file` is a path or an environment's name, by default the stack's. `protect` keeps storage,
    clusters and Capacity Blocks from being deleted or replaced. `allow_upfront` caps, in USD, what
    one Capacity Block may cost; None is no cap. `aws_provider` and `aws_client` are arguments of
    the AWS provider and of boto3 clients: of a real account, what the stack's `aws:` settings say of
    the account to use.
    """

    cloud: str
    fleet_file: str
    protect: bool
    allow_upfront: str | None
    aws_provider: Mapping[str, Any]
    aws_client: Mapping[str, str]


def load_settings(root: Path) -> StackSettings:
    """The settings of the running stack. Raises InputError for values that mean nothing."""
    config = pulumi.Config("gpufleet")
    cloud = config.get("cloud") or "aws"
    fleet_file = fleet_file_of_settings(config.get("fleetFile") or pulumi.get_stack(), root)
    if cloud == "sandbox":
        provider, client = sandbox_access(root)
        return StackSettings(cloud, fleet_file, config.get_bool("protect") or False, None, provider, client)
    if cloud != "aws":
        raise InputError(
            f"gpufleet:cloud is {cloud!r}; it takes sandbox or aws",
            remedy="run `pulumi config set gpufleet:cloud sandbox`",
        )
    protect = config.get_bool("protect")
    return StackSettings(
        cloud=cloud,
        fleet_file=fleet_file,
        protect=True if protect is None else protect,
        allow_upfront=_amount(config.get("allowUpfront") or "0"),
        aws_provider=_account(),
        aws_client=_named_profile(),
    )


def _amount(text: str) -> str:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise InputError(
            f"gpufleet:allowUpfront is {text!r}; it takes an amount in USD, 0 or more",
            remedy="run `pulumi config set gpufleet:allowUpfront 800000`",
        )
    return text


def _account() -> dict[str, Any]:
    """What `aws:` settings say of the account: a provider that is made by hand does not read them itself."""
    config = pulumi.Config("aws")
    found: dict[str, Any] = dict(_named_profile())
    roles = _list_of(config, "assumeRoles")
    if roles:
        found["assume_roles"] = [_assumed(role) for role in roles]
    for key, argument in (
        ("allowedAccountIds", "allowed_account_ids"),
        ("forbiddenAccountIds", "forbidden_account_ids"),
    ):
        # Stored as a number, an id has lost the zeros that it begins with.
        ids = [str(account).zfill(12) for account in _list_of(config, key)]
        if ids:
            found[argument] = ids
    return found


def _list_of(config: pulumi.Config, key: str) -> list[Any]:
    try:
        value = config.get_object(key)
    except pulumi.ConfigTypeError:
        value = config.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(
            f"aws:{key} is {value!r}; it takes a list",
            remedy=f"run `pulumi config set --path 'aws:{key}[0]' ...` for each entry",
        )
    return value


def _assumed(role: Any) -> aws.ProviderAssumeRoleArgs:
    try:
        return aws.ProviderAssumeRoleArgs(
            **{re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in role.items()}
        )
    except (AttributeError, TypeError):
        raise InputError(
            f"aws:assumeRoles has {role!r}; an entry takes roleArn, sessionName, externalId and the like",
            remedy="run `pulumi config set --path 'aws:assumeRoles[0].roleArn' arn:aws:iam::...:role/...`",
        ) from None


def _named_profile() -> dict[str, str]:
    """The profile of `aws:profile`, so that the offering look-up asks the account that the provider uses."""
    profile = pulumi.Config("aws").get("profile")
    return {"profile": profile} if profile else {}
