"""`gpufleet budget`: the budget in AWS, and node groups that its breach stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpufleet.cli.arguments import CloudOption, Environment, Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, note, out
from gpufleet.cli.state_repair import Yes, confirm
from gpufleet.errors import InputError
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.account.stopped_groups import Breach, StoppedGroups

app = new_app(
    help="Show what AWS counts of a budget; let stopped node groups grow again.", no_args_is_help=True
)


@app.command()
def show(environment: Environment, cloud: CloudOption = None, json: Json = False) -> None:
    """Show this month's spending of the cloud, and the node groups that a breach stopped."""
    name, _, breach = _read(environment, cloud)
    if json:
        emit_json(_document(breach))
        return
    out.print(f"{name}: {breach.spent:,.2f} of {breach.limit:,.2f} USD are spent this month (AWS Budgets)")
    for cap, (spent, limit) in breach.caps.items():
        out.print(f"  {cap}: {spent:,.2f} of {limit:,.2f} USD", markup=False)
    for group, most in sorted(breach.before.items()):
        out.print(f"  {group} grows no more since {breach.since}; its maximum was {most}", markup=False)
    if breach.before:
        note(f"`gpufleet budget resume {name}` lets them grow again")


@app.command()
def resume(
    environment: Environment,
    cloud: CloudOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also while the budget is spent; its next alert stops them again.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Let stopped node groups grow again, up to the maxima of the fleet file."""
    name, groups, breach = _read(environment, cloud)
    if not breach.before:
        if json:
            emit_json(_document(breach) | {"resumed": {}})
        else:
            out.print(f"{name}: no node group is stopped", markup=False)
        return
    if breach.is_spent and not force:
        said = "; ".join(
            f"{f'{cap}: ' if cap else ''}{spent:,.2f} of {limit:,.2f} USD are spent"
            for cap, (spent, limit) in breach.spent_budgets.items()
        )
        raise InputError(
            f"{said}: the next alert would stop the groups again",
            remedy=f"raise the budget in the fleet file and run `gpufleet up {name}`, wait for the next "
            "month, or pass --force",
        )
    confirm(
        f"Let {', '.join(sorted(breach.before))} grow again?",
        yes=yes,
        json=json,
        what="a change of the account",
    )
    done = groups.resume(breach)
    if json:
        emit_json(_document(breach) | {"resumed": done})
        return
    for group, most in sorted(done.items()):
        out.print(f"  {group}: up to {most} nodes", markup=False)
    note(f"next: `gpufleet refresh {name}`, then `gpufleet up {name}` for sizes that changed meanwhile")


def _read(environment: str, cloud: str | None) -> tuple[str, StoppedGroups, Breach]:
    from gpufleet.account.stopped_groups import StoppedGroups
    from gpufleet.checks import validate

    workspace = Workspace.open(environment)
    name = workspace.environment()
    plan = validate(workspace.target, root=workspace.root, bought=None).plan
    if not plan.cloud:
        raise InputError(
            f"{name} has no cloud site, so AWS has no budget of it", remedy="see `gpufleet plan`"
        )
    client, account = _access(workspace, name, workspace.cloud(name, cloud))
    groups = StoppedGroups(plan, account, client)
    return name, groups, groups.breach()


def _access(workspace: Workspace, name: str, cloud: str) -> tuple[Any, str]:
    """Return clients by service and region, and the account."""
    import boto3

    if cloud == "sandbox":
        from gpufleet.lab_extra import sandbox_access

        _, arguments = sandbox_access(workspace.root)
        session, extra = boto3.Session(), dict(arguments)
    else:
        from gpufleet.cli.account import require_account

        profile = workspace.stack_config(name, plain_only=True).get("aws:profile")
        require_account((), profile)
        session, extra = boto3.Session(profile_name=profile), {}
    made: dict[tuple[str, str], Any] = {}

    def client(service: str, region: str) -> Any:
        if (service, region) not in made:
            made[service, region] = session.client(service, region_name=region, **extra)
        return made[service, region]

    return client, str(client("sts", "us-east-1").get_caller_identity()["Account"])


def _document(breach: Breach) -> dict[str, Any]:
    return {
        "spent": float(breach.spent),
        "limit": float(breach.limit),
        "since": breach.since,
        "stopped": dict(breach.before),
        "caps": {
            name: {"spent": float(spent), "limit": float(limit)}
            for name, (spent, limit) in breach.caps.items()
        },
    }
