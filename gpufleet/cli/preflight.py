"""`gpufleet preflight`: what the AWS account lacks for a fleet, before anything is created."""

from __future__ import annotations

import datetime as dt
import functools
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import typer

from gpufleet.cli.account import stack_session
from gpufleet.cli.arguments import CloudOption, Environment, Json
from gpufleet.cli.console import emit_json, err, is_quiet, out
from gpufleet.cli.waiting import sandbox_start
from gpufleet.errors import ExitCode, RefusedError
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.account.reading import Clients
    from gpufleet.account.result import AccountFinding, Preflight
    from gpufleet.checks import ValidFleet
    from gpufleet.cli.stack_run import StackRun
    from gpufleet.findings import Finding

_CONNECT_S, _READ_S = 5, 20


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(preflight)


def preflight(environment: Environment, cloud: CloudOption = None, json: Json = False) -> int:
    """Check the AWS account for what the fleet needs, and print the request for each missing thing.

    Checks quotas at the fleet's maximum, zones and offered types by zone id, service-linked roles, named
    reservations, and permissions. Changes nothing. Exit code 1: something is missing; 4: something could not
    be checked.
    """
    from gpufleet.checks import validate
    from gpufleet.report.preflight_text import preflight_to_json, print_preflight

    workspace = Workspace.open(environment)
    name = workspace.environment()
    chosen = workspace.cloud(name, cloud)
    validated = validate(workspace.target, root=workspace.root, bought=workspace.bought_blocks)
    env: Mapping[str, str] = {}
    if chosen == "sandbox":
        starting = functools.partial(sandbox_start, workspace.local, quiet=json or is_quiet())
        env = workspace.request(name, chosen, while_starting=starting).env
    else:
        from gpufleet.cli.account import require_account

        settings = workspace.stack_config(name, plain_only=True)
        require_account((), settings.get("aws:profile"))
    found = read_account(workspace, name, validated, env)
    placed = functools.partial(placed_finding, validated)
    if json:
        emit_json(preflight_to_json(found, placed))
    else:
        print_preflight(found, placed, out)
        if not found.checks:
            out.print("the fleet has no cloud site")
    return int(_EXIT_CODES[found.status])


_EXIT_CODES = {
    "pass": ExitCode.DONE,
    "missing": ExitCode.REFUSED,
    "not-checked": ExitCode.CLOUD_FAILURE,
}


def read_account(workspace: Workspace, name: str, validated: ValidFleet, env: Mapping[str, str]) -> Preflight:
    """Run the preflight of an environment. `env` has the address and keys of the emulated AWS."""
    from gpufleet.account.preflight import run_preflight

    clients = _clients(workspace, name, env)
    return run_preflight(validated.plan, validated.catalog, clients, dt.datetime.now(dt.UTC))


def placed_finding(validated: ValidFleet, finding: AccountFinding) -> Finding:
    """Return the finding with file and line of the fleet file."""
    return validated.loaded.source.finding(
        finding.path,
        rule=finding.rule,
        message=finding.message,
        remedy=finding.remedy,
        severity=finding.severity,
        value=finding.value,
    )


RunningPreflight = Callable[[], "Preflight"]
"""Returns the result of a preflight that runs; waits for it."""


def start_preflight(run: StackRun) -> RunningPreflight | None:
    """Start the preflight of a run, which takes seconds, while it previews; None without a cloud site."""
    if not run.plan.cloud:
        return None
    env = run.request.env if run.cloud == "sandbox" else {}
    pool = ThreadPoolExecutor(1, "gpufleet-preflight")
    running = pool.submit(read_account, run.workspace, run.name, run.validated, env)
    pool.shutdown(wait=False)
    return running.result


def refuse_missing(run: StackRun, running: RunningPreflight | None) -> None:
    """Print what the account lacks, and raise RefusedError if the run would fail without it.

    In the sandbox only errors are printed: its quotas and permissions are made up.
    """
    from gpufleet.report.preflight_text import print_missing

    if running is None:
        return
    found = running()
    errors = [finding for finding in found.findings if finding.severity == "error"]
    shown = run.cloud != "sandbox" and not run.options.json and not is_quiet()
    if shown or errors:
        print_missing(found, functools.partial(placed_finding, run.validated), err)
    if errors:
        count = len(errors)
        raise RefusedError(
            f"the account lacks {count} thing{'s' if count != 1 else ''} that this fleet needs now; nothing "
            "has been changed",
            remedy="make the requests above (`gpufleet preflight` shows all), or pass --skip-preflight",
        )


def _clients(workspace: Workspace, name: str, env: Mapping[str, str]) -> Clients:
    """Return the clients of the environment's account, each made once. boto3 makes one at a time."""
    from botocore.config import Config

    config = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries={"total_max_attempts": 3})
    lock, made, sessions = threading.Lock(), dict[tuple[str, str], Any](), list[Any]()

    def client(service: str, region: str) -> Any:
        with lock:
            if not sessions:
                sessions.append(_session(workspace, name, env, region, config))
            if (service, region) not in made:
                address = {"endpoint_url": env["AWS_ENDPOINT_URL"]} if env else {}
                made[service, region] = sessions[0].client(
                    service, region_name=region, config=config, **address
                )
            return made[service, region]

    return client


def _session(workspace: Workspace, name: str, env: Mapping[str, str], region: str, config: Any) -> Any:
    """Return the session of the stack's settings, or of the emulated AWS without those of the user."""
    if not env:
        return stack_session(workspace, name, region, config=config)
    import boto3
    from botocore.session import Session

    # A profile of the user that does not exist would end the sandbox's run.
    own = Session(
        session_vars={"profile": (None, None, None, None), "config_file": (None, None, os.devnull, None)}
    )
    own.set_credentials(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
    return boto3.Session(botocore_session=own)
