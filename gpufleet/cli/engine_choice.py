"""Which engine a command uses: what was asked for, who keeps the stack already, and a real account."""

from __future__ import annotations

from gpufleet.engine.api import Engine, StackRequest
from gpufleet.errors import InputError
from gpufleet.workspace import Cloud


def choose_engine(name: str, request: StackRequest) -> Engine:
    """The engine of that name; `auto` stays with the embedded engine where it already keeps the stack."""
    from gpufleet.engine.select import select_engine

    name = "embedded" if name == "auto" and request.state_file.exists() else name
    return select_engine(name, preload=request.preload)


def choose_engine_of_run(name: str, request: StackRequest, cloud: Cloud) -> Engine:
    """The engine of a run that asks providers; on a real account it is the Pulumi CLI.

    Raises InputError where the embedded engine keeps a stack of a real account: the CLI would make
    everything a second time.
    """
    from gpufleet.engine.select import select_engine

    if cloud == "sandbox":
        return choose_engine(name, request)
    engine = select_engine(name, real_account=True)
    if name == "auto" and request.state_file.exists():
        from gpufleet.engine.embedded.stored_state import load_state

        if load_state(request.state_file).replayed.resources:
            stack = request.stack
            raise InputError(
                f"the embedded engine keeps the stack {stack} ({request.state_file}), and a real account "
                "runs on the Pulumi CLI",
                remedy=f"hand it over: `gpufleet state export {stack} --cloud {cloud} >{stack}.json`, "
                f"`pulumi stack init {stack}`, `pulumi stack import -s {stack} --file {stack}.json`; then "
                f"move {request.state_file.name} away",
            )
    return engine
