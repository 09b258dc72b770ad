"""Selection of the engine of a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from gpufleet.engine import forks
from gpufleet.engine.api import Engine
from gpufleet.engine.errors import INSTALL_PULUMI, CliMissingError
from gpufleet.engine.project_file import read_project_file
from gpufleet.errors import InputError

EngineName = Literal["auto", "embedded", "pulumi"]


def select_engine(
    name: str = "auto",
    env: Mapping[str, str] | None = None,
    preload: Sequence[str] = (),
    *,
    real_account: bool = False,
) -> Engine:
    """Return the engine of that name; `auto` is the Pulumi CLI if it is on PATH, else the embedded one.

    `env` is the environment of the run if it differs from this process's (its PATH is used). `preload` lists
    modules of a later run: the embedded engine starts importing them at once. A run on a `real_account` uses
    the Pulumi CLI: InputError for the embedded engine, and if the CLI is missing.
    """
    path = (env or {}).get("PATH")
    installed = shutil.which("pulumi", path=path) is not None
    if real_account:
        name = _for_real_account(name, installed=installed)
    if name == "embedded" or (name == "auto" and not installed):
        if preload:
            # Before this process imports the engine, which takes as long.
            forks.prepare({**os.environ, **(env or {})}, preload)
        from gpufleet.engine.embedded.engine import EmbeddedEngine

        return EmbeddedEngine()
    if name in ("auto", "pulumi"):
        # Imported on demand: the Automation API takes a third of a second to load.
        from gpufleet.engine.pulumi_cli import PulumiCliEngine

        return PulumiCliEngine()
    raise InputError(f"there is no engine '{name}'", remedy="the engines are 'embedded', 'pulumi' and 'auto'")


def cli_has_backend(project_root: Path) -> bool:
    """Return whether the Pulumi CLI is on PATH and may have a backend for the project.

    Without one it has no stacks. A file with credentials counts as a login. It is not read, since the CLI may
    have encrypted it. Raises InputError for a Pulumi.yaml that cannot be read.
    """
    if shutil.which("pulumi") is None:
        return False
    if any(os.environ.get(name) for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN")):
        return True
    home = os.environ.get("PULUMI_CREDENTIALS_PATH") or os.environ.get("PULUMI_HOME")
    if (Path(home or "~/.pulumi").expanduser() / "credentials.json").exists():
        return True
    file = project_root / "Pulumi.yaml"
    remedy = "write `runtime: python`"
    return file.exists() and bool(read_project_file(file, remedy=remedy, within=project_root).get("backend"))


def _for_real_account(name: str, *, installed: bool) -> str:
    if name == "embedded":
        raise InputError(
            "--engine embedded does not support real accounts: it serves the sandbox, `check` and "
            "tests; a real account needs the Pulumi CLI",
            remedy="leave --engine out"
            + ("" if installed else f" and install the Pulumi CLI: {INSTALL_PULUMI}")
            + ", or pass --cloud sandbox",
        )
    if name in ("auto", "pulumi") and not installed:
        raise CliMissingError("a real account needs the Pulumi CLI, which is not on PATH")
    return "pulumi" if name == "auto" else name
