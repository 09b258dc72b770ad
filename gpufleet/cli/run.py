"""`gpufleet preview`, `up`, `refresh`, `destroy` and `outputs`: the commands that run an engine."""

from __future__ import annotations

from typing import Annotated

import typer

from gpufleet.cli.arguments import CloudOption, EngineOption, Environment, Json
from gpufleet.cli.console import emit_json, err, out
from gpufleet.cli.engine_choice import choose_engine
from gpufleet.cli.hints import complete_hints
from gpufleet.cli.policy_options import PolicyConfig, SkipPolicies
from gpufleet.cli.preflight import refuse_missing, start_preflight
from gpufleet.cli.run_shown import finish, show_preview
from gpufleet.cli.stack_run import RunOptions, StackRun, state_summary
from gpufleet.errors import ExitCode
from gpufleet.workspace import Workspace

Parallel = Annotated[
    int, typer.Option("--parallel", min=1, max=256, help="Parallel operations on resources.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
SkipPreflight = Annotated[
    bool, typer.Option("--skip-preflight", help="Do not check the account before the changes.")
]
AllowDataLoss = Annotated[
    bool,
    typer.Option("--allow-data-loss", help="Allow the deletion of file systems and buckets with their data."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print a line for each resource, and the outputs.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (preview, up, refresh, destroy, outputs):
        app.command()(command)


def preview(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    skip_policies: SkipPolicies = False,
    policy_config: PolicyConfig = None,
    json: Json = False,
) -> int:
    """Show the changes of `up` by site, and violated policy rules.

    Also shows the monthly cost of each site and the budget. Changes nothing. Exit code 1: a mandatory rule is
    violated.
    """
    options = RunOptions(
        environment,
        engine,
        cloud,
        parallel,
        json=json,
        skip_policies=skip_policies,
        policy_config=policy_config,
    )
    run = StackRun("preview", options)
    _ = run.plan
    run.introduce()
    run.show_findings()
    return finish(run, run.execute("preview"))


def up(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    yes: Yes = False,
    skip_policies: SkipPolicies = False,
    policy_config: PolicyConfig = None,
    allow_data_loss: AllowDataLoss = False,
    skip_preflight: SkipPreflight = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Create and change cloud resources according to the fleet file.

    Shows a preview and asks for confirmation, unless --yes is set. Before any change it stops if a mandatory
    policy rule is violated, if the account lacks what the fleet needs now (`gpufleet preflight`), if storage
    would be deleted or replaced without --allow-data-loss, or if a reservation would be replaced.
    """
    options = RunOptions(
        environment,
        engine,
        cloud,
        parallel,
        yes,
        json,
        skip_policies,
        policy_config,
        allow_data_loss,
        verbose,
    )
    run = StackRun("up", options)
    _ = run.plan
    run.introduce()
    run.show_findings()
    account = None if skip_preflight else start_preflight(run)
    if yes:
        run.show_plan()
        if run.needs_preview:
            foreseen = run.execute("preview")
            if not foreseen.result.ok:
                return finish(run, foreseen)
            run.refuse_data_loss(foreseen)
        refuse_missing(run, account)
    else:
        foreseen = run.execute("preview")
        if not foreseen.result.ok:
            return finish(run, foreseen)
        show_preview(run, foreseen)
        run.refuse_data_loss(foreseen)
        refuse_missing(run, account)
        if foreseen.result.changes.total:
            run.confirm("Apply these changes?")
    return finish(run, run.execute("up"))


def refresh(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    yes: Yes = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Update the state from the cloud. Exit code 1: drift was found.

    Changes nothing in the cloud. Asks for confirmation, unless --yes is set.
    """
    run = StackRun("refresh", RunOptions(environment, engine, cloud, parallel, yes, json, verbose=verbose))
    run.introduce()
    run.confirm("Update the state from the cloud?")
    return finish(run, run.execute("refresh"))


def destroy(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    yes: Yes = False,
    allow_data_loss: AllowDataLoss = False,
    verbose: Verbose = False,
    json: Json = False,
) -> int:
    """Delete all resources of the stack.

    Lists them and asks for confirmation, unless --yes is set. A stack with file systems or buckets is
    destroyed only with --allow-data-loss.
    """
    options = RunOptions(
        environment, engine, cloud, parallel, yes, json, allow_data_loss=allow_data_loss, verbose=verbose
    )
    run = StackRun("destroy", options)
    run.introduce()
    counts = state_summary(run)
    run.refuse_destroying_data(counts)
    if not yes:
        for kind, count in sorted(counts.items()):
            out.print(f"  {count:>4} {kind}", markup=False)
        run.confirm(f"Delete all {sum(counts.values())} resources of {run.name} in cloud {run.cloud}?")
    return finish(run, run.execute("destroy"))


def outputs(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Print secret values.")] = False,
    json: Json = False,
) -> int:
    """Print the outputs of the last `up`."""
    from gpufleet.report.run_text import print_outputs

    workspace = Workspace.open(environment)
    name = workspace.environment()
    chosen = workspace.cloud(name, cloud)
    request = workspace.offline_request(name, chosen, show_secrets=show_secrets)
    values = dict(choose_engine(engine, request, chosen).outputs(request))
    if json:
        emit_json(values)
    elif values:
        print_outputs(values, out)
    else:
        err.print(
            complete_hints(f"{name} has no outputs in cloud {chosen}; run `gpufleet up` first"), markup=False
        )
    return int(ExitCode.DONE)
