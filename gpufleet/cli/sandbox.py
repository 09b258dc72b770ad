"""`gpufleet sandbox`: the emulated AWS of this checkout."""

from __future__ import annotations

import functools

from gpufleet.cli.arguments import Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, is_quiet, out
from gpufleet.cli.sandbox_faults import faults
from gpufleet.cli.waiting import sandbox_start
from gpufleet.workspace import Workspace, find_root

app = new_app(
    help="Start, stop and reset the emulated AWS of this checkout: no account, no network, no cost.",
    no_args_is_help=True,
)


def _workspace() -> Workspace:
    return Workspace(find_root(), "sandbox")


@app.command()
def start(json: Json = False) -> None:
    """Start the emulated AWS and print its address."""
    from gpufleet.lab_extra import require_lab

    require_lab()
    from gpufleet.lab.aws import daemon

    workspace = _workspace()
    shown = functools.partial(sandbox_start, workspace.local, quiet=json or is_quiet())
    endpoint = daemon.ensure(workspace.sandbox_root, while_starting=shown)
    if json:
        emit_json({"running": True, "url": endpoint.url, "pid": endpoint.pid})
    else:
        out.print(f"emulated AWS: {endpoint.url} (process {endpoint.pid})")


@app.command()
def status(json: Json = False) -> None:
    """Print whether the emulated AWS runs, and its address."""
    from gpufleet.lab.aws import daemon

    endpoint = daemon.status(_workspace().sandbox_root)
    if json:
        emit_json(
            {"running": endpoint is not None}
            | ({"url": endpoint.url, "pid": endpoint.pid} if endpoint is not None else {})
        )
    elif endpoint is None:
        out.print("emulated AWS: not running; its resources are kept, and the next command starts it")
    else:
        out.print(f"emulated AWS: {endpoint.url} (process {endpoint.pid})")


@app.command()
def stop(json: Json = False) -> None:
    """Stop the emulated AWS. Its resources are kept for the next command."""
    from gpufleet.lab.aws import daemon

    stopped = daemon.stop(_workspace().sandbox_root)
    if json:
        emit_json({"stopped": stopped})
    else:
        out.print("emulated AWS: stopped, its state is kept" if stopped else "emulated AWS: was not running")


@app.command()
def reset(json: Json = False) -> None:
    """Delete the resources of the emulated AWS and the states of its stacks."""
    from gpufleet.engine.embedded.forget import forget_states
    from gpufleet.lab.aws import daemon

    workspace = _workspace()
    forgotten = forget_states(workspace.local / "state" / "sandbox")
    daemon.reset(workspace.sandbox_root)
    if json:
        emit_json({"reset": True, "states_forgotten": forgotten})
    else:
        out.print(f"emulated AWS: reset; {len(forgotten)} stack states deleted")


app.command()(faults)
