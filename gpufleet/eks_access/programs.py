"""The programs that the way into a cluster needs on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from gpufleet.errors import InputError

PLUGIN = "session-manager-plugin"
AWS_CLI = "aws"
GPUFLEET = "gpufleet"

_NEWEST_WITHOUT_VARIABLE = (1, 2, 497, 0)
"""Later versions of the plugin read the session's token from the environment instead of an argument, which
every user of the machine can read (aws-cli, customizations/sessionmanager.py)."""

_REMEDIES: Mapping[str, str] = {
    PLUGIN: "install AWS's Session Manager plugin (Systems Manager User Guide, \"Install the Session Manager"
    ' plugin"), or set `kubernetes.access` of the site: direct, if this machine is in its network; phased, to'
    " apply the cluster's contents in a later run",
    AWS_CLI: "install the AWS CLI, version 2: the kubeconfig runs `aws eks get-token`",
    GPUFLEET: "activate the virtual environment (`source .venv/bin/activate`): the kubeconfig runs `gpufleet"
    " eks-token`",
}


def require_programs(*names: str, site: str) -> None:
    """Raise InputError if a program that runs on `site` need is not on PATH, or is too old."""
    for name in names:
        if shutil.which(name) is None:
            raise InputError(
                f"the Kubernetes API of site {site} is reached with {name}, which is not on PATH",
                remedy=_REMEDIES[name],
            )
    if PLUGIN in names:
        _require_version(site)


def _require_version(site: str) -> None:
    text = _plugin_version()
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.(\d+)", text)
    if found is None or tuple(map(int, found.groups())) <= _NEWEST_WITHOUT_VARIABLE:
        raise InputError(
            f"the Kubernetes API of site {site} is reached with {PLUGIN}; its version is {text or 'unknown'},"
            f" and must be later than {'.'.join(map(str, _NEWEST_WITHOUT_VARIABLE))}",
            remedy=_REMEDIES[PLUGIN],
        )


def _plugin_version() -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - no shell is involved
            [shutil.which(PLUGIN) or PLUGIN, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=dict(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip()
