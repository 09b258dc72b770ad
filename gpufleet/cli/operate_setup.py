"""Setup of `gpufleet operate`, in addition to that of `gpufleet configure`: targets, options,
confirmation."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from gpufleet.cli.configure_setup import VAULT, Setup
from gpufleet.errors import InputError
from gpufleet.files import write_atomically
from gpufleet.racks.configure.host_keys import forget_keys, renew_key
from gpufleet.racks.configure.record import HostState, LastRun, RunFolder
from gpufleet.racks.configure.targets import (
    known_hosts_files,
    refuse_unknown,
    select_hosts,
    ssh_connections,
)
from gpufleet.racks.configure.transport import Transport
from gpufleet.racks.configure.vault import read_vault, vault_password
from gpufleet.racks.hostlists import fold_hosts
from gpufleet.racks.inventory_text import render
from gpufleet.racks.operations.operation import Operation, Value
from gpufleet.racks.operations.run import OperationRequest
from gpufleet.racks.project import ansible_project
from gpufleet.racks.secrets import collect_secrets
from gpufleet.racks.verify.expected import members_of


class OperateSetup(Setup):
    """The setup of one `gpufleet operate`. Reads and checks files; changes no host."""

    def __init__(
        self, target: str, operation: Operation, site: str, limit: str, ssh_config: Path | None
    ) -> None:
        super().__init__(target, site, limit, (), ssh_config)
        self.operation = operation
        self.runs = RunFolder(self.workspace.local, self.name, operation.name)

    def operation_request(
        self,
        *,
        options: tuple[str, ...],
        check: bool,
        diff: bool,
        resume: bool,
        transport: str,
        forks: int | None,
    ) -> OperationRequest | None:
        """Return the request of an operation, None if no hosts are left to resume.

        Raises InputError for all errors that can be detected before the first change.
        """
        if transport not in get_args(Transport):
            raise InputError(
                f"transport {transport!r} is not one of {', '.join(get_args(Transport))}",
                remedy="use one of these, or remove --transport",
            )
        last = self.runs.last() if resume else None
        if resume and last is None:
            raise InputError(
                f"{self.name} has no {self.operation.name} to resume",
                remedy=f"`gpufleet operate {self.target} {self.operation.name}` starts one",
            )
        values = self.operation.values(options, last.options if last is not None else None)
        if self.operation.one_by_one and not self._limit and not resume:
            raise InputError(
                f"{self.operation.name} without --limit would run on all nodes",
                remedy="list the nodes with --limit",
            )
        # A separate file: a running verify reads its own.
        path = self.runs.path / "inventory.yaml"
        write_atomically(path, render(self.inventory), mode=0o600)
        targets, helpers = self._hosts(path)
        if last is not None:
            targets = self._left(targets, last)
            if not targets:
                return None
        if self.operation.settle is not None:
            values = {**values, **self.operation.settle(values)}
        self._agreed(targets, values)
        values = self._with_canary(targets, values, resumed=last is not None)
        connections = ssh_connections(self.inventory)
        files = known_hosts_files(self.fleet_folder, self._ssh_config)
        if values.get("fingerprint") and not check:
            if len(targets) != 1:
                raise InputError(
                    f"one fingerprint cannot belong to {len(targets)} nodes", remedy="replace one at a time"
                )
            renew_key(targets[0], connections[targets[0]], str(values["fingerprint"]), files[0])
        refuse_unknown((*targets, *helpers), connections, files, self.target)
        password = vault_password(os.environ)
        secrets = collect_secrets(
            self.plan,
            (*targets, *helpers),
            self.operation.roles_with_secrets(values),
            os.environ,
            lambda: read_vault(self.fleet_folder / VAULT, password),
            self.target,
        )
        return OperationRequest(
            operation=self.operation,
            plan=self.plan,
            catalog=self.validated.catalog,
            project=ansible_project(self.workspace.root),
            inventory=path,
            targets=targets,
            helpers=helpers,
            options=values,
            by=operator_name(os.environ),
            facts=self.folder.path / "facts",
            known_hosts=files,
            ssh_config=self._ssh_config,
            check=check,
            diff=diff,
            transport=cast(Transport, transport),
            forks=forks,
            secrets=secrets,
            vault_password=password,
            first=(last.first or last.run) if last is not None else "",
        )

    def forget(self, request: OperationRequest, states: Mapping[str, HostState]) -> None:
        """Remove the ssh keys of hosts that left the site."""
        if self.operation.forgets and not request.check:
            connections = ssh_connections(self.inventory)
            done = [connections[name] for name, state in states.items() if state == "done"]
            forget_keys(done, request.known_hosts[0])

    def _left(self, targets: tuple[str, ...], last: LastRun) -> tuple[str, ...]:
        """Return the hosts of a resumed run: unfinished targets, and the hosts that each needs."""
        left = {name for name in targets if name in last.left}
        if self.operation.together:
            joined = set(members_of(self.inventory["all"]["children"], self.operation.together))
            for site in self.plan.host_sites():
                whole = joined & {host.name for host in site.hosts}
                left |= whole & set(targets) if whole & left else set()
        return tuple(name for name in targets if name in left)

    def _hosts(self, inventory: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the targets, and the other hosts of their sites that take part."""
        chosen = select_hosts(self.plan, inventory, site=self._site, limit=self._limit)
        groups = self.inventory["all"]["children"]
        fit = members_of(groups, self.operation.group)
        unfit = [name for name in chosen if name not in fit]
        if unfit and self._limit and len(unfit) == len(chosen):
            raise InputError(
                f"{self.operation.name} does not support {fold_hosts(unfit)}",
                remedy=f"use hosts of group {self.operation.group};"
                f" `gpufleet inventory {self.target} --json` prints them",
            )
        targets = tuple(name for name in chosen if name in fit)
        if not targets:
            raise InputError(
                f"{self.name} has no host for {self.operation.name}",
                remedy=f"it needs hosts of group {self.operation.group}",
            )
        asked = {name for group in self.operation.also for name in members_of(groups, group)}
        helpers = tuple(
            host.name
            for site in self.plan.host_sites()
            if any(host.name in targets for host in site.hosts)
            for host in site.hosts
            if host.name in asked and host.name not in targets
        )
        return targets, helpers

    def _with_canary(
        self, targets: tuple[str, ...], values: dict[str, Value], *, resumed: bool
    ) -> dict[str, Value]:
        """Return the options with the canary node, if there is one. A resumed run keeps it."""
        if not any(option.name == "canary" for option in self.operation.options):
            return values
        canary = values.get("canary", targets[0])
        if canary not in targets and not resumed:
            raise InputError(
                f"canary={canary} is not among the targets {fold_hosts(targets)}",
                remedy="use one of them, or remove the option",
            )
        return {**values, "canary": canary}

    def _agreed(self, targets: tuple[str, ...], values: Mapping[str, Value]) -> None:
        if not self.operation.named:
            return
        confirmed = {name for name in str(values.get("confirm", "")).split(",") if name}
        if confirmed != set(targets):
            raise InputError(
                f"confirm={values.get('confirm', '')} does not match the targets {fold_hosts(targets)}",
                remedy=f"to confirm them: -o confirm={','.join(targets)}",
            )


def operator_name(environment: Mapping[str, str]) -> str:
    """Return the user who runs this, for reasons and records, in characters safe for shells and Slurm."""
    name = environment.get("SUDO_USER") or ""
    if not name:
        try:
            name = getpass.getuser()
        except (KeyError, OSError):
            name = f"uid {os.getuid()}"
    return "".join(letter for letter in name if letter.isalnum() or letter in "._@- ")[:32] or "unknown"
