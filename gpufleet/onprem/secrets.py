"""The secrets of a rack site: which there are, where they come from, and how new ones are made.

A secret is an environment variable `GPUFLEET_SECRET_<NAME>_<SITE>`, or one without the site for all
sites, or an entry of that name in the environment's vault file (`stacks/<env>/secrets.yml`, made by
Ansible Vault). It reaches Ansible as an environment variable only.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan

_LETTERS = string.ascii_letters + string.digits
_LONGEST = 1024


def _random(length: int) -> Callable[[], str]:
    return lambda: "".join(secrets.choice(_LETTERS) for _ in range(length))


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that every Slurm site needs, for `variable` of `role`.

    `least` is the shortest that is accepted, in characters.
    """

    role: str
    variable: str
    prefix: str
    meaning: str
    least: int
    make: Callable[[], str]

    def name(self, site: str) -> str:
        """Its environment variable for one site."""
        return f"{self.prefix}_{site.upper().replace('-', '_')}"

    def problem(self, value: str) -> str:
        """What is wrong with a value, without the value; empty if nothing is."""
        if not value:
            return f"is missing ({self.meaning})"
        if len(value) < self.least:
            return f"has {len(value)} characters, {self.least} are the least"
        if len(value) > _LONGEST or not value.isascii() or not value.isprintable():
            return f"is not one line of at most {_LONGEST} printable ASCII characters"
        return ""


SECRETS = (
    Secret(
        "munge",
        "munge_key",
        "GPUFLEET_SECRET_MUNGE_KEY",
        "the text of the cluster's munge key file, 32 to 1024 characters",
        32,
        _random(128),
    ),
    Secret(
        "slurm_database",
        "slurm_database_password",
        "GPUFLEET_SECRET_DATABASE_PASSWORD",
        "the password of slurmdbd's MariaDB user, at least 16 characters",
        16,
        _random(32),
    ),
)
"""All of them, for every Slurm site of the racks."""


def slurm_sites(plan: FleetPlan) -> list[str]:
    """The rack sites that need secrets."""
    return [site.site for site in plan.onprem if site.rack.slurm is not None]


def collect_secrets(
    plan: FleetPlan,
    hosts: Collection[str],
    roles: Collection[str],
    environment: Mapping[str, str],
    vault: Callable[[], Mapping[str, str]],
) -> dict[str, str]:
    """The secrets that `roles` need on `hosts`, by environment variable; the environment before the vault.

    `vault` is only asked where the environment lacks one. Raises InputError that names all that are
    missing or unfit at once, never a value.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    needed = [
        (secret, site.site)
        for site in plan.onprem
        if site.rack.slurm is not None and any(host.name in hosts for host in site.hosts)
        for secret in SECRETS
        if secret.role in roles
    ]
    opened: Mapping[str, str] | None = None
    for secret, site in needed:
        value = _look_up(secret, site, environment)
        if not value:
            opened = vault() if opened is None else opened
            value = _look_up(secret, site, opened)
        if problem := secret.problem(value):
            wrong.append(f"{secret.name(site)} {problem}")
        else:
            found[secret.name(site)] = value
    if wrong:
        raise InputError(
            f"{len(wrong)} secret{'s' if len(wrong) > 1 else ''} of {plan.environment}: {'; '.join(wrong)}",
            remedy=f"`gpufleet secrets new {plan.environment}` makes what is missing and keeps it in a vault"
            " file; or set them in the environment",
        )
    return found


def _look_up(secret: Secret, site: str, place: Mapping[str, str]) -> str:
    return place.get(secret.name(site)) or place.get(secret.prefix) or ""
