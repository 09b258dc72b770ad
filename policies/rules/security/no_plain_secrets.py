"""User data, tags, environment variables and other plain properties hold no credentials."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import LAUNCH_TEMPLATE

# Tried first on every string, so that the exact pattern runs on few.
_MARK = re.compile(r"A[KS]IA|PRIVATE KEY|gh[po]_|github_pat_|hf_|(?i:secret_access_key)|xox|nvapi-")
_SECRET = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\bgh[po]_[0-9A-Za-z]{36}\b|\bgithub_pat_[0-9A-Za-z_]{50,}"
    r"|\bhf_[0-9A-Za-z]{30,}\b|\bxox[abprs]-[0-9A-Za-z-]{10,}|\bnvapi-[0-9A-Za-z_-]{40,}"
    r"|(?i:secret_access_key)['\"]?\s*[=:]\s*['\"]?[0-9A-Za-z/+]{40}",
)
_NAMED = {"AKIA": "an AWS access key", "ASIA": "an AWS access key", "-----": "a private key"}
READABLE = ("userData", "userDataBase64", "tags", "tagsAll", "tagSpecifications", "labels")
"""Properties that everyone on the node or with a read-only role can read, Pulumi secrets included."""

_KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@resource_rule(
    "no-plain-secrets",
    group="security",
    title="No credentials in user data, tags or other plain properties",
    why="Every process on the node and every read-only role can read user data. Whole organisations can read "
    "tags. Both stay in old versions of launch templates.",
    fix="Give the node a role, and read secrets from Secrets Manager.",
    severity="critical",
    framework=well_architected("SEC02-BP03", "sec_identities_secrets"),
    types=(),
    passes=Example(({"type": LAUNCH_TEMPLATE, "props": {"userData": "IyEvYmluL2Jhc2gK"}},)),
    fails=Example(({"type": LAUNCH_TEMPLATE, "props": {"userData": f"export AWS_ACCESS_KEY_ID={_KEY}"}},)),
)
def no_plain_secrets(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check all strings of all resources, and Pulumi secrets where others can read them."""
    for path, text in _strings(resource.props, ""):
        if _MARK.search(text):
            found = _SECRET.search(text)
            top = path.partition(".")[0].partition("[")[0]
            if found is not None and (top in READABLE or not _kept(resource, path)):
                kind = _NAMED.get(found.group()[:5].upper(), _NAMED.get(found.group()[:4].upper(), "a token"))
                yield Violation(
                    f"{path} holds {kind} in the clear, and credentials belong in Secrets Manager",
                    "remove it, revoke it, and let the role read it from there",
                    prop=path,
                )


def _kept(resource: Resource, path: str) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in resource.secrets)


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
        if path.startswith("userData") and (text := _decoded(value)):
            yield path, text
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}[{index}]")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
