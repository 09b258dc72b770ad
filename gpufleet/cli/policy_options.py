"""Options of the commands that the policy pack judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SkipPolicies = Annotated[
    bool, typer.Option("--skip-policies", help="Do not judge the run by the policy pack of the checkout.")
]
PolicyConfig = Annotated[
    Path | None,
    typer.Option(
        "--policy-config", metavar="FILE", help="Levels and settings of rules, as Pulumi's policy config."
    ),
]
