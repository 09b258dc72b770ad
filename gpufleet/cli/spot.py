"""`gpufleet spot`: checkpoints and prices of spot capacity."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.commands import CommandGroup
from gpufleet.cli.console import emit_json, out
from gpufleet.cli.options_read import OptionReader
from gpufleet.economics.checkpoints import CheckpointPlan, checkpoint_plan
from gpufleet.spec.quantity import Duration

app = typer.Typer(
    cls=CommandGroup,
    help="Compute checkpoint intervals, and compare spot with on-demand prices.",
    rich_markup_mode=None,
)

Checkpoint = Annotated[str, typer.Option("--checkpoint", help="Time to write a checkpoint, such as '60s'.")]
Mtbf = Annotated[
    str, typer.Option("--mtbf", help="Mean time between failures or reclaims, such as '3.093h' or '2 d'.")
]
Restart = Annotated[
    str | None, typer.Option("--restart", help="Time from a failure until the job computes again; default 0.")
]


@app.command()
def interval(
    checkpoint: Checkpoint,
    mtbf: Mtbf,
    restart: Restart = None,
    json: Json = False,
) -> None:
    """Compute the best interval between checkpoints, and the time lost to checkpoints and failures.

    Young's formula; `waste_fraction` is the lost part of the time.
    """
    from gpufleet.economics.json import checkpoints_to_json
    from gpufleet.report.economics_text import show_checkpoints

    plan = _plan(checkpoint, mtbf, restart)
    if json:
        emit_json(checkpoints_to_json(plan))
    else:
        show_checkpoints(plan, out)


@app.command()
def compare(
    instance_type: Annotated[str, typer.Option("--instance-type", help="Such as p5.48xlarge.")],
    region: Annotated[str, typer.Option("--region", help="Such as us-west-2.")],
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Time to write a checkpoint; needs --mtbf.")
    ] = None,
    mtbf: Annotated[str | None, typer.Option("--mtbf", help="Mean time between reclaims.")] = None,
    restart: Restart = None,
    json: Json = False,
) -> None:
    """Compare spot with on-demand prices; with --checkpoint and --mtbf after the loss by interruptions.

    The saving may be negative. A type without a known spot price has no saving.
    """
    from gpufleet.economics.json import spot_to_json
    from gpufleet.economics.spot import compare_spot
    from gpufleet.errors import InputError
    from gpufleet.report.economics_text import show_spot

    if (checkpoint is None) != (mtbf is None) or (restart is not None and mtbf is None):
        raise InputError(
            "--checkpoint, --mtbf and --restart belong together", remedy="give --checkpoint and --mtbf"
        )
    plan = _plan(checkpoint, mtbf, restart) if checkpoint is not None and mtbf is not None else None
    found = compare_spot(checkout_catalog(), instance_type, region, checkpoints=plan)
    if json:
        emit_json(spot_to_json(found))
    else:
        show_spot(found, out)


def _plan(checkpoint: str, mtbf: str, restart: str | None) -> CheckpointPlan:
    read = OptionReader()
    writing = read.quantity(Duration, "--checkpoint", checkpoint)
    between = read.quantity(Duration, "--mtbf", mtbf)
    again = read.optional(Duration, "--restart", restart)
    read.finish()
    if writing is None or between is None:
        raise AssertionError("finish raises for what cannot be read")
    return checkpoint_plan(
        writing.delta.total_seconds(),
        between.delta.total_seconds(),
        restart_s=again.delta.total_seconds() if again else 0.0,
    )
