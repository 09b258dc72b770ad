"""The only AWS credentials that the sandbox accepts, and an environment with nothing else.

The key is not a real one: it lacks AWS's prefixes on purpose, so that neither people nor secret scanners
mistake it for one. The server answers 403 to every other key: a program that is set up for a real account
cannot use the sandbox, and cannot change it by accident.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpufleet.lab.aws.endpoint import Endpoint

ACCESS_KEY_ID = "GPUFLEETSANDBOXONLY0"
SECRET_ACCESS_KEY = "gpufleet-sandbox-not-a-secret"  # noqa: S105 - public by design, opens nothing
ACCOUNT_ID = "123456789012"
"""moto's default account; every sandbox resource belongs to it."""
LATE = "GPUFLEET_AWS_LATE_S"
"""Environment variable: how long, in seconds, the emulated AWS may not find new resources."""


def sandbox_env(endpoint: Endpoint) -> dict[str, str]:
    """Return variables that send every AWS SDK to `endpoint` and away from the user's profiles.

    Add them to the environment of a child process; `isolated_environ` also removes variables that would
    override them (AWS_PROFILE, endpoints of single services).
    """
    no_proxy = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    hosts = ",".join([*filter(None, [no_proxy]), "127.0.0.1", "localhost"])
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_SESSION_TOKEN": "",
        "AWS_ENDPOINT_URL": endpoint.url,
        LATE: str(endpoint.late_s),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": hosts,
        "no_proxy": hosts,
    }


def isolated_environ(endpoint: Endpoint, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `base` (default: this process's environment) with `sandbox_env` and no other AWS_ variable."""
    source = os.environ if base is None else base
    kept = {name: value for name, value in source.items() if not name.startswith("AWS_")}
    return kept | sandbox_env(endpoint)
