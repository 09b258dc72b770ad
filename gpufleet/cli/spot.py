"""`gpufleet spot`: checkpoints and prices of spot capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.commands import CommandGroup
from gpufleet.cli.console import emit_json, out
from gpufleet.cli.html_file import HtmlFile
from gpufleet.cli.options_read import OptionReader
from gpufleet.economics.checkpoints import CheckpointPlan, checkpoint_plan
from gpufleet.spec.quantity import Duration

app = typer.Typer(
    cls=CommandGroup,
    help="Compute checkpoint intervals, compare spot with on-demand prices, and simulate jobs on spot.",
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


@app.command()
def simulate(
    instance_type: Annotated[str, typer.Option("--instance-type", help="Such as p5.48xlarge.")],
    region: Annotated[str, typer.Option("--region", help="Such as us-west-2.")],
    work: Annotated[str, typer.Option("--work", help="Computing time without interruptions: '72 h'.")],
    checkpoint: Checkpoint,
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes that run at the same time.")] = 1,
    interval: Annotated[
        str | None, typer.Option("--interval", help="Between checkpoints; default: Young's formula.")
    ] = None,
    restart: Annotated[
        str, typer.Option("--restart", help="From an interruption until the job computes again.")
    ] = "10 min",
    mtbf: Annotated[
        str | None, typer.Option("--mtbf", help="Mean time until one spot node is reclaimed: '48 h'.")
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", help="Mean wait for capacity after a reclaim; default 0.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            "--price", help="Spot, USD per node-hour: '12.98 USD/h'; default: the catalog's median."
        ),
    ] = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", help="CSV: time, price (USD per node-hour).", dir_okay=False)
    ] = None,
    history: Annotated[
        int | None, typer.Option("--history", help="Read this many days (1 to 90) of prices from EC2.")
    ] = None,
    zone: Annotated[str | None, typer.Option("--zone", help="The zone of --prices or --history.")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="The AWS profile of --history.")] = None,
    capacity: Annotated[
        Path | None, typer.Option("--capacity", help="CSV: time, nodes that can be had.", dir_okay=False)
    ] = None,
    max_price: Annotated[
        str | None, typer.Option("--max-price", help="Spot nodes are lost above it: '20 USD/h'.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", help="From the start, '96 h'; adds the change to on-demand.")
    ] = None,
    onprem_price: Annotated[
        str | None, typer.Option("--onprem-price", help="Own nodes, USD per node-hour, as `tco` computes it.")
    ] = None,
    gpu_hours_per_failure: Annotated[
        float | None, typer.Option("--gpu-hours-per-failure", help="Default 50677 (Llama 3).")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", help="Simulated runs.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")] = 0,
    html: HtmlFile = None,
    json: Json = False,
) -> None:
    """Simulate a job on spot, on-demand, a Capacity Block and own nodes: hours, cost and saving with spread.

    Interruptions are exponential (--mtbf) or from traces, which repeat and start at a random time. The saving
    is after overhead and may be negative.
    """
    from gpufleet.cli.spot_simulate import SimulationOptions, run

    run(
        SimulationOptions(
            instance_type=instance_type,
            region=region,
            work=work,
            nodes=nodes,
            checkpoint=checkpoint,
            interval=interval,
            restart=restart,
            mtbf=mtbf,
            wait=wait,
            price=price,
            prices=prices,
            history=history,
            zone=zone,
            profile=profile,
            capacity=capacity,
            max_price=max_price,
            deadline=deadline,
            onprem_price=onprem_price,
            gpu_hours_per_failure=gpu_hours_per_failure,
            runs=runs,
            seed=seed,
            html=html,
        ),
        json=json,
    )


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
