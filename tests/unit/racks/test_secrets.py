"""Which secrets a site needs, and which of them can be made here."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gpufleet.errors import InputError
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.rack import plan_rack
from gpufleet.racks.secrets import SECRETS, collect_secrets, missing_secrets
from tests.unit.racks.conftest import declared_site

RECEIVERS = {
    "remote_write": {"url": "https://metrics.example.com/push", "username": "dc1"},
    "alerts": {
        "webhook": {"url": "https://hooks.example.com/", "token": True},
        "slack": {"channel": "#gpu"},
        "heartbeat": True,
        "email": {"to": ["a@b.c"], "sender": "d@b.c", "server": "mail.b.c:587", "username": "d"},
    },
}
SLURM = {"munge_key", "slurm_database_password"}
KUBERNETES = {"kubernetes_control_plane_encryption_key"}
ALL = SLURM | {
    *("prometheus_remote_write_password", "alertmanager_slack_url", "alertmanager_webhook_token"),
    *("alertmanager_smtp_password", "alertmanager_heartbeat_url", "grafana_admin_password"),
}


def variables(names: Iterable[str]) -> set[str]:
    """The roles' variables behind the secrets of the site dc1."""
    return {secret.variable for secret in SECRETS if f"{secret.prefix}_DC1" in names}


@pytest.mark.parametrize(
    ("declared", "needed"),
    [
        ({}, SLURM),
        ({"monitoring": {}}, SLURM | {"grafana_admin_password"}),
        ({"monitoring": {"grafana": False}}, SLURM),
        ({"backups": {"nfs": {"source": "nas01:/b"}}}, SLURM | {"backup_target_identity"}),
        (
            {"backups": {"s3": {"url": "s3://atlas-b/dc1"}}},
            SLURM | {"backup_target_identity", "backup_target_s3_key"},
        ),
        (
            {"backups": {"rsync": {"to": "a@b:/c", "host_key": "ssh-ed25519 AAAA"}}},
            SLURM | {"backup_target_identity", "backup_target_ssh_key"},
        ),
        ({"monitoring": RECEIVERS}, ALL),
        ({"monitoring": {"grafana": False}, "scheduler": "kubernetes"}, KUBERNETES),
        ({"monitoring": RECEIVERS, "scheduler": "kubernetes"}, ALL - SLURM | KUBERNETES),
    ],
)
def test_site_needs_only_the_secrets_of_its_features(make_fleet, make_rack, declared, needed) -> None:
    fleet = make_fleet(make_rack(rack=plan_rack(declared_site(**declared))))
    made, lacking = missing_secrets(fleet, {})
    assert variables({*made, *lacking}) == needed


def test_secrets_of_other_systems_cannot_be_generated(make_fleet, make_rack) -> None:
    fleet = make_fleet(make_rack(rack=plan_rack(declared_site(monitoring=RECEIVERS))))
    made, lacking = missing_secrets(fleet, {})
    assert variables(made) == SLURM | {"grafana_admin_password"}
    assert variables(lacking) == ALL - SLURM - {"grafana_admin_password"}


def test_all_missing_secrets_are_named_at_once_without_values(make_fleet, make_rack) -> None:
    fleet = make_fleet(make_rack(rack=plan_rack(declared_site(monitoring=RECEIVERS))))
    roles = {"prometheus", "alertmanager", "grafana"}
    given = {"GPUFLEET_SECRET_SLACK_URL_DC1": "https://hooks.slack.example.com/x"}
    given |= {"GPUFLEET_SECRET_GRAFANA_PASSWORD": "too-short"}
    with pytest.raises(InputError) as error:
        collect_secrets(fleet, ["ctl01"], roles, given, dict)
    reported = str(error.value)
    assert "5 secrets" in reported
    for name in (
        "REMOTE_WRITE_PASSWORD",
        "WEBHOOK_TOKEN",
        "SMTP_PASSWORD",
        "HEARTBEAT_URL",
        "GRAFANA_PASSWORD",
    ):
        assert f"GPUFLEET_SECRET_{name}_DC1" in reported
    assert "SLACK_URL" not in reported and "too-short" not in reported


def test_remedy_names_what_the_command_was_given(make_fleet, make_rack) -> None:
    fleet = make_fleet(make_rack(rack=plan_rack(declared_site(monitoring=RECEIVERS))))
    with pytest.raises(InputError) as error:
        collect_secrets(fleet, ["ctl01"], {"grafana"}, {}, dict, "racks/fleet.yaml")
    assert "`gpufleet secrets new racks/fleet.yaml`" in (error.value.remedy or "")


KEY, PREVIOUS = (f"GPUFLEET_SECRET_KUBERNETES_{word}ENCRYPTION_KEY_DC1" for word in ("", "PREVIOUS_"))
ROTATED = "kubernetes_control_plane_encryption_key"


@pytest.fixture
def kubernetes(make_fleet, make_rack) -> FleetPlan:
    return make_fleet(make_rack(rack=plan_rack(declared_site(scheduler="kubernetes"))))


def test_rotated_encryption_key_is_kept_as_the_previous_one(kubernetes: FleetPlan) -> None:
    made, _ = missing_secrets(kubernetes, {KEY: "former"}, ROTATED)
    assert made[PREVIOUS] == "former" and made[KEY] not in ("", "former")
    # Of one entry for all sites, too.
    made, _ = missing_secrets(kubernetes, {KEY.removesuffix("_DC1"): "former"}, ROTATED)
    assert made[PREVIOUS] == "former"


@pytest.mark.parametrize(
    ("kept", "says"),
    [({KEY: "b", PREVIOUS: "a"}, "another rotation would drop that key"), ({}, "is not in the")],
)
def test_rotation_that_would_lose_an_encryption_key_is_refused(
    kubernetes: FleetPlan, kept, says: str
) -> None:
    with pytest.raises(InputError, match=says) as error:
        missing_secrets(kubernetes, kept, ROTATED)
    assert error.value.remedy


def test_no_new_encryption_key_is_made_for_hosts_that_have_one(kubernetes: FleetPlan) -> None:
    with pytest.raises(InputError, match=f"{KEY} is missing, and the hosts of dc1 were configured"):
        missing_secrets(kubernetes, {}, configured=["ctl01"])
    assert KEY in missing_secrets(kubernetes, {}, configured=["another"])[0]
    assert missing_secrets(kubernetes, {KEY: "there"}, configured=["ctl01"]) == ({}, ())


def test_previous_encryption_key_is_passed_on_only_if_there_is_one(kubernetes: FleetPlan) -> None:
    key = "A" * 43 + "="
    for given in ({KEY: key}, {KEY: key, PREVIOUS: key}):
        assert collect_secrets(kubernetes, ["ctl01"], {"kubernetes_control_plane"}, given, dict) == given
    with pytest.raises(InputError, match="PREVIOUS_ENCRYPTION_KEY_DC1 has 5 characters"):
        collect_secrets(
            kubernetes, ["ctl01"], {"kubernetes_control_plane"}, {KEY: key, PREVIOUS: "short"}, dict
        )
