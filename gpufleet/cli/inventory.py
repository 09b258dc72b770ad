"""`gpufleet inventory`: the Ansible inventory of an environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gpufleet.cli import completion
from gpufleet.cli.arguments import Environment
from gpufleet.cli.console import emit_json, emit_text, err
from gpufleet.errors import ExitCode, GpufleetError
from gpufleet.plan.models import FleetPlan
from gpufleet.workspace import Workspace

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The file to write; default: standard output.")
]
CloudOption = Annotated[
    str | None,
    typer.Option(
        "--cloud",
        help="The cloud of the stack with the cloud nodes; default: the stack's setting.",
        autocompletion=completion.clouds,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of YAML.")]


_MANY = 10_000


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(inventory)


def inventory(
    environment: Environment, output: Output = None, cloud: CloudOption = None, json: Json = False
) -> int:
    """Write the Ansible inventory: rack hosts, and running cloud nodes of Slurm sites."""
    from gpufleet.checks import validate
    from gpufleet.files import write_atomically
    from gpufleet.racks.inventory import build_inventory
    from gpufleet.racks.inventory_text import group_members, render

    workspace = Workspace.open(environment)
    validated = validate(workspace.target, root=workspace.root, bought=None)
    plan = validated.plan
    step = _steps(sum(len(site.hosts) for site in plan.host_sites()))
    step("groups and variables")
    outputs, left_out = _stack_outputs(workspace, plan, cloud)
    document = build_inventory(plan, validated.catalog, outputs)
    groups = group_members(document)
    entries = sum(map(len, groups.values()))
    text = render(document, lambda done: step(f"written {done:,} of about {entries:,} entries"))
    if output is not None:
        write_atomically(output, text)
    if json:
        emit_json(
            {
                "environment": plan.environment,
                "file": None if output is None else str(output),
                "hosts": len(groups["all"]),
                "groups": groups,
                "cloud_nodes_left_out": left_out,
                "inventory": document,
            }
        )
        return int(ExitCode.DONE)
    if output is None:
        emit_text(text)
    else:
        err.print(f"{output}: {len(groups['all'])} hosts in {len(groups) - 1} groups", markup=False)
    if left_out:
        err.print(f"cloud nodes are omitted: {left_out}", markup=False, soft_wrap=True)
    return int(ExitCode.DONE)


def _steps(hosts: int) -> Callable[[str], None]:
    """Return a function that prints steps on stderr if there are so many hosts that it takes seconds."""
    started = time.monotonic()

    def step(text: str) -> None:
        if hosts >= _MANY:
            err.print(
                f"[{time.monotonic() - started:4.1f} s] {hosts:,} hosts: {text}", markup=False, style="dim"
            )

    return step


def _stack_outputs(
    workspace: Workspace, plan: FleetPlan, cloud: str | None
) -> tuple[Mapping[str, Any], str | None]:
    """Return the stack's outputs, or none and the reason, since racks do not need a cloud."""
    if not any(site.scheduler == "slurm" for site in plan.cloud):
        return {}, None
    from gpufleet.cli.stack_outputs import stack_outputs
    from gpufleet.racks.cloud_nodes import OUTPUT

    try:
        outputs = stack_outputs(workspace, plan, cloud)
    except GpufleetError as error:
        return {}, error.message
    return outputs, None if OUTPUT in outputs else f"the stack has no output {OUTPUT!r} yet"
