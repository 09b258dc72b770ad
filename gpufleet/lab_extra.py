"""The one way from a command to `gpufleet.lab`: loaded where the sandbox is the cloud, and nowhere else.

The stand-ins are an optional extra. Whoever has an account or racks runs without it.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.engine.api import StackRequest
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.lab.aws.daemon import WhileStarting
    from gpufleet.lab.aws.throwaway import ThrowawayAccount

    __all__ = [
        "ThrowawayAccount",
        "WhileStarting",
        "require_lab",
        "sandbox_access",
        "start_throwaway_account",
        "with_sandbox",
    ]

_PACKAGES = ("gpufleet.lab", "moto", "flask")
PROVIDERS = {"aws": "gpufleet.lab.aws.provider", "kubernetes": "gpufleet.lab.kubernetes"}
"""Package -> the module that serves the sandbox's provider of it."""


def require_lab() -> None:
    """Raises InputError, with what to install, where a package of the extra is missing."""
    missing = [name for name in _PACKAGES if not _is_installed(name)]
    if missing:
        raise InputError(
            f"the sandbox needs packages that are not installed: {', '.join(missing)}",
            remedy="run `pip install 'gpufleet[lab]'`, or use an account with --cloud aws",
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def with_sandbox(
    request: StackRequest, folder: Path, while_starting: WhileStarting = contextlib.nullcontext
) -> StackRequest:
    """The request against the emulated AWS that keeps its state in `folder`; started if it does not run."""
    require_lab()
    from gpufleet.lab.aws import daemon

    return replace(
        request,
        env={**request.env, **daemon.sandbox_env(daemon.ensure(folder, while_starting=while_starting))},
        providers={name: (sys.executable, "-m", module) for name, module in PROVIDERS.items()},
    )


def start_throwaway_account(folder: Path, passphrase: str = "") -> ThrowawayAccount:
    """An emulated AWS with its files in `folder`, still starting; the caller ends it.

    It is empty, or goes on from the files that `ThrowawayAccount.save` named, with their `passphrase`.
    """
    require_lab()
    from gpufleet.lab.aws.throwaway import ThrowawayAccount

    return ThrowawayAccount(folder, passphrase)


def sandbox_access(root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Arguments of the AWS provider and of boto3 clients for the emulated AWS of the checkout `root`.

    It is started if it does not run. The provider gets the sandbox's own key explicitly: should the
    real plugin be on PATH instead of the sandbox's, AWS refuses that key, and nothing is created in
    anybody's account.
    """
    require_lab()
    from gpufleet.lab.aws.access import program_access

    return program_access(root)
