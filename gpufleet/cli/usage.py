"""`gpufleet usage`: who used which GPU-hours, and what they cost."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.console import emit_json, err, out
from gpufleet.cli.html_file import HtmlFile, require_own_page
from gpufleet.errors import InputError
from gpufleet.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(usage)


def now() -> dt.datetime:
    """Return the current time in UTC."""
    return dt.datetime.now(tz=dt.UTC)


def usage(
    environment: Environment,
    sacct: Annotated[
        list[Path] | None, typer.Option("--sacct", help="Output of sacct --parsable2. Can be repeated.")
    ] = None,
    pods: Annotated[
        Path | None, typer.Option("--pods", help="Output of kubectl get pods -A -o json.", dir_okay=False)
    ] = None,
    cur: Annotated[
        list[Path] | None,
        typer.Option("--cur", help="Files or folder of AWS's CUR 2.0, Parquet or CSV. Can be repeated."),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option("--site", help="The site of --sacct or --pods, if several have the scheduler."),
    ] = None,
    tag_team: Annotated[str, typer.Option("--tag-team", help="The tag of AWS with the team.")] = "team",
    tag_project: Annotated[str, typer.Option("--tag-project", help="That with the project.")] = "project",
    tag_experiment: Annotated[
        str, typer.Option("--tag-experiment", help="That with the experiment.")
    ] = "experiment",
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write the allocations to this file.", dir_okay=False)
    ] = None,
    html: HtmlFile = None,
    json: Json = False,
) -> None:
    """Allocate GPU-hours and cost to teams, projects and experiments, with idle and lost hours and advice.

    Reads files of Slurm's accounting, of Kubernetes and of AWS's Cost and Usage Report 2.0. Jobs on racks
    have the price of their site in `cost`; unknown prices are shown and never count as 0.
    """
    from gpufleet.checks import validate
    from gpufleet.economics.usage import UsageReport
    from gpufleet.economics.usage_json import usage_to_csv, usage_to_json
    from gpufleet.economics.usage_sites import find_site, gpu_hour_price, report_jobs
    from gpufleet.files import write_atomically
    from gpufleet.plan.models import CloudSitePlan
    from gpufleet.report.economics_usage import show_usage

    if not (sacct or pods or cur):
        raise InputError("no usage to read", remedy="give --sacct, --pods or --cur with a file")
    if sacct and pods and site is not None:
        raise InputError("--site is for one of --sacct and --pods", remedy="read them one at a time")
    if html is not None:
        require_own_page(html)
    workspace = Workspace.open(environment)
    fleet = validate(workspace.target, root=workspace.root, bought=workspace.bought_blocks)
    regions = [each.region for each in fleet.plan.cloud]
    region = regions[0] if regions else None
    report = UsageReport(())
    for path in sacct or ():
        from gpufleet.economics.sacct import read_sacct

        place = find_site(fleet.plan, site, "slurm")
        gpu = "" if isinstance(place, CloudSitePlan) else place.gpu
        price = gpu_hour_price(place, fleet.cost)
        jobs = read_sacct(path, place.site, gpu)
        report = report.merged(report_jobs(jobs, place, price, fleet.catalog, str(path), region))
    if pods:
        from gpufleet.economics.pods import read_pods

        place = find_site(fleet.plan, site, "kubernetes")
        price = gpu_hour_price(place, fleet.cost)
        jobs = read_pods(pods, place.site, now())
        report = report.merged(report_jobs(jobs, place, price, fleet.catalog, str(pods), region))
    if cur:
        from gpufleet.economics.cur import read_cur
        from gpufleet.economics.cur_tags import TagNames

        gpus = {name: item.gpu_count for name, item in fleet.catalog.instances.items() if item.gpu_count}
        report = report.merged(read_cur(cur, gpus, TagNames(tag_team, tag_project, tag_experiment)))
    if csv is not None:
        write_atomically(csv, usage_to_csv(report))
    if html is not None:
        from gpufleet.report.economics_pages import usage_page

        write_atomically(html, usage_page(report, fleet.plan.environment))
    if json:
        emit_json(usage_to_json(report))
        return
    show_usage(report, out)
    for written in (csv, html):
        if written is not None:
            err.print(f"written: {written}", soft_wrap=True)
