"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli import completion

ENVIRONMENT_HELP = "An environment (stacks/<env>/fleet.yaml) or the path of a fleet file."

Environment = Annotated[str, typer.Argument(help=ENVIRONMENT_HELP, autocompletion=completion.environments)]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        help="embedded, pulumi (the Pulumi CLI), or auto: the CLI if it is on PATH and has a backend. A real "
        "account needs the CLI.",
        autocompletion=completion.engines,
    ),
]
CloudOption = Annotated[
    str | None,
    typer.Option(
        "--cloud",
        help="sandbox (emulated AWS) or aws; default: the stack's setting.",
        autocompletion=completion.clouds,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
PreviewEngine = Annotated[
    str, typer.Option("--engine", help="embedded: no account, no network; pulumi: a real preview.")
]
PreviewCloud = Annotated[
    str | None,
    typer.Option("--cloud", help="With --engine pulumi: sandbox or aws; default: the stack's setting."),
]
