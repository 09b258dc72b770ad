"""The hosts of a run: Ansible patterns, and hosts with unknown keys."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpufleet.containment import contained, repository_of
from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.known_hosts import is_known, known_name, read_known_hosts
from gpufleet.racks.hostlists import fold_hosts
from gpufleet.racks.inventory import ONPREM, SERVERS, Inventory

Connections = Mapping[str, tuple[str, int]]
"""By host name: where ssh connects to, for hosts that are reached by ssh."""


def select_hosts(plan: FleetPlan, inventory: Path, *, site: str = "", limit: str = "") -> tuple[str, ...]:
    """Return the rack hosts of a site and an Ansible host pattern, in the order of the inventory.

    Raises InputError for an unknown site and for a pattern without matching hosts.
    """
    known = [item.site for item in plan.host_sites()]
    if not known:
        raise InputError(
            f"{plan.environment} has no racks to configure",
            remedy="declare a site under `onprem` in its fleet file",
        )
    if site and site not in known:
        raise InputError(
            f"{plan.environment} has no rack site {site!r}", remedy=f"use one of {', '.join(known)}"
        )
    chosen = [host.name for item in plan.host_sites() if site in ("", item.site) for host in item.hosts]
    if limit:
        # Only for a pattern: reading an inventory with Ansible takes most of a second.
        from ansible.inventory.manager import InventoryManager
        from ansible.parsing.dataloader import DataLoader

        manager = InventoryManager(loader=DataLoader(), sources=[str(inventory)])
        wanted = {host.name for host in manager.list_hosts(limit)}
        chosen = [name for name in chosen if name in wanted]
    if not chosen:
        where = f" of site {site!r}" if site else ""
        raise InputError(
            f"no rack host{where} matches {limit!r}",
            remedy="`gpufleet inventory --json` shows hosts and groups",
        )
    return tuple(chosen)


def ssh_connections(inventory: Inventory) -> Connections:
    """Where ssh connects to, for every rack host that is not reached in another way."""
    children: Mapping[str, Any] = inventory["all"]["children"]
    found = {}
    sites = [site for among in (ONPREM, SERVERS) for site in children.get(among, {}).get("children", {})]
    for site in sites:
        for name, values in children[site].get("hosts", {}).items():
            if values.get("ansible_connection", "ssh") == "ssh":
                found[name] = (str(values.get("ansible_host", name)), int(values.get("ansible_port", 22)))
    return found


def known_hosts_files(fleet_folder: Path, ssh_config: Path | None = None) -> tuple[Path, ...]:
    """Where keys are looked up: beside the fleet file, then where ssh itself looks.

    `ssh_config` takes the place of the user's own configuration. Raises InputError when ssh cannot
    read it or is not installed, and when the first is a link out of its repository.
    """
    command = ["ssh", "-G", *(["-F", str(ssh_config)] if ssh_config is not None else []), "gpufleet.invalid"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except OSError as error:
        raise InputError(f"ssh does not run: {error.strerror}", remedy="install the OpenSSH client") from None
    if done.returncode != 0:
        raise InputError(
            f"ssh cannot use its configuration: {done.stderr.strip()[:300]}", remedy="repair what it names"
        )
    settings = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    own = fleet_folder / "known_hosts"
    contained(own, str(own), within=repository_of(own))
    names = f"{settings.get('userknownhostsfile', '')} {settings.get('globalknownhostsfile', '')}".split()
    return (own, *(Path(name).expanduser() for name in names if name != "none"))


def unknown_hosts(hosts: Iterable[str], connections: Connections, files: Iterable[Path]) -> tuple[str, ...]:
    """Those of `hosts` that ssh would refuse since their key is not known."""
    keys = read_known_hosts(files)
    return tuple(name for name in hosts if name in connections and not is_known(*connections[name], keys))


def refuse_unknown(
    hosts: Iterable[str], connections: Connections, files: tuple[Path, ...], target: str
) -> None:
    """Raises InputError when a host's key is not known, with how to make it known safely."""
    unknown = unknown_hosts(hosts, connections, files)
    if not unknown:
        return
    example = f"{unknown[0]} is reached as {known_name(*connections[unknown[0]])}"
    count = f"keys of {len(unknown)} hosts are" if len(unknown) > 1 else "key of a host is"
    raise InputError(
        f"the ssh {count} not known: {fold_hosts(unknown)}. {example}, which is neither in {files[0]} nor"
        " where ssh looks",
        remedy=f"`gpufleet hostkeys {target}` reads them, compares them with `ssh.fingerprints` of the fleet"
        f" file and writes {files[0].name}; or put a line `@cert-authority` of your ssh CA there",
    )


def ssh_arguments(files: Iterable[Path], ssh_config: Path | None = None) -> str:
    """What ssh needs to look keys up in `files`, as Ansible splits it."""
    listed = " ".join(f'"{path}"' for path in files)
    config = f"-F {shlex.quote(str(ssh_config))} " if ssh_config is not None else ""
    return f"{config}-o {shlex.quote(f'UserKnownHostsFile={listed}')}"
