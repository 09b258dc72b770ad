"""Providers of AWS act in the account that the run was given, and reach AWS itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policies.rules.tags._tags import decoded
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import PROVIDER

_ROLES = ("assumeRoles", "assumeRole", "assumeRoleWithWebIdentity")
_OWN = ("profile", "accessKey", "secretKey", "token", "sharedCredentialsFiles", "sharedConfigFiles")
_ACCOUNT = re.compile(r"arn:[^:]+:iam::(\d{12}):role/.+")
_LOOPBACK = re.compile(r"https?://(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?(/.*)?")


class ProviderAccountSettings(Settings):
    """Which other accounts are known."""

    accounts: tuple[str, ...] = Field((), description="Ids of accounts whose roles a provider may take on")


def _provider(**props: Any) -> Example:
    return Example(({"type": PROVIDER, "name": "aws", "props": {"region": "us-east-1", **props}},))


@resource_rule(
    "provider-account",
    group="security",
    title="Providers act in the account of the run",
    why="A provider with a role or credentials of its own makes its resources in another account, where "
    "neither the budget of this one nor anybody who looks after it sees them.",
    fix="Leave credentials to the environment of the run. An account that the fleet spans is named in the "
    "rule's `accounts`.",
    severity="high",
    framework=well_architected("SEC01-BP01", "sec_securely_operate_multi_accounts"),
    types=(PROVIDER,),
    settings=ProviderAccountSettings,
    passes=_provider(),
    fails=_provider(assumeRoles=[{"roleArn": "arn:aws:iam::111122223333:role/deploy"}]),
)
def provider_account(
    resource: Resource, context: RuleContext[ProviderAccountSettings]
) -> Iterator[Violation]:
    """Roles, credentials and endpoints of each provider. The emulated AWS has keys of its own."""
    for prop in _ROLES:
        for arn in _roles(decoded(resource.get(prop))):
            found = _ACCOUNT.fullmatch(arn) if isinstance(arn, str) else None
            if found is None or found[1] not in context.settings.accounts:
                what = f"account {found[1]}" if found else "an account that is not known"
                yield _violation(prop, f"takes on a role in {what}", unknown=found is None)
    if context.shared.config.get("gpufleet:cloud") == "sandbox":
        return
    for prop in _OWN:
        if resource.get(prop) not in (None, "", []) or is_unknown(resource.get(prop)):
            yield _violation(prop, "has credentials of its own")
    for url in _urls(decoded(resource.get("endpoints"))):
        if not (isinstance(url, str) and _LOOPBACK.fullmatch(url)):
            yield _violation("endpoints", "reaches something else than AWS")
            return


def _roles(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
        if isinstance(each, Mapping):
            yield each.get("roleArn")
        elif each is not None:
            yield each


def _urls(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
        if isinstance(each, Mapping):
            yield from (url for url in each.values() if url is not None and url != "")
        elif each is not None:
            yield each


def _violation(prop: str, what: str, *, unknown: bool = False) -> Violation:
    return Violation(
        f"{prop}: the provider {what}, and providers act in the account of the run",
        "leave it out, and give the run the credentials; a known account goes into the rule's `accounts`",
        prop=prop,
        unknown=unknown,
    )
