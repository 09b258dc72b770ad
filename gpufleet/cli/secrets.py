"""`gpufleet secrets new`: create missing secrets of the racks in a vault file."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, out
from gpufleet.errors import ExitCode, InputError

app = new_app(help="Create and rotate the secrets of the racks: munge keys, passwords of databases.")


@app.callback()
def _group() -> None:
    """Secrets of the racks, in a vault file next to the fleet file."""


@app.command()
def new(
    environment: Environment,
    rotate: Annotated[
        str, typer.Option("--rotate", help="Replace one secret, such as munge_key, at all sites.")
    ] = "",
    json: Json = False,
) -> int:
    """Create missing secrets in stacks/<env>/secrets.yml, encrypted by Ansible Vault.

    The vault password comes from GPUFLEET_VAULT_PASSWORD or the file in GPUFLEET_VAULT_PASSWORD_FILE. Values
    are not printed; `ansible-vault view` shows them. A rotated encryption key is kept as the previous
    one; `gpufleet operate <env> rotate_encryption_key` applies the new one.
    """
    from gpufleet.cli.configure_setup import VAULT, Setup
    from gpufleet.racks.configure.vault import read_vault, vault_password, write_vault
    from gpufleet.racks.secrets import SECRETS, missing_secrets

    known = [secret.variable for secret in SECRETS if secret.make is not None]
    if rotate and rotate not in known:
        raise InputError(f"there is no secret {rotate!r}", remedy=f"use one of {', '.join(known)}")
    setup = Setup(environment, "", "", (), None)
    path = setup.fleet_folder / VAULT
    password = vault_password(os.environ)
    kept = read_vault(path, password)
    last = setup.folder.last()
    configured = [host for host, state in last.hosts.items() if state == "done"] if last else []
    made, lacking = missing_secrets(setup.plan, kept, rotate, configured)
    if made:
        write_vault(path, password, kept | made)
    if json:
        emit_json(
            {"environment": setup.name, "file": str(path), "made": sorted(made), "missing": list(lacking)}
        )
        return int(ExitCode.DONE)
    for name in sorted(made):
        out.print(f"made {name}", markup=False)
    for name in lacking:
        out.print(
            f"{name} is not created: the machines already have it. Add it with `ansible-vault edit`, or "
            "set it in the environment",
            markup=False,
            soft_wrap=True,
        )
    keys = tuple(secret.prefix for secret in SECRETS if secret.previous)
    if not rotate and any(name.startswith(keys) for name in made):
        out.print(
            "The encryption key is for a new cluster. Keep the vault file: without it, secrets in etcd cannot"
            " be read. A cluster that exists has its key in /etc/kubernetes/gpufleet/encryption.yaml on each"
            " controller; put that one into the vault instead",
            markup=False,
            soft_wrap=True,
        )
    summary = f"{len(made)} created" if made else "no secrets are missing"
    out.print(f"{path}: {summary}", markup=False, soft_wrap=True)
    return int(ExitCode.DONE)
