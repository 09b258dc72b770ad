"""The stack's configuration: cloud, fleet file, protection and payment limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.containment import fleet_file_of_settings
from gpufleet.eks_access.identity import AwsIdentity
from gpufleet.errors import InputError
from gpufleet.lab_extra import sandbox_access

CAPACITY_WAIT = "10"
"""Minutes to wait for the nodes of an Auto Scaling group, as pulumi_aws waits by default."""

LONGEST_WAIT = 120


@dataclass(frozen=True)
class StackSettings:
    """The program's settings in addition to the fleet file.

    `fleet_file` is a path or an environment's name, by default the stack's. `protect` prevents the deletion
    and replacement of storage, clusters and Capacity Blocks. `allow_upfront` limits, in USD, the price of
    one Capacity Block; None is no limit. `capacity_wait_s` is how long a run waits for the nodes of an Auto
    Scaling group. `aws_provider` and `aws_client` are arguments of the AWS provider and of boto3 clients: for
    a real account, those of the stack's `aws:` settings. `identity` is who that is.
    """

    cloud: str
    fleet_file: str
    protect: bool
    allow_upfront: str | None
    aws_provider: Mapping[str, Any]
    aws_client: Mapping[str, Any]
    capacity_wait_s: float = 0.0
    identity: AwsIdentity = field(default_factory=AwsIdentity)


def load_settings(root: Path) -> StackSettings:
    """Return the settings of the running stack. Raises InputError for invalid values."""
    config = pulumi.Config("gpufleet")
    cloud = config.get("cloud") or "aws"
    fleet_file = fleet_file_of_settings(config.get("fleetFile") or pulumi.get_stack(), root)
    if cloud == "sandbox":
        provider, client = sandbox_access(root)
        # Emulated nodes run at once or not at all.
        wait_s = _minutes(config.get("capacityWait") or "0")
        protected = bool(config.get_bool("protect"))
        return StackSettings(cloud, fleet_file, protected, None, provider, client, wait_s)
    if cloud != "aws":
        raise InputError(
            f"gpufleet:cloud is {cloud!r}; it must be sandbox or aws",
            remedy="run `pulumi config set gpufleet:cloud sandbox`",
        )
    protect = config.get_bool("protect")
    return StackSettings(
        cloud=cloud,
        fleet_file=fleet_file,
        protect=True if protect is None else protect,
        allow_upfront=_amount(config.get("allowUpfront") or "0"),
        capacity_wait_s=_minutes(config.get("capacityWait") or CAPACITY_WAIT),
        aws_provider=_account(),
        aws_client=_client_options(),
        identity=AwsIdentity(_named_profile().get("profile"), tuple(_roles())),
    )


def _amount(text: str) -> str:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise InputError(
            f"gpufleet:allowUpfront is {text!r}; it must be an amount in USD, 0 or more",
            remedy="run `pulumi config set gpufleet:allowUpfront 800000`",
        )
    return text


def _minutes(text: str) -> float:
    """Return minutes as seconds."""
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes <= LONGEST_WAIT:
        raise InputError(
            f"gpufleet:capacityWait is {text!r}; it must be a number of minutes from 0 to {LONGEST_WAIT}",
            remedy=f"run `pulumi config set gpufleet:capacityWait {CAPACITY_WAIT}`",
        )
    return minutes * 60


def _account() -> dict[str, Any]:
    """Return the account in the `aws:` settings, which an explicit provider does not read itself."""
    config = pulumi.Config("aws")
    found: dict[str, Any] = dict(_named_profile())
    roles = _roles()
    if roles:
        found["assume_roles"] = [_assumed(role) for role in roles]
    for key, argument in (
        ("allowedAccountIds", "allowed_account_ids"),
        ("forbiddenAccountIds", "forbidden_account_ids"),
    ):
        # A number has lost the leading zeros of the id.
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
            f"aws:{key} is {value!r}; it must be a list",
            remedy=f"run `pulumi config set --path 'aws:{key}[0]' ...` for each entry",
        )
    return value


def _roles() -> list[Mapping[str, Any]]:
    """Return the roles of `aws:assumeRoles` with their fields in snake case, as Python names them."""
    return [_snake_case(role) for role in _list_of(pulumi.Config("aws"), "assumeRoles")]


def _snake_case(role: Any) -> Mapping[str, Any]:
    if not isinstance(role, dict) or not role.get("roleArn"):
        raise _not_a_role(role)
    return {re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in role.items()}


def _assumed(role: Mapping[str, Any]) -> aws.ProviderAssumeRoleArgs:
    try:
        return aws.ProviderAssumeRoleArgs(**role)
    except TypeError:
        raise _not_a_role(dict(role)) from None


def _not_a_role(role: Any) -> InputError:
    return InputError(
        f"aws:assumeRoles has {role!r}; an entry has roleArn, and can have sessionName, externalId"
        " and the like",
        remedy="run `pulumi config set --path 'aws:assumeRoles[0].roleArn' arn:aws:iam::...:role/...`",
    )


def _client_options() -> dict[str, Any]:
    """Return the options of boto3 clients in the provider's account (see `gpufleet.aws_session`)."""
    roles = _list_of(pulumi.Config("aws"), "assumeRoles")
    return {**_named_profile(), **({"assume_roles": roles} if roles else {})}


def _named_profile() -> dict[str, str]:
    """Return the profile of `aws:profile`."""
    profile = pulumi.Config("aws").get("profile")
    return {"profile": profile} if profile else {}
