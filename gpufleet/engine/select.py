"""Which engine a run uses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Literal

from gpufleet.engine import forks
from gpufleet.engine.api import Engine
from gpufleet.engine.errors import INSTALL_PULUMI, CliMissingError
from gpufleet.errors import InputError

EngineName = Literal["auto", "embedded", "pulumi"]


def select_engine(
    name: str = "auto",
    env: Mapping[str, str] | None = None,
    preload: Sequence[str] = (),
    *,
    real_account: bool = False,
) -> Engine:
    """The engine of that name; `auto` is the Pulumi CLI where it is on PATH, else the embedded one.

    `env` is the environment of the run where it differs from this process's (PATH is looked at). `preload`
    is what a run that is to come will name: the embedded engine begins with it at once. A run on a
    `real_account` is the Pulumi CLI's: InputError for the embedded engine, and where the CLI is missing.
    """
    path = (env or {}).get("PATH")
    installed = shutil.which("pulumi", path=path) is not None
    if real_account:
        name = _for_real_account(name, installed=installed)
    if name == "embedded" or (name == "auto" and not installed):
        if preload:
            # Before this process imports the engine, which takes as long.
            forks.prepare({**os.environ, **(env or {})}, preload)
        from gpufleet.engine.embedded import EmbeddedEngine

        return EmbeddedEngine()
    if name in ("auto", "pulumi"):
        # Imported when asked for: the Automation API takes a third of a second to load.
        from gpufleet.engine.pulumi_cli import PulumiCliEngine

        return PulumiCliEngine()
    raise InputError(f"there is no engine '{name}'", remedy="the engines are 'embedded', 'pulumi' and 'auto'")


def _for_real_account(name: str, *, installed: bool) -> str:
    if name == "embedded":
        raise InputError(
            "--engine embedded does not run on a real account: it serves the sandbox, `check` and "
            "tests; a real account runs on the Pulumi CLI",
            remedy="leave --engine out"
            + ("" if installed else f" and install the Pulumi CLI: {INSTALL_PULUMI}")
            + ", or pass --cloud sandbox",
        )
    if name in ("auto", "pulumi") and not installed:
        raise CliMissingError("a real account runs on the Pulumi CLI, which is not on PATH")
    return "pulumi" if name == "auto" else name
