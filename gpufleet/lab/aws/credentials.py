"""The only AWS credentials that the sandbox takes, and an environment that holds nothing else.

The key is no real one: it lacks AWS's prefixes on purpose, so that neither a person nor a secret
scanner mistakes it. The server answers 403 to every other key, so a program that was set up for a
real account can never believe that it has changed it, nor can the sandbox be changed by accident.
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
"""The variable that says for how long, in seconds, the emulated AWS may not find what it has made."""


def sandbox_env(endpoint: Endpoint) -> dict[str, str]:
    """Variables that send every AWS SDK to `endpoint` and away from any profile of the user.

    Add them to an environment for a child process; `isolated_environ` also removes what would
    compete with them (AWS_PROFILE, endpoints of single services).
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
    """`base` (default: this process's environment) without any AWS_ variable, plus `sandbox_env`."""
    source = os.environ if base is None else base
    kept = {name: value for name, value in source.items() if not name.startswith("AWS_")}
    return kept | sandbox_env(endpoint)
