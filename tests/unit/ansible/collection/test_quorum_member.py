"""Members of a quorum: one leaves only if the others run, and the next only when it is back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
module = load("quorum_member")


@pytest.fixture(autouse=True)
def host(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host ctl01 with no service."""
    monkeypatch.setattr(module.socket, "gethostname", lambda: "ctl01.example.com")
    monkeypatch.setattr(module, "ETCD", tmp_path / "etcd.yaml")
    monkeypatch.setattr(module, "POLL_S", 0)
    programs.add("systemctl", "exit 1")


def controllers(programs: Programs, **states: str) -> None:
    # As scontrol of 22.05 and 25.05 prints it.
    lines = [
        f"Slurmctld({role}) at {host} is {state}"
        for role, (host, state) in zip(("primary", "backup", "backup2"), states.items(), strict=False)
    ]
    programs.add("systemctl", 'case "$*" in *slurmctld*) exit 0;; esac; exit 1')
    programs.add("scontrol", f"cat <<'END'\n{chr(10).join(lines)}\nEND")


def members(programs: Programs, **ready: bool) -> None:
    module.ETCD.touch()
    pods = [
        {
            "spec": {"nodeName": name},
            "status": {"conditions": [{"type": "Ready", "status": "True" if up else "False"}]},
        }
        for name, up in ready.items()
    ]
    programs.add("kubectl", f"cat <<'END'\n{json.dumps({'items': pods})}\nEND")


def test_host_without_services_may_always_leave(run: Run) -> None:
    assert run(module, state="may_leave")["services"] == []
    assert run(module, state="back")["services"] == []


@pytest.mark.parametrize(
    ("states", "may"),
    [
        ({"ctl01": "UP"}, True),
        ({"ctl01": "UP", "ctl02": "UP"}, True),
        ({"ctl01": "UP", "ctl02": "DOWN"}, False),
    ],
)
def test_controller_stays_if_the_other_one_is_down(
    run: Run, programs: Programs, states: dict[str, str], may: bool
) -> None:
    controllers(programs, **states)
    answer = run(module, state="may_leave")
    assert bool(answer.get("failed")) is not may
    if not may:
        assert (
            "ctl01 must not reboot: ctl02 of slurmctld does not answer, and 1 other member must"
            in answer["msg"]
        )


@pytest.mark.parametrize(
    ("ready", "may"),
    [
        ({"ctl01": True}, True),
        ({"ctl01": True, "ctl02": True, "ctl03": True}, True),
        ({"ctl01": True, "ctl02": True, "ctl03": False}, False),
        ({"ctl01": False, "ctl02": True, "ctl03": True}, True),
        ({"ctl01": True, "ctl02": True, "ctl03": True, "ctl04": True, "ctl05": False}, True),
    ],
)
def test_member_of_etcd_stays_if_the_others_have_no_quorum(
    run: Run, programs: Programs, ready: dict[str, bool], may: bool
) -> None:
    members(programs, **ready)
    assert bool(run(module, state="may_leave").get("failed")) is not may


def test_services_are_awaited_and_missing_ones_are_named(run: Run, programs: Programs) -> None:
    controllers(programs, ctl01="UP", ctl02="DOWN")
    members(programs, ctl01=True)
    assert run(module, state="back", wait_s=0)["services"] == ["slurmctld", "etcd"]
    controllers(programs, ctl01="DOWN", ctl02="UP")
    members(programs, ctl01=False, ctl02=True)
    reported = run(module, state="back", wait_s=0)["msg"]
    assert "ctl01 is not back 0 s after its reboot: slurmctld does not answer" in reported
    assert "its member of etcd is not ready. No other member is rebooted" in reported


def test_database_and_subnet_manager_must_run_again(run: Run, programs: Programs) -> None:
    programs.add("systemctl", 'case "$*" in is-enabled*slurmctld*|is-active*) exit 1;; esac')
    programs.add("sacctmgr", "echo 'Unable to connect to database' >&2; exit 1")
    reported = run(module, state="back", wait_s=0)["msg"]
    for why in (
        "slurmdbd does not answer: Unable to connect",
        "mariadb.service is not",
        "gpufleet-opensm.service is not",
    ):
        assert why in reported
