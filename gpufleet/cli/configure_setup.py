"""Setup of `gpufleet configure`: plan, inventory, hosts, keys and secrets."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

from gpufleet.checks import ValidFleet, validate
from gpufleet.cli.console import err
from gpufleet.cli.run_log import Durations
from gpufleet.cli.stack_outputs import stack_outputs
from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.findings import Finding
from gpufleet.plan.models import FleetPlan
from gpufleet.racks.configure.record import LastRun, RunFolder
from gpufleet.racks.configure.run import ConfigureRequest
from gpufleet.racks.configure.targets import (
    known_hosts_files,
    refuse_unknown,
    select_hosts,
    ssh_connections,
)
from gpufleet.racks.configure.transport import Transport
from gpufleet.racks.configure.vault import read_vault, vault_password
from gpufleet.racks.inventory import Inventory, build_inventory
from gpufleet.racks.inventory_text import render
from gpufleet.racks.project import ansible_project
from gpufleet.racks.secrets import collect_secrets
from gpufleet.workspace import Workspace

VAULT = "secrets.yml"


class Setup:
    """The setup of one `gpufleet configure`. Reads and checks files; opens no connection."""

    def __init__(
        self, target: str, site: str, limit: str, only: tuple[str, ...], ssh_config: Path | None
    ) -> None:
        self.target = target
        self._site = site
        self._limit = limit
        self._only = tuple(role for text in only for role in text.split(",") if role)
        self._ssh_config = None if ssh_config is None else ssh_config.resolve()
        self.workspace = Workspace.open(target)

    @cached_property
    def validated(self) -> ValidFleet:
        """The fleet without errors."""
        return validate(self.workspace.target, root=self.workspace.root, bought=None)

    @property
    def plan(self) -> FleetPlan:
        """The plan."""
        return self.validated.plan

    @property
    def findings(self) -> list[Finding]:
        """The warnings about racks. Those about prices and the cloud belong to other commands."""
        return [item for item in self.validated.findings if item.field.startswith(("onprem", "software"))]

    @property
    def fleet_folder(self) -> Path:
        """The folder of the fleet file, known_hosts and the vault file."""
        return self.validated.loaded.path.resolve().parent

    @property
    def durations(self) -> Durations:
        """The durations of the last runs."""
        return Durations.of(self.workspace.local)

    @property
    def name(self) -> str:
        """The name of the environment. For a file outside of stacks/, with the name of its fleet."""
        if self.fleet_folder == self.workspace.root / "stacks" / self.plan.environment:
            return self.plan.environment
        return f"{self.plan.fleet}-{self.plan.environment}"

    @cached_property
    def folder(self) -> RunFolder:
        """The folder of the environment's runs."""
        return RunFolder(self.workspace.local, self.name)

    @cached_property
    def inventory(self) -> Inventory:
        """The inventory of the racks; cloud nodes are configured by their images and start scripts.

        Raises GpufleetError if racks launch cloud nodes, and the stack's state cannot be read: without it,
        the controllers would forget them.
        """
        for site in self.plan.cloud:
            if site.slurm is not None and not (self.outputs.get(site.site) or {}).get("slurm"):
                what = "its servers do not exist"
                if site.slurm.servers is None:
                    what = f"{site.slurm.controllers} launches no nodes there"
                err.print(
                    f"{site.site}: not built yet, so {what}: run `gpufleet up {self.plan.environment}`,"
                    " then configure again",
                    markup=False,
                    soft_wrap=True,
                )
        return build_inventory(self.plan, self.validated.catalog, self.outputs)

    @cached_property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the stack, empty if no Slurm is in the cloud or launches nodes there."""
        if all(site.slurm is None for site in self.plan.cloud):
            return {}
        return stack_outputs(self.workspace, self.plan, None)

    @property
    def servers(self) -> dict[str, tuple[str, str]]:
        """The region and the instance of each server in the cloud that exists, by host."""
        return {
            host: (site.region, instance)
            for site in self.plan.cloud
            for host, instance in (
                ((self.outputs.get(site.site) or {}).get("slurm_servers") or {}).get("instances") or {}
            ).items()
        }

    @property
    def has_run(self) -> bool:
        """Whether this checkout has changed hosts of the environment before."""
        return self.folder.last() is not None

    def request(
        self,
        *,
        check: bool,
        diff: bool,
        resume: bool,
        with_preflight: bool,
        transport: str,
        forks: int | None,
    ) -> ConfigureRequest | None:
        """Return the request of a run, None if no hosts are left to resume.

        Raises InputError for all errors that can be detected before the first connection.
        """
        if transport not in get_args(Transport):
            raise InputError(
                f"transport {transport!r} is not one of {', '.join(get_args(Transport))}",
                remedy="use one of these, or remove --transport",
            )
        project = ansible_project(self.workspace.root)
        last = self._resumed() if resume else None
        only = self._known_roles(project, self._only or (last.only if last is not None else ()))
        path = self.folder.path / "inventory.yaml"
        write_atomically(path, render(self.inventory), mode=0o600)
        hosts = select_hosts(self.plan, path, site=self._site, limit=self._limit)
        if last is not None:
            hosts = tuple(name for name in hosts if name in last.left)
            if not hosts:
                return None
        connections = ssh_connections(self.inventory)
        files = known_hosts_files(self.fleet_folder, self._ssh_config)
        refuse_unknown(hosts, connections, files, self.target)
        roles = (
            {item.name for item in (project / "roles").iterdir()} if (project / "roles").is_dir() else set()
        )
        password = vault_password(os.environ)
        secrets = self.secrets(hosts, set(only) & roles if only else roles)
        return ConfigureRequest(
            plan=self.plan,
            catalog=self.validated.catalog,
            project=project,
            inventory=path,
            hosts=hosts,
            known_hosts=files,
            ssh_config=self._ssh_config,
            only=only,
            check=check,
            diff=diff,
            with_preflight=with_preflight and (not only or "preflight" in only),
            transport=cast(Transport, transport),
            forks=forks,
            secrets=secrets,
            vault_password=password,
        )

    def secrets(self, hosts: Collection[str], roles: Collection[str]) -> dict[str, str]:
        """Return the secrets that `roles` need on `hosts`, by environment variable. Raises InputError if one
        is missing."""
        password = vault_password(os.environ)
        return collect_secrets(
            self.plan,
            hosts,
            roles,
            os.environ,
            lambda: read_vault(self.fleet_folder / VAULT, password),
            self.target,
        )

    def _resumed(self) -> LastRun:
        last = self.folder.last()
        if last is None:
            raise InputError(f"{self.name} has no run to resume", remedy="`gpufleet configure` starts one")
        return last

    def _known_roles(self, project: Path, only: tuple[str, ...]) -> tuple[str, ...]:
        roles = sorted(path.name for path in (project / "roles").glob("*") if path.is_dir())
        for role in only:
            if role not in roles:
                near = get_close_matches(role, roles, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise InputError(f"there is no role {role!r}", remedy=f"{hint}use one of {', '.join(roles)}")
        return only
