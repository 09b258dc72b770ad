"""`gpufleet verify`: compare rack hosts with the fleet file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.configure import Forks, Limit, Site, SshConfig, TransportOption
from gpufleet.cli.console import emit_json, out, print_findings
from gpufleet.errors import ExitCode, InputError
from gpufleet.report.tables import print_table

MEASURING_WITH_SECRETS = frozenset({"bmc"})
"""Roles that need a password to measure: management controllers, if the fleet file declares them."""

Output = Annotated[Path | None, typer.Option("--output", help="Also write the JSON object to a file.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(verify)


def verify(
    environment: Environment,
    site: Site = "",
    limit: Limit = "",
    transport: TransportOption = "auto",
    ssh_config: SshConfig = None,
    forks: Forks = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """Measure the rack hosts with ansible/playbooks/verify.yml and compare them with the fleet file.

    Changes nothing. Exit code 1: a value differs from the fleet file or is missing. Exit code 4: hosts were
    unreachable, or measuring failed.
    """
    from json import dumps

    from gpufleet.cli.configure_progress import HostProgress
    from gpufleet.cli.configure_setup import Setup
    from gpufleet.files import write_atomically
    from gpufleet.racks.configure.targets import (
        known_hosts_files,
        refuse_unknown,
        select_hosts,
        ssh_connections,
    )
    from gpufleet.racks.configure.transport import Transport
    from gpufleet.racks.inventory_text import render
    from gpufleet.racks.project import ansible_project
    from gpufleet.racks.verify.run import VerifyRequest
    from gpufleet.racks.verify.run import verify as run_verify
    from gpufleet.racks.verify.table import verify_table

    if transport not in get_args(Transport):
        raise InputError(
            f"transport {transport!r} is not one of {', '.join(get_args(Transport))}",
            remedy="use one of these, or remove --transport",
        )
    ssh_config = None if ssh_config is None else ssh_config.resolve()
    setup = Setup(environment, site, limit, (), ssh_config)
    if not json:
        print_findings(setup.findings)
    # A separate file: a running configure reads its own.
    inventory = setup.folder.path / "verify-inventory.yaml"
    write_atomically(inventory, render(setup.inventory), mode=0o600)
    hosts = select_hosts(setup.plan, inventory, site=site, limit=limit)
    known_hosts = known_hosts_files(setup.fleet_folder, ssh_config)
    refuse_unknown(hosts, ssh_connections(setup.inventory), known_hosts, environment)
    request = VerifyRequest(
        plan=setup.plan,
        project=ansible_project(setup.workspace.root),
        inventory=inventory,
        groups=setup.inventory,
        hosts=hosts,
        facts=setup.folder.path / "facts",
        known_hosts=known_hosts,
        ssh_config=ssh_config,
        transport=cast(Transport, transport),
        forks=forks,
        secrets=setup.secrets(hosts, MEASURING_WITH_SECRETS),
    )
    key = f"verify/{setup.name}/{len(hosts)} hosts"
    with HostProgress(out, len(hosts), expected=setup.durations.expected(key), quiet=json) as progress:
        result = run_verify(request, progress.on_task)
    setup.durations.keep(key, progress.pace.done, progress.pace.elapsed_s)
    if output is not None:
        write_atomically(output, dumps(result.to_json(), indent=2) + "\n")
    if json:
        emit_json(result.to_json())
    else:
        print_table(verify_table(result.results), out)
        passed = len(result.results) - len(result.failures) - len(result.warnings)
        out.print(
            f"{len(hosts)} hosts, {passed} checks passed, {len(result.failures)} failed, "
            f"{len(result.warnings)} warnings, {result.duration_s:.0f} s",
            markup=False,
        )
    if result.lost:
        return int(ExitCode.CLOUD_FAILURE)
    return int(ExitCode.REFUSED if result.failures else ExitCode.DONE)
