"""`gpufleet budget`: the budget in AWS, and node groups that its breach stopped or drains."""

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
    from gpufleet.account.drained_groups import Drain
    from gpufleet.account.stopped_groups import Breach, StoppedGroups

app = new_app(
    help="Show what AWS counts of a budget; let stopped node groups grow again.", no_args_is_help=True
)


@app.command()
def show(environment: Environment, cloud: CloudOption = None, json: Json = False) -> None:
    """Show this month's spending of the cloud, and the node groups that a breach stopped or drains."""
    name, _, breach = _read(environment, cloud)
    if json:
        emit_json(_document(breach))
        return
    out.print(f"{name}: {breach.spent:,.2f} of {breach.limit:,.2f} USD are spent this month (AWS Budgets)")
    for cap, (spent, limit) in breach.caps.items():
        out.print(f"  {cap}: {spent:,.2f} of {limit:,.2f} USD", markup=False)
    for group, most in sorted(breach.before.items()):
        out.print(f"  {group} grows no more since {breach.since}; its maximum was {most}", markup=False)
    for group, drain in sorted(breach.drained.items()):
        out.print(f"  {_draining(group, drain)}", markup=False)
    if breach.acts:
        note(f"`gpufleet budget resume {name}` {'ends that' if breach.drained else 'lets them grow again'}")


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
    """Let stopped node groups grow again, up to the fleet file's maxima, and start drained ones again."""
    name, groups, breach = _read(environment, cloud)
    if not breach.acts:
        if json:
            emit_json(_document(breach) | {"resumed": {}})
        else:
            out.print(f"{name}: no node group is stopped", markup=False)
        return
    if breach.is_spent and not force:
        text = "; ".join(
            f"{f'{cap}: ' if cap else ''}{spent:,.2f} of {limit:,.2f} USD are spent"
            for cap, (spent, limit) in breach.spent_budgets.items()
        )
        raise InputError(
            f"{text}: the next alert would stop the groups again",
            remedy=f"raise the budget in the fleet file and run `gpufleet up {name}`, wait for the next "
            "month, or pass --force",
        )
    confirm(
        f"Let {', '.join(sorted({*breach.before, *breach.drained}))} grow again?",
        yes=yes,
        json=json,
        what="a change of the account",
    )
    done = groups.resume(breach)
    if json:
        emit_json(_document(breach) | {"resumed": done})
        return
    for group, most in sorted(done.items()):
        size = f"{breach.drained[group].sizes[1]} nodes again, " if _has_size(breach, group) else ""
        out.print(f"  {group}: {size}up to {most} nodes", markup=False)
    note(f"next: `gpufleet refresh {name}`, then `gpufleet up {name}` for sizes that changed meanwhile")


def _has_size(breach: Breach, group: str) -> bool:
    """Return whether a group drained that has a size in AWS; nodes that Slurm launches have none."""
    return group in breach.drained and breach.drained[group].nodes is not None


def _draining(group: str, drain: Drain) -> str:
    """Return what `show` says of a group whose spot nodes drain."""
    if not drain.since:
        return f"{group} is being resumed: run `gpufleet budget resume` again"
    if drain.nodes is None:
        return f"{group} drains since {drain.since}: its controllers launch no node"
    return f"{group} drains since {drain.since}: {drain.nodes} of {drain.sizes[1]} nodes are left"


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
        "drained": {
            name: {"since": drain.since, "nodes_before": drain.sizes[1], "nodes": drain.nodes}
            for name, drain in breach.drained.items()
        },
        "caps": {
            name: {"spent": float(spent), "limit": float(limit)}
            for name, (spent, limit) in breach.caps.items()
        },
    }
