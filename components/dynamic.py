"""Shared parts of the dynamic resources: their boto3 client, and the comparison of inputs.

A separate plugin imports their modules by name, so neither they nor this file import pulumi_aws, and boto3
is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def client(props: Mapping[str, Any], service: str) -> Any:
    """Return the boto3 client of a resource: in its `region`, with the options of its `client`."""
    from botocore.config import Config

    from gpufleet.aws_session import open_session

    options = dict(props.get("client") or {})
    if "endpoint_url" in options:
        # The state has the old address of an emulated AWS; the environment has the current one.
        options["endpoint_url"] = os.environ.get("AWS_ENDPOINT_URL") or options["endpoint_url"]
    profile, roles = options.pop("profile", None), options.pop("assume_roles", ())
    session = open_session(profile, props["region"], roles)
    # A wait polls for many minutes beside everything else that the account does.
    return session.client(
        service, config=Config(retries={"mode": "standard", "total_max_attempts": 10}), **options
    )


def changed(olds: Mapping[str, Any], news: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """Return the keys whose values differ; numbers are floating point in Pulumi's protocol."""
    return [key for key in keys if _plain(olds.get(key)) != _plain(news.get(key))]


def iso(moment: datetime) -> str:
    """Format a time as ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value
