"""Options of the commands that the policy pack judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SkipPolicies = Annotated[
    bool, typer.Option("--skip-policies", help="Do not judge the run by the policy pack of the checkout.")
]


def _readable(file: Path | None) -> Path | None:
    """The file, which was read: what is wrong with it is said before anything is started."""
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
