"""AWS providers use the account of the run, and AWS's own endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policies.rules.tags._tags import decoded
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
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
        for arn in _roles(_given(resource, prop)):
            found = _ACCOUNT.fullmatch(arn) if isinstance(arn, str) else None
            if found is None or found[1] not in context.settings.accounts:
                what = f"account {found[1]}" if found else "an unknown account"
                yield _violation(prop, f"assumes a role in {what}", unknown=found is None)
    if context.shared.config.get("gpufleet:cloud") == "sandbox":
        return
    for prop in _OWN:
        if resource.get(prop) not in (None, "", []):
            yield _violation(prop, "has its own credentials")
    for url in _urls(_given(resource, "endpoints")):
        if not (isinstance(url, str) and _LOOPBACK.fullmatch(url)):
            yield _violation("endpoints", "uses endpoints outside AWS")
            return


def _given(resource: Resource, prop: str) -> list[Any]:
    """Return the entries of an input, which SDKs send as JSON; text that is none is an entry itself."""
    value = resource.get(prop)
    found = decoded(value)
    if found is None:
        return [] if value in (None, "", "null") else [value]
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _roles(entries: Iterable[Any]) -> Iterator[Any]:
    for each in entries:
        yield each.get("roleArn") if isinstance(each, Mapping) else each


def _urls(entries: Iterable[Any]) -> Iterator[Any]:
    for each in entries:
        urls = each.values() if isinstance(each, Mapping) else [each]
        yield from (url for url in urls if url not in (None, ""))


def _violation(prop: str, what: str, *, unknown: bool = False) -> Violation:
    return Violation(
        f"{prop}: the provider {what}, and providers must use the account of the run",
        "remove it, and give the run the credentials; add a known account to the rule's `accounts`",
        prop=prop,
        unknown=unknown,
    )
