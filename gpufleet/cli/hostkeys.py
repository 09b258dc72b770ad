"""`gpufleet hostkeys`: read SSH host keys of new rack hosts and verify them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.configure import Limit, Site, SshConfig, Yes
from gpufleet.cli.console import emit_json, is_terminal, out
from gpufleet.errors import CloudError, ExitCode, InputError

if TYPE_CHECKING:
    from gpufleet.cli.configure_setup import Setup
    from gpufleet.racks.configure.host_keys import FoundKeys
    from gpufleet.racks.configure.targets import Connections


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(hostkeys)


def hostkeys(
    environment: Environment,
    site: Site = "",
    limit: Limit = "",
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Also accept keys without a declared fingerprint, after confirmation."),
    ] = False,
    ssh_config: SshConfig = None,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Read the SSH host keys of unknown hosts, and write the trusted ones to known_hosts.

    The keys of servers in the cloud are those in EC2's console output. On racks a key is trusted if
    `ssh.fingerprints` of the fleet file declares its fingerprint. Compare the others with the hosts'
    consoles, then declare them or use --accept. Exit code 4: a host does not respond, or its key differs
    from the declared one.
    """
    from gpufleet.cli.configure_setup import Setup
    from gpufleet.files import write_atomically
    from gpufleet.racks.configure.host_keys import scan
    from gpufleet.racks.configure.targets import (
        known_hosts_files,
        select_hosts,
        ssh_connections,
        unknown_hosts,
    )
    from gpufleet.racks.inventory_text import render

    setup = Setup(environment, site, limit, (), ssh_config)
    inventory = setup.folder.path / "inventory.yaml"
    write_atomically(inventory, render(setup.inventory), mode=0o600)
    files = known_hosts_files(setup.fleet_folder, ssh_config)
    connections = ssh_connections(setup.inventory)
    hosts = select_hosts(setup.plan, inventory, site=site, limit=limit)
    unknown = unknown_hosts(hosts, connections, files)
    declared = {host: key for item in setup.plan.host_sites() for host, key in item.rack.fingerprints.items()}
    servers = [name for name in unknown if name in setup.servers]
    found = scan({name: connections[name] for name in unknown if name not in servers}, declared)
    found += _of_servers(setup, servers, connections)
    undeclared = [item for item in found if item.verdict == "not-declared"]
    if not json:
        for item in found:
            prints = ", ".join(item.fingerprints)
            out.print(f"{item.host}: {item.verdict} {prints}".rstrip(), markup=False, soft_wrap=True)
    taken = [item for item in found if item.verdict == "matches"]
    if accept and undeclared:
        question = f"Do these fingerprints match the consoles of {len(undeclared)} hosts?"
        if not yes and not typer.confirm(question, err=not is_terminal(out.file)):
            raise typer.Abort
        taken += undeclared
    lines = [line for item in taken for line in item.lines]
    if lines:
        before = files[0].read_text(encoding="utf-8") if files[0].is_file() else ""
        ending = "" if not before or before.endswith("\n") else "\n"
        write_atomically(files[0], before + ending + "\n".join(lines) + "\n")
    left = [item.host for item in found if item not in taken]
    if json:
        emit_json(
            {
                "environment": setup.name,
                "file": str(files[0]),
                "written": [item.host for item in taken],
                "hosts": {
                    item.host: {"verdict": item.verdict, "fingerprints": list(item.fingerprints)}
                    for item in found
                },
            }
        )
    else:
        known = len(hosts) - len(unknown)
        out.print(
            f"{known} hosts already known, {len(taken)} added to {files[0]}", markup=False, soft_wrap=True
        )
    if any(item.verdict in ("differs", "no-answer") for item in found) and not json:
        raise CloudError(
            f"{len(left)} hosts have no trusted key: {', '.join(left[:8])}",
            remedy="check that they are up; if a key differs, find the cause before you connect",
        )
    return int(ExitCode.CLOUD_FAILURE if left else ExitCode.DONE)


def _of_servers(setup: Setup, hosts: Sequence[str], connections: Connections) -> list[FoundKeys]:
    """Read the keys of instances from EC2's console output. Raises CloudError if EC2 does not answer."""
    from botocore.exceptions import BotoCoreError, ClientError

    from gpufleet.account.console_keys import console_keys
    from gpufleet.cli.account import stack_session
    from gpufleet.racks.configure.host_keys import shown_keys
    from gpufleet.racks.configure.known_hosts import known_name

    name, workspace = setup.plan.environment, setup.workspace
    if hosts and workspace.cloud(name, None) == "sandbox":
        raise InputError(
            f"{', '.join(hosts)}: servers of the sandbox are emulated, and nobody can connect to them",
            remedy="use --site for the racks, or an environment with a real account",
        )
    found = []
    for host in hosts:
        region, instance = setup.servers[host]
        try:
            ec2 = stack_session(workspace, name, region).client("ec2")
            keys = console_keys(ec2, instance)
        except (BotoCoreError, ClientError) as error:
            raise CloudError(
                f"the console output of {host} ({instance}) cannot be read: {error}",
                remedy="use credentials of the account that may call ec2:GetConsoleOutput",
            ) from None
        found.append(shown_keys(host, known_name(*connections[host]), keys))
    return found
