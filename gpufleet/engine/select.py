"""Which engine a run uses."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Literal

from gpufleet.engine.api import Engine
from gpufleet.engine.embedded import EmbeddedEngine
from gpufleet.errors import InputError

EngineName = Literal["auto", "embedded", "pulumi"]


def select_engine(name: str = "auto", env: Mapping[str, str] | None = None) -> Engine:
    """The engine of that name; `auto` is the Pulumi CLI where it is on PATH, else the embedded one.

    `env` is the environment of the run where it differs from this process's (PATH is looked at).
    """
    if name == "embedded":
        return EmbeddedEngine()
    if name == "auto" and shutil.which("pulumi", path=(env or {}).get("PATH")) is None:
        return EmbeddedEngine()
    if name in ("auto", "pulumi"):
        # Imported when asked for: the Automation API takes a third of a second to load.
        from gpufleet.engine.pulumi_cli import PulumiCliEngine

        return PulumiCliEngine()
    raise InputError(f"there is no engine '{name}'", remedy="the engines are 'embedded', 'pulumi' and 'auto'")
