"""A stack in the backend of a team, made by the Pulumi CLI with the team's key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from gpufleet.errors import CloudError


def pulumi_of(env: Mapping[str, str]) -> str | None:
    """Return the Pulumi CLI on the PATH of an environment."""
    return shutil.which("pulumi", path=env.get("PATH"))


def ensure_stack(
    root: Path, stack: str, secrets_provider: str, env: Mapping[str, str]
) -> Literal["created", "there"]:
    """Create the stack in the backend of the checkout's project, with its secrets under a key of KMS.

    The CLI writes the stack's settings file. Raises CloudError with its message if it fails.
    """
    listed = json.loads(_run(root, env, "stack", "ls", "--json") or "[]")
    if any(item["name"].rpartition("/")[2] == stack for item in listed):
        return "there"
    _run(root, env, "stack", "init", stack, "--no-select", "--secrets-provider", secrets_provider)
    return "created"


def _run(root: Path, env: Mapping[str, str], *words: str) -> str:
    command = pulumi_of(env) or "pulumi"
    done = subprocess.run(  # noqa: S603 - no shell is involved
        [command, "--non-interactive", *words],
        cwd=root,
        env={**os.environ, **env, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        wanted = [line for line in lines if line.startswith("error:")] or lines[-3:]
        message = "; ".join(line.removeprefix("error:").strip() for line in wanted) or "no message"
        raise CloudError(
            f"`pulumi {' '.join(words[:2])}` failed: {message}",
            remedy="check that these credentials may use the bucket and the key",
        )
    return done.stdout
