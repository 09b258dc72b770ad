"""AWS providers use the account of the run, and AWS's own endpoints."""

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
    """Other known accounts."""

    accounts: tuple[str, ...] = Field((), description="Ids of accounts whose roles a provider may assume")


def _provider(**props: Any) -> Example:
    return Example(({"type": PROVIDER, "name": "aws", "props": {"region": "us-east-1", **props}},))


@resource_rule(
    "provider-account",
    group="security",
    title="Providers use the account of the run",
    why="A provider with another role or other credentials creates resources in another account, outside "
    "this account's budget and monitoring.",
    fix="Take credentials from the environment of the run. Add an account that the fleet spans to the "
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
    """Check roles, credentials and endpoints of each provider. The emulated AWS has its own keys."""
    for prop in _ROLES:
        for arn in _roles(decoded(resource.get(prop))):
            found = _ACCOUNT.fullmatch(arn) if isinstance(arn, str) else None
            if found is None or found[1] not in context.settings.accounts:
                what = f"account {found[1]}" if found else "an unknown account"
                yield _violation(prop, f"assumes a role in {what}", unknown=found is None)
    if context.shared.config.get("gpufleet:cloud") == "sandbox":
        return
    for prop in _OWN:
        if resource.get(prop) not in (None, "", []) or is_unknown(resource.get(prop)):
            yield _violation(prop, "has its own credentials")
    for url in _urls(decoded(resource.get("endpoints"))):
        if not (isinstance(url, str) and _LOOPBACK.fullmatch(url)):
            yield _violation("endpoints", "uses endpoints outside AWS")
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
        f"{prop}: the provider {what}, and providers must use the account of the run",
        "remove it, and give the run the credentials; add a known account to the rule's `accounts`",
        prop=prop,
        unknown=unknown,
    )
