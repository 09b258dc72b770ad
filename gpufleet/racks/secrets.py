"""The secrets of a rack site: which there are, where they come from, and how new ones are made.

A secret is an environment variable `GPUFLEET_SECRET_<NAME>_<SITE>`, or one without the site for all
sites, or an entry of that name in the environment's vault file (`stacks/<env>/secrets.yml`, made by
Ansible Vault). It reaches Ansible as an environment variable only.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import string
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan, OnPremSitePlan
from gpufleet.plan.rack_models import MonitoringPlan
from gpufleet.racks.age import is_identity, new_identity

_LETTERS = string.ascii_letters + string.digits
_LONGEST = 1024
_KEY_BYTES = 32
_PREVIOUS_KEY = "GPUFLEET_SECRET_KUBERNETES_PREVIOUS_ENCRYPTION_KEY"


def _slurm(site: OnPremSitePlan) -> bool:
    return site.rack.slurm is not None


def _kubernetes(site: OnPremSitePlan) -> bool:
    return site.rack.kubernetes is not None


def _managed(site: OnPremSitePlan) -> bool:
    return site.rack.management_settings is not None


def _random(length: int) -> Callable[[], str]:
    return lambda: "".join(secrets.choice(_LETTERS) for _ in range(length))


def _random_key() -> str:
    return base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def _is_key(value: str) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False


def _copies(*kinds: str) -> Callable[[OnPremSitePlan], bool]:
    """Return the sites that copy their backups to a store of one of these kinds."""
    return lambda site: site.rack.backups is not None and site.rack.backups.kind in kinds


def _is_ssh_key(value: str) -> bool:
    try:
        return base64.b64decode(value, validate=True).startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    except binascii.Error:
        return False


def _monitoring(asks: Callable[[MonitoringPlan], object]) -> Callable[[OnPremSitePlan], bool]:
    """Return the sites whose monitoring needs this secret."""

    def needed(site: OnPremSitePlan) -> bool:
        return site.rack.monitoring_settings is not None and bool(asks(site.rack.monitoring_settings))

    return needed


class Secret(Struct, frozen=True):
    """A secret for `variable` of `role`, which the sites in `needed` require.

    `least` is the minimum length in characters; `fits` checks other requirements. Without `make`, gpufleet
    cannot create it, because another system issues it.
    """

    role: str
    variable: str
    prefix: str
    meaning: str
    least: int
    make: Callable[[], str] | None
    needed: Callable[[OnPremSitePlan], bool]
    fits: Callable[[str], bool] = bool
    previous: str = ""
    """Prefix of the secret that keeps the former value in a rotation: only a key reads its data."""
    optional: bool = False
    """Whether a site can do without it."""

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
        if not self.fits(value):
            return f"is not {self.meaning}"
        return ""


SECRETS = (
    Secret(
        "munge",
        "munge_key",
        "GPUFLEET_SECRET_MUNGE_KEY",
        "the text of the cluster's munge key file, 32 to 1024 characters",
        32,
        _random(128),
        _slurm,
    ),
    Secret(
        "slurm_database",
        "slurm_database_password",
        "GPUFLEET_SECRET_DATABASE_PASSWORD",
        "the password of slurmdbd's MariaDB user, at least 16 characters",
        16,
        _random(32),
        _slurm,
    ),
    Secret(
        "bmc",
        "bmc_password_from",
        "GPUFLEET_SECRET_BMC_PASSWORD",
        "the password of the user at the management controllers, as it is set there",
        1,
        None,
        _managed,
    ),
    Secret(
        "kubernetes_control_plane",
        "kubernetes_control_plane_encryption_key",
        "GPUFLEET_SECRET_KUBERNETES_ENCRYPTION_KEY",
        "the key that encrypts Kubernetes' secrets in etcd, 32 bytes in base64",
        44,
        _random_key,
        _kubernetes,
        _is_key,
        previous=_PREVIOUS_KEY,
    ),
    Secret(
        "kubernetes_control_plane",
        "kubernetes_control_plane_previous_encryption_key",
        _PREVIOUS_KEY,
        "the key before the last rotation, 32 bytes in base64",
        44,
        None,
        _kubernetes,
        _is_key,
        optional=True,
    ),
    Secret(
        "backup_target",
        "backup_target_identity",
        "GPUFLEET_SECRET_BACKUP_KEY",
        "the age identity that decrypts copies of backups (AGE-SECRET-KEY-1...)",
        74,
        new_identity,
        _copies("s3", "nfs", "rsync"),
        is_identity,
    ),
    Secret(
        "backup_target",
        "backup_target_s3_key",
        "GPUFLEET_SECRET_BACKUP_S3_KEY",
        "access key ID and secret access key of the store of backups, with a colon between",
        3,
        None,
        _copies("s3"),
        lambda value: all(value.partition(":")),
    ),
    Secret(
        "backup_target",
        "backup_target_ssh_key",
        "GPUFLEET_SECRET_BACKUP_SSH_KEY",
        "the ed25519 key file of the account on the backup host (no passphrase), as `base64 -w0` prints it",
        200,
        None,
        _copies("rsync"),
        _is_ssh_key,
    ),
    Secret(
        "prometheus",
        "prometheus_remote_write_password",
        "GPUFLEET_SECRET_REMOTE_WRITE_PASSWORD",
        "the password of monitoring.remote_write.username",
        1,
        None,
        _monitoring(lambda it: it.remote_write_user),
    ),
    Secret(
        "alertmanager",
        "alertmanager_slack_url",
        "GPUFLEET_SECRET_SLACK_URL",
        "the address of Slack's incoming webhook",
        9,
        None,
        _monitoring(lambda it: it.slack_channel),
    ),
    Secret(
        "alertmanager",
        "alertmanager_heartbeat_url",
        "GPUFLEET_SECRET_HEARTBEAT_URL",
        "the address of the service that alerts when monitoring ends",
        9,
        None,
        _monitoring(lambda it: it.heartbeat),
    ),
    Secret(
        "alertmanager",
        "alertmanager_webhook_token",
        "GPUFLEET_SECRET_WEBHOOK_TOKEN",
        "the bearer token of monitoring.alerts.webhook",
        1,
        None,
        _monitoring(lambda it: it.webhook_token),
    ),
    Secret(
        "alertmanager",
        "alertmanager_smtp_password",
        "GPUFLEET_SECRET_SMTP_PASSWORD",
        "the password of monitoring.alerts.email.username",
        1,
        None,
        _monitoring(lambda it: it.email_user),
    ),
    Secret(
        "grafana",
        "grafana_admin_password",
        "GPUFLEET_SECRET_GRAFANA_PASSWORD",
        "the password of Grafana's user admin, at least 12 characters",
        12,
        _random(32),
        _monitoring(lambda it: it.grafana),
    ),
)
"""All of them. Each says which rack sites need it."""


def missing_secrets(
    plan: FleetPlan, kept: Mapping[str, str], rotate: str = "", configured: Collection[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """New secrets by name for what `kept` lacks or `rotate` (a variable) names, and the names of those that
    are missing and cannot be made here.

    A rotated key that has encrypted data is kept as the previous one. Raises InputError where such a key
    would be lost, or is missing for hosts that are `configured`.
    """
    made: dict[str, str] = {}
    lacking: list[str] = []
    for site in plan.host_sites():
        for secret in SECRETS:
            if secret.optional or not secret.needed(site):
                continue
            name = secret.name(site.site)
            there = _look_up(secret, site.site, kept)
            if secret.make is None:
                lacking += [] if there else [name]
                continue
            if there and secret.variable != rotate:
                continue
            if secret.previous and rotate == secret.variable:
                made[_previous_slot(secret, site.site, kept)] = there
            elif secret.previous and any(host.name in configured for host in site.hosts):
                raise InputError(
                    f"{name} is missing, and the hosts of {site.site} were configured with one: a new key"
                    " reads none of their data",
                    remedy="bring back the vault file, or add the key with `ansible-vault edit`: it is in"
                    " /etc/kubernetes/gpufleet/encryption.yaml on each controller",
                )
            made[name] = secret.make()
    return made, tuple(lacking)


def _previous_slot(secret: Secret, site: str, kept: Mapping[str, str]) -> str:
    """The name under which a rotation keeps the current value. Raises InputError if it cannot."""
    name, slot = secret.name(site), f"{secret.previous}{secret.name(site).removeprefix(secret.prefix)}"
    if not _look_up(secret, site, kept):
        raise InputError(
            f"{name} is not in the vault file, and a rotation keeps it as the previous key",
            remedy="add the current key with `ansible-vault edit` first",
        )
    if kept.get(slot) or kept.get(secret.previous):
        raise InputError(
            f"{slot} is in the vault file already: another rotation would drop that key, and the cluster may"
            " still need it",
            remedy="run `gpufleet operate <env> rotate_encryption_key` to its end, then remove the entry with"
            " `ansible-vault edit`",
        )
    return slot


def collect_secrets(
    plan: FleetPlan,
    hosts: Collection[str],
    roles: Collection[str],
    environment: Mapping[str, str],
    vault: Callable[[], Mapping[str, str]],
    target: str = "",
) -> dict[str, str]:
    """The secrets that `roles` need on `hosts`, by environment variable; the environment before the vault.

    `vault` is only asked where the environment lacks one. Raises InputError that names all that are
    missing or unfit at once, never a value. `target` is the environment or fleet file of the command.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    needed = [
        (secret, site.site)
        for site in plan.host_sites()
        if any(host.name in hosts for host in site.hosts)
        for secret in SECRETS
        if secret.role in roles and secret.needed(site)
    ]
    opened: Mapping[str, str] | None = None
    for secret, site in needed:
        value = _look_up(secret, site, environment)
        if not value:
            opened = vault() if opened is None else opened
            value = _look_up(secret, site, opened)
        if secret.optional and not value:
            continue
        if problem := secret.problem(value):
            wrong.append(f"{secret.name(site)} {problem}")
        else:
            found[secret.name(site)] = value
    if wrong:
        raise InputError(
            f"{len(wrong)} secret{'s' if len(wrong) > 1 else ''} of {plan.environment}: {'; '.join(wrong)}",
            remedy=f"`gpufleet secrets new {target or plan.environment}` makes what is missing and keeps it"
            " in a vault file; or set them in the environment",
        )
    return found


def _look_up(secret: Secret, site: str, place: Mapping[str, str]) -> str:
    return place.get(secret.name(site)) or place.get(secret.prefix) or ""
