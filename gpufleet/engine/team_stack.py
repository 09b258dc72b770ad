"""A stack in the backend of a team, made by the Pulumi CLI with the team's key."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from gpufleet.errors import CloudError

_REMEDY = "check that these credentials may use the bucket and the key"
_NO_STACK = re.compile(r"no stack named .* found")
"""As the CLI reports it (backenderr.StackNotFoundError); its exit code differs between versions."""


def pulumi_of(env: Mapping[str, str]) -> str | None:
    """Return the Pulumi CLI on the PATH of an environment."""
    return shutil.which("pulumi", path=env.get("PATH"))


def ensure_stack(
    root: Path, stack: str, secrets_provider: str, env: Mapping[str, str]
) -> Literal["created", "there"]:
    """Create the stack in the backend of the checkout's project, with its secrets under a key of KMS.

    The CLI writes the stack's settings file. Raises CloudError with its message if it fails.
    """
    if stack_exists(root, stack, env):
        return "there"
    _require(_run(root, env, "stack", "init", stack, "--no-select", "--secrets-provider", secrets_provider))
    return "created"


def stack_exists(root: Path, stack: str, env: Mapping[str, str], remedy: str = _REMEDY) -> bool:
    """Return whether the backend has the stack. Raises CloudError with the remedy if it cannot be asked.

    `pulumi stack ls` reads the state of every stack of the project, which a role of one environment may not.
    """
    done = _run(root, env, "stack", "--show-name", "--stack", stack)
    if done.returncode and _NO_STACK.search(done.stderr):
        return False
    _require(done, remedy)
    return True


def _run(root: Path, env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = pulumi_of(env) or "pulumi"
    return subprocess.run(  # noqa: S603 - no shell is involved
        [command, "--non-interactive", *words],
        cwd=root,
        env={**os.environ, **env, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _require(done: subprocess.CompletedProcess[str], remedy: str = _REMEDY) -> None:
    if not done.returncode:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    wanted = [line for line in lines if line.startswith("error:")] or lines[-3:]
    message = "; ".join(line.removeprefix("error:").strip() for line in wanted) or "no message"
    raise CloudError(
        f"`pulumi {' '.join(done.args[2:4])}` failed: {message}",
        remedy=remedy,
    )
