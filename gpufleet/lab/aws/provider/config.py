"""The provider's configuration: region, default tags, and the check that keeps it in the sandbox."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from gpufleet.errors import InputError
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID

DEFAULT_REGION = "us-east-1"
_KNOWN = frozenset({
    "accessKey", "allowedAccountIds", "defaultTags", "endpoints", "ignoreTags", "maxRetries",
    "pluginDownloadUrl",
    "region", "s3UsePathStyle", "secretKey", "skipCredentialsValidation", "skipMetadataApiCheck",
    "skipRegionValidation", "skipRequestingAccountId", "version", "useFipsEndpoint", "useDualstackEndpoint",
    "retryMode", "forbiddenAccountIds", "profile", "token", "assumeRoles", "assumeRole", "stsRegion",
    "internal",
})  # fmt: skip
_REAL_CREDENTIALS = ("profile", "token", "assumeRoles", "assumeRole", "assumeRoleWithWebIdentity")


class AwsProviderConfig(Struct, frozen=True):
    """The `aws:*` configuration or an explicit provider resource. `endpoint` is empty if neither the
    configuration nor the environment sets it: then the sandbox's daemon is used."""

    region: str = DEFAULT_REGION
    default_tags: Mapping[str, str] = field(default_factory=dict)
    allowed_accounts: tuple[str, ...] = ()
    forbidden_accounts: tuple[str, ...] = ()
    endpoint: str = ""


def unknown_keys(values: Mapping[str, Any]) -> list[str]:
    """Configuration keys that the provider does not have."""
    return sorted(key for key in values if key not in _KNOWN and not key.startswith("__"))


def parse(values: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> AwsProviderConfig:
    """Return the configuration. Raises InputError for settings that lead out of the sandbox."""
    environ = os.environ if environ is None else environ
    decoded = {key: _decoded(value) for key, value in values.items()}
    refuse_real_credentials(decoded, environ)
    endpoint = _endpoint(decoded, environ)
    if endpoint:
        refuse_remote(endpoint)
    tags = decoded.get("defaultTags") or {}
    region = decoded.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    return AwsProviderConfig(
        region=str(region or DEFAULT_REGION),
        default_tags={
            str(key): str(value) for key, value in (tags.get("tags") or {}).items() if key != "__defaults"
        },
        allowed_accounts=tuple(str(item) for item in decoded.get("allowedAccountIds") or ()),
        forbidden_accounts=tuple(str(item) for item in decoded.get("forbiddenAccountIds") or ()),
        endpoint=endpoint,
    )


def _decoded(value: Any) -> Any:
    """Return nested configuration, which is sent as JSON text."""
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _endpoint(values: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    named = {
        str(address).rstrip("/")
        for entry in values.get("endpoints") or ()
        for address in (entry.values() if isinstance(entry, Mapping) else ())
        if isinstance(address, str) and address
    }
    for address in sorted(named):
        refuse_remote(address)
    if len(named) > 1:
        raise InputError(
            f"aws:endpoints has several addresses ({', '.join(sorted(named))}): the emulated AWS has one",
            remedy="set the same address for every service",
        )
    return next(iter(named), "") or environ.get("AWS_ENDPOINT_URL", "").rstrip("/")


def refuse_remote(endpoint: str) -> None:
    """Raise InputError unless the endpoint is on this machine's loopback interface."""
    host = urlsplit(endpoint).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise InputError(
            f"endpoint {endpoint!r} is not on loopback: the sandbox's aws provider uses nothing else",
            remedy="unset AWS_ENDPOINT_URL and aws:endpoints; a real account needs the real aws provider",
        )


def refuse_real_credentials(values: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Raise InputError if the configuration or the environment has credentials of a real account."""
    for key in _REAL_CREDENTIALS:
        if values.get(key):
            raise InputError(
                f"aws:{key} is set: the sandbox's aws provider accepts no real credentials",
                remedy=f"remove aws:{key} from this stack's configuration",
            )
    key = values.get("accessKey") or environ.get("AWS_ACCESS_KEY_ID") or ACCESS_KEY_ID
    if key != ACCESS_KEY_ID:
        source = "aws:accessKey" if values.get("accessKey") else "AWS_ACCESS_KEY_ID"
        raise InputError(
            f"{source} {str(key)[:4]}... is not the sandbox's own key: no real credentials are accepted",
            remedy=f"unset {source}, or set it to {ACCESS_KEY_ID}; real accounts need the real aws provider",
        )


def sandbox_folder(start: Path | None = None) -> Path:
    """Return where the emulated AWS of a checkout keeps its state: `.gpufleet/sandbox` beside Pulumi.yaml."""
    named = os.environ.get("GPUFLEET_SANDBOX_DIR")
    if named:
        return Path(named)
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file():
            return folder / ".gpufleet" / "sandbox"
    return here / ".gpufleet" / "sandbox"
