"""Options of commands that evaluate the policy pack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SkipPolicies = Annotated[
    bool, typer.Option("--skip-policies", help="Do not evaluate the policy pack of the checkout.")
]


def _readable(file: Path | None) -> Path | None:
    """Return the file after reading it, so that its errors are reported before the run starts."""
    if file is not None:
        from gpufleet.engine.policy_config import read_policy_config

        read_policy_config(file)
    return file


PolicyConfig = Annotated[
    Path | None,
    typer.Option(
        "--policy-config",
        metavar="FILE",
        help="Levels and settings of rules, as Pulumi's policy config.",
        callback=_readable,
    ),
]
