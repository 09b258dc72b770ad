"""The only access of commands to `gpufleet.lab`: loaded only if the sandbox is the cloud.

The stand-ins are an optional extra, which accounts and racks do not need.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gpufleet.engine import forks
from gpufleet.engine.api import StackRequest
from gpufleet.errors import InputError
from gpufleet.preload import ACCOUNT

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
"""Package -> the module of the sandbox's provider for it."""


THROWAWAY_PROVIDERS = {**PROVIDERS, "aws": "gpufleet.lab.aws.hosted_provider"}
"""The same for a throwaway account, whose server hosts the aws providers."""


def require_lab() -> None:
    """Raise InputError, with what to install, if a package of the extra is missing."""
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
    """Return the request for the emulated AWS with its state in `folder`; start it if it does not run."""
    require_lab()
    from gpufleet.lab.aws import daemon

    return replace(
        request,
        env={**request.env, **daemon.sandbox_env(daemon.ensure(folder, while_starting=while_starting))},
        providers={name: (sys.executable, "-m", module) for name, module in PROVIDERS.items()},
    )


def served_types() -> frozenset[str]:
    """Return the types of pulumi_aws that the emulated AWS has."""
    require_lab()
    from gpufleet.lab.aws.provider.schema.tokens import RESOURCES

    return frozenset(RESOURCES)


def start_throwaway_account(folder: Path, passphrase: str = "", *, creates: bool = False) -> ThrowawayAccount:
    """Start an emulated AWS with its files in `folder` and return without waiting; the caller ends it.

    It is empty, or continues from the files of `ThrowawayAccount.save`, with their `passphrase`. With
    `creates` it prepares for the creation of a fleet, otherwise for a preview.
    """
    require_lab()
    from gpufleet.lab.aws.throwaway import ThrowawayAccount

    server = forks.prepare(os.environ, ACCOUNT)
    return ThrowawayAccount(folder, passphrase, creates=creates, fork=server.begin if server else None)


def sandbox_access(root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return arguments of the AWS provider and of boto3 clients for the emulated AWS of the checkout `root`.

    It is started if it does not run. The provider gets the sandbox's own key explicitly: if the real plugin
    is on PATH instead of the sandbox's, AWS rejects that key, and nothing is created in a real account.
    """
    require_lab()
    from gpufleet.lab.aws.access import program_access

    return program_access(root)
