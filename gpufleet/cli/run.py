"""`gpufleet preview`, `up`, `refresh`, `destroy` and `outputs`: the commands that run an engine."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

from gpufleet.cli.console import emit_json, err, out, print_findings
from gpufleet.cli.context import Cloud, Workspace
from gpufleet.cli.progress import Progress
from gpufleet.engine.api import SECRET, Engine, RunResult, StackRequest, Verb
from gpufleet.errors import ExitCode, InputError

Environment = Annotated[
    str, typer.Argument(help="An environment (stacks/<env>/fleet.yaml) or the path of a fleet file.")
]
EngineOption = Annotated[
    str,
    typer.Option("--engine", help="embedded, pulumi (the Pulumi CLI), or auto: the CLI where it is on PATH."),
]
CloudOption = Annotated[
    str | None, typer.Option("--cloud", help="sandbox (emulated AWS) or aws; default: the stack's own.")
]
Parallel = Annotated[int, typer.Option("--parallel", min=1, max=256, help="Resources worked on at once.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (preview, up, refresh, destroy, outputs):
        app.command()(command)


def environment_name(workspace: Workspace) -> str:
    """The environment that a target names, without judging its fleet file: state outlives the file."""
    if workspace.target.endswith((".yaml", ".yml")):
        from gpufleet.spec.load import load_fleet

        return load_fleet(workspace.target, root=workspace.root).environment
    return workspace.target


def choose(engine: str, request: StackRequest) -> Engine:
    """The engine of that name; `auto` stays with the embedded engine where it already keeps the stack."""
    from gpufleet.engine.select import select_engine

    return select_engine("embedded" if engine == "auto" and request.state_file.exists() else engine)


class _Run:
    """One command on one stack: its engine, its request, and what it prints around the run."""

    def __init__(
        self, target: str, verb: Verb, engine: str, cloud: str | None, parallel: int, json: bool
    ) -> None:
        self.workspace = Workspace.open(target)
        self.verb: Verb = verb
        self.json = json
        self.name = environment_name(self.workspace)
        self.cloud: Cloud = self.workspace.cloud(self.name, cloud)
        self.engine = choose(engine, self.workspace.offline_request(self.name, self.cloud))
        self.parallel = parallel

    def request(self) -> StackRequest:
        return self.workspace.request(self.name, self.cloud, parallel=self.parallel)

    def header(self, request: StackRequest) -> None:
        """The first line: which engine and which cloud, before anything happens."""
        if self.json:
            return
        engine = (
            "embedded (Pulumi's protocol, no CLI)"
            if self.engine.name == "embedded"
            else "pulumi (the Pulumi CLI)"
        )
        cloud = (
            f"sandbox (emulated AWS at {request.env.get('AWS_ENDPOINT_URL', '?')}; no account, no cost)"
            if self.cloud == "sandbox"
            else "aws (a real account; resources cost money)"
        )
        out.print(
            f"[bold]gpufleet {self.verb} {self.name}[/bold]  engine: {engine}  cloud: {cloud}", soft_wrap=True
        )

    def plan(self) -> Any:
        """Validate and show the plan with its cost against the budget; SpecError on bad input."""
        from gpufleet.checks import validate
        from gpufleet.plan import build_plan
        from gpufleet.report.plan_text import print_summary

        validated = validate(self.workspace.target, root=self.workspace.root)
        fleet_plan = build_plan(validated.loaded.spec, validated.catalog)
        if not self.json:
            print_findings(validated.findings, err)
            print_summary(fleet_plan, out)
        return fleet_plan

    def execute(self, verb: Verb, request: StackRequest) -> RunResult:
        call = getattr(self.engine, verb)
        with Progress(out, verb, quiet=self.json) as progress:
            result: RunResult = call(request, progress.on_event)
        return result

    def finish(self, result: RunResult, extra: dict[str, Any] | None = None) -> int:
        """Print how it ended; the exit code that says the same."""
        from gpufleet.report.run_text import print_result, result_to_json

        if self.json:
            emit_json(result_to_json(result, self.cloud) | (extra or {}))
        else:
            print_result(result, self.name, self.cloud, out, err)
        if result.ok:
            return int(ExitCode.DONE)
        refused = any(violation.enforcement == "mandatory" for violation in result.violations)
        return int(ExitCode.REFUSED if refused else ExitCode.CLOUD_FAILURE)

    def confirm(self, question: str, yes: bool) -> None:
        """Ask before something changes; without a terminal `--yes` is required."""
        if yes:
            return
        if self.json or not out.is_terminal:
            raise InputError(f"{self.verb} asks before it changes anything", remedy="pass --yes")
        if not typer.confirm(question):
            raise typer.Abort


def _cost(fleet_plan: Any) -> dict[str, Any]:
    from gpufleet.plan.json import cost_to_json

    return {"cost": cost_to_json(fleet_plan.cost)}


def preview(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    json: Json = False,
) -> int:
    """Show what `up` would change, by site, and what the fleet costs a month."""
    run = _Run(environment, "preview", engine, cloud, parallel, json)
    request = run.request()
    run.header(request)
    fleet_plan = run.plan()
    return run.finish(run.execute("preview", request), _cost(fleet_plan))


def up(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Bring the cloud to what the fleet file says; asks first."""
    run = _Run(environment, "up", engine, cloud, parallel, json)
    request = run.request()
    run.header(request)
    fleet_plan = run.plan()
    if not yes:
        if json or not out.is_terminal:
            run.confirm("", yes)
        foreseen = run.execute("preview", request)
        run.finish(foreseen)
        if not foreseen.ok:
            return int(ExitCode.CLOUD_FAILURE)
        run.confirm("Go on with these changes?", yes)
    return run.finish(run.execute("up", request), _cost(fleet_plan))


def refresh(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Bring the state to what the cloud really is; changes nothing in the cloud."""
    run = _Run(environment, "refresh", engine, cloud, parallel, json)
    request = run.request()
    run.header(request)
    run.confirm("Write what the cloud says into the state?", yes)
    return run.finish(run.execute("refresh", request))


def destroy(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    parallel: Parallel = 16,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Delete everything that the stack created; asks first."""
    run = _Run(environment, "destroy", engine, cloud, parallel, json)
    request = run.request()
    run.header(request)
    run.confirm(f"Delete everything of {run.name} in cloud {run.cloud}?", yes)
    return run.finish(run.execute("destroy", request))


def outputs(
    environment: Environment,
    engine: EngineOption = "auto",
    cloud: CloudOption = None,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Print secret values.")] = False,
    json: Json = False,
) -> int:
    """Print the outputs of the last `up`."""
    workspace = Workspace.open(environment)
    name = environment_name(workspace)
    chosen = workspace.cloud(name, cloud)
    request = workspace.offline_request(name, chosen, show_secrets=show_secrets)
    values = dict(choose(engine, request).outputs(request))
    if json:
        emit_json(values)
        return int(ExitCode.DONE)
    if not values:
        out.print(f"{name} has no outputs in cloud {chosen}; run `gpufleet up {name}` first")
    for key, value in sorted(values.items()):
        shown = value if isinstance(value, str) else json_module.dumps(value, default=str)
        out.print(
            f"{key}: {shown}" + ("  (--show-secrets prints it)" if value == SECRET else ""), markup=False
        )
    return int(ExitCode.DONE)
