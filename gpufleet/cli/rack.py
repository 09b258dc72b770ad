"""`gpufleet rack`: a rack in a box on this machine, for trials and tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpufleet.cli import completion
from gpufleet.cli.arguments import Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, err, out
from gpufleet.errors import InputError
from gpufleet.files import user_cache
from gpufleet.workspace import Workspace, find_root

if TYPE_CHECKING:
    from gpufleet.lab.rack import HostStatus, Rack, RackSite
    from gpufleet.plan.models import FleetPlan

app = new_app(
    help="Start and remove a rack in a box: the hosts of a rack site as containers on this machine.",
    no_args_is_help=True,
)
Environment = Annotated[
    str | None,
    typer.Argument(
        help="An environment or the path of a fleet file; default: 2 controllers, a login host, 4 GPU nodes.",
        autocompletion=completion.environments,
    ),
]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        help="Without a fleet file: slurm, or kubernetes (3 controllers, 2 GPU nodes).",
    ),
]
FLEETS = {"slurm": "fleet.yaml", "kubernetes": "kubernetes.yaml"}
Site = Annotated[str | None, typer.Option("--site", help="The rack site; default: the first.")]


def _folder() -> Path:
    return find_root() / ".gpufleet" / "rack"


@app.command()
def up(
    environment: Environment = None, site: Site = None, scheduler: Scheduler = "", json: Json = False
) -> None:
    """Start the rack and boot all hosts. A running rack is not changed."""
    from gpufleet.lab.rack import Kit, require, start_rack

    chosen, plan = _site(environment, site, scheduler)
    require()
    root = find_root()

    def on_step(line: str) -> None:
        err.print(f"rack: {line}", markup=False)

    rack = start_rack(_folder(), chosen, user_cache("rack"), Kit.of(root), on_step)
    _show(rack, rack.status(), json)
    if not json:
        _show_next(environment or _default(scheduler), rack, plan)


def _show_next(fleet: str, rack: Rack, plan: FleetPlan) -> None:
    """Print the commands from these hosts to a first job."""
    from gpufleet.report.first_job import first_jobs

    lines = [
        'export GPUFLEET_VAULT_PASSWORD="$(openssl rand -base64 24)"',
        f"gpufleet secrets new {fleet}",
        f"gpufleet configure {fleet} --ssh-config {rack.record.ssh_config}",
    ]
    for job in first_jobs(plan):
        if job.site == rack.site.site:
            lines.append(f"gpufleet rack ssh {job.host} sudo -iu {job.user} {job.command}")
    out.print("next:")
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)


@app.command()
def status(json: Json = False) -> None:
    """List the hosts with their address, state and role."""
    from gpufleet.lab.rack import Rack

    rack = Rack.find(_folder())
    _show(rack, rack.status() if rack else [], json)


@app.command()
def down(json: Json = False) -> None:
    """Remove the rack with its network, mounts, processes and files. Downloads are kept."""
    from gpufleet.lab.rack import take_down

    removed = take_down(_folder())
    if json:
        emit_json({"removed": removed, "hosts": []})
    else:
        out.print("rack: removed" if removed else "rack: none was running")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def ssh(
    host: Annotated[str, typer.Argument(help="The name of a host.")],
    command: Annotated[list[str] | None, typer.Argument(help="A command; default: a shell.")] = None,
) -> None:
    """Log in to a host, or run a command on it."""
    from gpufleet.lab.rack import Rack

    rack = Rack.find(_folder())
    if rack is None:
        raise InputError("no rack is running", remedy="run `gpufleet rack up` first")
    words = rack.ssh_command(host, *(command or []))
    os.execvp(words[0], words)  # noqa: S606 - ssh takes the place of this process


def _default(scheduler: str) -> str:
    """Return the path of the fleet file that is used without one: that of this checkout if it is the same."""
    from importlib.resources import files

    name = FLEETS[scheduler or "slurm"]
    used = Path(str(files("gpufleet.lab.rack") / name))
    own = find_root() / "gpufleet" / "lab" / "rack" / name
    path = own if own.is_file() and own.read_bytes() == used.read_bytes() else used
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _site(environment: str | None, site: str | None, scheduler: str) -> tuple[RackSite, FleetPlan]:
    from importlib.resources import as_file, files

    from gpufleet.checks import validate
    from gpufleet.lab.rack import rack_site

    if scheduler and scheduler not in FLEETS:
        raise InputError(f"unknown scheduler {scheduler!r}", remedy=f"use one of {', '.join(FLEETS)}")
    if scheduler and environment:
        raise InputError(
            f"{environment} already declares the scheduler, so --scheduler {scheduler} is not allowed",
            remedy="remove one of them",
        )
    with as_file(files("gpufleet.lab.rack") / FLEETS[scheduler or "slurm"]) as default:
        workspace = Workspace.open(environment or str(default))
        validated = validate(workspace.target, root=workspace.root, bought=None)
    return rack_site(validated.plan, site), validated.plan


def _show(rack: Rack | None, hosts: list[HostStatus], json: bool) -> None:
    if json:
        emit_json(_document(rack, hosts))
        return
    if rack is None:
        out.print("rack: none; `gpufleet rack up` starts one")
        return
    for host in hosts:
        out.print(f"{host.name:<12} {host.address:<15} {host.role:<11} {host.state}", markup=False)
    out.print(f"ssh configuration: {rack.record.ssh_config}", markup=False, soft_wrap=True)


def _document(rack: Rack | None, hosts: list[HostStatus]) -> dict[str, Any]:
    """The stable contract: `hosts[]` with name, address, state and role."""
    document: dict[str, Any] = {"up": rack is not None}
    if rack is not None:
        document |= {
            "site": rack.site.site,
            "ssh_config": str(rack.record.ssh_config),
            "environment": rack.environment(),
        }
    return document | {
        "hosts": [
            {"name": host.name, "address": host.address, "state": host.state, "role": host.role}
            for host in hosts
        ]
    }
