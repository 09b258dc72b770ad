"""Which engine a run uses."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Literal

from gpufleet.engine import forks
from gpufleet.engine.api import Engine
from gpufleet.errors import InputError

EngineName = Literal["auto", "embedded", "pulumi"]


def select_engine(
    name: str = "auto", env: Mapping[str, str] | None = None, preload: Sequence[str] = ()
) -> Engine:
    """The engine of that name; `auto` is the Pulumi CLI where it is on PATH, else the embedded one.

    `env` is the environment of the run where it differs from this process's (PATH is looked at). `preload`
    is what a run that is to come will name: the embedded engine begins with it at once.
    """
    path = (env or {}).get("PATH")
    if name == "embedded" or (name == "auto" and shutil.which("pulumi", path=path) is None):
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
