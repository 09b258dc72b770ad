"""`gpufleet advise`: the places of a fleet where a job can run, ranked."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.arguments import ENVIRONMENT_HELP, Json
from gpufleet.cli.console import emit_json, err, out
from gpufleet.cli.html_file import HtmlFile, require_own_page
from gpufleet.cli.options_read import OptionReader
from gpufleet.spec.quantity import Money
from gpufleet.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(advise)


def now() -> dt.datetime:
    """Return the current time in UTC."""
    return dt.datetime.now(tz=dt.UTC)


def advise(
    job: Annotated[Path, typer.Argument(help="The job file.", dir_okay=False)],
    environment: Annotated[str, typer.Option("--env", "-e", help=ENVIRONMENT_HELP)] = "prod",
    budget_left: Annotated[
        str | None, typer.Option("--budget-left", help="What may still be spent: '9000 USD'.")
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add", help="A GPU that the fleet could add, such as H200. Default: those of the job."
        ),
    ] = None,
    mfu: Annotated[float | None, typer.Option("--mfu", help="Model FLOPs utilization; default 0.4.")] = None,
    runs: Annotated[int, typer.Option("--runs", help="Simulated runs of each place.")] = 2_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")] = 0,
    everything: Annotated[bool, typer.Option("--all", help="List every place that is not possible.")] = False,
    html: HtmlFile = None,
    json: Json = False,
) -> None:
    """Rank the places where a job can run: start, finish and cost with their spread, or why not.

    Node groups and sites of the fleet, instance types that it could add, and places of the job file. Data
    residency, deadline and budget of the job file are respected.
    """
    from gpufleet.checks import validate
    from gpufleet.economics.advice import RESTART_S, Limits
    from gpufleet.economics.advice import advise as find_places
    from gpufleet.economics.advice_json import advice_to_json
    from gpufleet.economics.candidates import START_H, candidates
    from gpufleet.economics.job_file import load_job
    from gpufleet.economics.json import Assumption, assumptions_to_json
    from gpufleet.economics.training import GPU_HOURS_PER_FAILURE, MFU
    from gpufleet.errors import InputError
    from gpufleet.report.economics_advice import show_advice

    read = OptionReader()
    left = read.optional(Money, "--budget-left", budget_left)
    read.finish()
    if mfu is not None and not 0 < mfu <= 1:
        raise InputError(f"--mfu: {mfu:g} is not above 0 and at most 1", remedy="write --mfu 0.4")
    if html is not None:
        require_own_page(html)
    wanted = load_job(job)
    workspace = Workspace.open(environment)
    fleet = validate(workspace.target, root=workspace.root, bought=workspace.bought_blocks)
    known = {gpu.casefold(): gpu for gpu in fleet.catalog.gpus}
    named = list(add or ())
    if wanted.training is not None:
        named += wanted.training.gpu_types
    if wanted.serving is not None:
        named += [gpu for model in wanted.serving.models for gpu in model.measured]
    own = {place.gpu.casefold() for place in wanted.places}
    unknown = [gpu for gpu in named if gpu.casefold() not in known and gpu.casefold() not in own]
    if unknown:
        raise InputError(
            f"unknown GPU {unknown[0]!r}", remedy=f"write one of {', '.join(known.values())}, or add a place"
        )
    gpus = [known[gpu.casefold()] for gpu in named if gpu.casefold() in known]
    places = candidates(fleet.plan, fleet.cost, fleet.catalog, wanted.places, gpus, now())
    rest = (
        None if left is not None else max(0.0, float(fleet.plan.budget.monthly - fleet.cost.total.expected))
    )
    limits = Limits(
        None if left is None else float(left.amount), runs, seed, MFU if mfu is None else mfu, rest
    )
    found = find_places(wanted, places, limits, job.parent)
    assumed = [Assumption("start of cloud nodes", f"{START_H * 60:g} min", "no source: capacity decides")]
    training = wanted.training
    if training is not None and rest is not None:
        source = "fleet file: budget.monthly less the expected cost of the plan; --budget-left replaces it"
        assumed.append(Assumption("budget left", f"{rest:,.0f} USD a month", source))
    if training is not None:
        text = "Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100"
        assumed.append(Assumption("GPU-hours per failure", f"{GPU_HOURS_PER_FAILURE:g}", text))
        if training.restart is None:
            assumed.append(
                Assumption("restart", f"{RESTART_S / 60:g} min", "no source: enter what you measured")
            )
        if training.work is None and mfu is None:
            assumed.append(Assumption("MFU", f"{MFU:g}", 'Llama 3 405B ("The Llama 3 Herd of Models")'))
    if html is not None:
        from gpufleet.files import write_atomically
        from gpufleet.report.economics_pages import advice_page

        write_atomically(html, advice_page(wanted, found, assumed))
    if json:
        emit_json(advice_to_json(wanted, found) | {"assumptions": assumptions_to_json(assumed)})
    else:
        show_advice(wanted, found, assumed, out, everything=everything)
        if html is not None:
            err.print(f"written: {html}", soft_wrap=True)
