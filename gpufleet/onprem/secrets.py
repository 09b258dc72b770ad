"""The secrets of a rack site: which there are, where they come from, and how new ones are made.

A secret is an environment variable `GPUFLEET_SECRET_<NAME>_<SITE>`, or one without the site for all
sites, or an entry of that name in the environment's vault file (`stacks/<env>/secrets.yml`, made by
Ansible Vault). It reaches Ansible as an environment variable only.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan

_LETTERS = string.ascii_letters + string.digits


def _random(length: int) -> Callable[[], str]:
    return lambda: "".join(secrets.choice(_LETTERS) for _ in range(length))


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that every Slurm site needs. `variable` is the role variable that takes it.

    `least` is the shortest that is accepted, in characters.
    """

    variable: str
    prefix: str
    meaning: str
    least: int
    make: Callable[[], str]

    def name(self, site: str) -> str:
        """Its environment variable for one site."""
        return f"{self.prefix}_{site.upper().replace('-', '_')}"


SECRETS = (
    Secret(
        "munge_key",
        "GPUFLEET_SECRET_MUNGE_KEY",
        "the text of the cluster's munge key file, 32 to 1024 characters",
        32,
        _random(128),
    ),
    Secret(
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
    plan: FleetPlan, environment: Mapping[str, str], vault: Mapping[str, str]
) -> dict[str, str]:
    """Every secret of the plan by its environment variable, the environment before the vault.

    Raises InputError that names all that are missing or too short at once, never a value.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    for site in slurm_sites(plan):
        for secret in SECRETS:
            name = secret.name(site)
            value = next(
                (
                    place[key]
                    for place in (environment, vault)
                    for key in (name, secret.prefix)
                    if place.get(key)
                ),
                "",
            )
            if not value:
                wrong.append(f"{name} is missing ({secret.meaning})")
            elif len(value) < secret.least:
                wrong.append(f"{name} has {len(value)} characters, {secret.least} are the least")
            elif any(ord(letter) < 32 for letter in value):
                wrong.append(f"{name} holds a line break or another control character")
            else:
                found[name] = value
    if wrong:
        raise InputError(
            f"{len(wrong)} secret{'s' if len(wrong) > 1 else ''} of {plan.environment}: {'; '.join(wrong)}",
            remedy=f"`gpufleet secrets new {plan.environment}` makes what is missing and keeps it in a vault"
            " file; or set them in the environment",
        )
    return found
