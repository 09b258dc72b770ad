"""Choice of the engine: by option, by the engine that has the stack, and by cloud."""

from __future__ import annotations

from gpufleet.engine.api import Engine, StackRequest
from gpufleet.errors import InputError
from gpufleet.workspace import Cloud


def choose_engine(name: str, request: StackRequest, cloud: Cloud) -> Engine:
    """Return the engine `name`.

    `auto` is the embedded engine if it already has the stack, and in the sandbox also if the Pulumi CLI has
    no backend.
    """
    from gpufleet.engine.select import cli_has_backend, select_engine

    if name == "auto" and (
        request.state_file.exists() or (cloud == "sandbox" and not cli_has_backend(request.project_root))
    ):
        name = "embedded"
    return select_engine(name, preload=request.preload)


def choose_engine_of_run(name: str, request: StackRequest, cloud: Cloud) -> Engine:
    """Return the engine of a run with providers. On a real account it is the Pulumi CLI.

    Raises InputError if the embedded engine has a stack of a real account, since the CLI would create all
    resources again.
    """
    from gpufleet.engine.select import select_engine

    if cloud == "sandbox":
        return choose_engine(name, request, cloud)
    engine = select_engine(name, real_account=True)
    if name == "auto" and request.state_file.exists():
        from gpufleet.engine.embedded.stored_state import load_state

        if load_state(request.state_file).replayed.resources:
            stack = request.stack
            raise InputError(
                f"the embedded engine has the stack {stack} ({request.state_file}), but a real account "
                "needs the Pulumi CLI",
                remedy=f"move it: `gpufleet state export {stack} --cloud {cloud} >{stack}.json`, "
                f"`pulumi stack init {stack}`, `pulumi stack import -s {stack} --file {stack}.json`; then "
                f"rename {request.state_file.name}",
            )
    return engine
