"""Accounts: only differences are changed, only managed objects removed, and check mode reports the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import sacctmgr

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
# Prints the requested table; changing commands are logged, and only accounts of users change a table.
# As in Slurm 23.11 and later, the default account of a user who has others is not removed.
SACCTMGR = """\
case "$*" in
  "-i add user "*) echo "${5#account=}|$4||normal|normal" >>{folder}/assoc;;
  "-i modify user where "*DefaultAccount=*)
    sed -i "s/^${5#name=}|.*/${5#name=}|${8#DefaultAccount=}/" {folder}/user;;
  "-i delete user where "*)
    if grep -qx "${5#name=}|${6#account=}" {folder}/user && [ $(grep -c "|${5#name=}|" {folder}/assoc) -gt 1 ]
    then
      echo " You must change the default account of these users" >&2
      echo " Changes Discarded" >&2
      exit 1
    fi
    sed -i "/^${6#account=}|${5#name=}|/d" {folder}/assoc;;
  *" show "*) for word in "$@"; do [ "$last" = show ] && cat {folder}/$word; last=$word; done;;
esac
exit 0
"""
QOS = [
    {"name": "low", "priority": 0, "preempts": [], "max_gpus_per_user": -1, "max_minutes": 0},
    {"name": "normal", "priority": 100, "preempts": ["low"], "max_gpus_per_user": -1, "max_minutes": 0},
    {
        "name": "high",
        "priority": 1000,
        "preempts": ["normal", "low"],
        "max_gpus_per_user": 8,
        "max_minutes": 90,
    },
]
HIGH = "Priority=1000 Preempt=low,normal MaxTRESPerUser=gres/gpu=8 MaxWall=90"
ACCOUNTS = [{"name": "research", "gpus": 16, "qos": "normal", "users": ["ada"]}]
WANTED: dict[str, Any] = {"cluster": "dc1", "qos": QOS, "accounts": ACCOUNTS, "timeout_s": 0}
TABLES = {
    "cluster": "dc1",
    "tres": "cpu|\nmem|\ngres|gpu",
    "qos": "normal|100|low||\nlow|0|||\nhigh|1000|low,normal|gres/gpu=8|01:30:00",
    "assoc": (
        "root||||normal\nroot|root|||normal\nresearch||gres/gpu=16|normal|low,normal\n"
        "research|ada||normal|low,normal"
    ),
    "user": "root|root\nada|research",
}


class Accounting:
    """Prepared output of sacctmgr, and its changing calls."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self.folder, self.programs = folder, programs
        folder.mkdir()
        programs.add("sacctmgr", SACCTMGR.replace("{folder}", str(folder)))
        self.shows()

    def shows(self, **tables: str) -> None:
        for name, text in (TABLES | tables).items():
            (self.folder / name).write_text(text + "\n")

    def asked(self) -> list[str]:
        """Changing commands since the last call."""
        calls = self.programs.called("sacctmgr -i ")
        self.programs.log.unlink(missing_ok=True)
        return [line.removeprefix("sacctmgr -i ") for line in calls]


@pytest.fixture
def accounting(programs: Programs, tmp_path: Path) -> Accounting:
    return Accounting(tmp_path / "accounting", programs)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = load("slurm_accounting")
    monkeypatch.setattr(found, "RECORD", tmp_path / "record" / "slurm-accounting.json")
    return found


def test_matching_associations_are_unchanged(module: ModuleType, accounting: Accounting, run: Run) -> None:
    assert run(module, **WANTED)["changed"] is False
    assert accounting.asked() == []


def test_everything_is_created_in_an_order_that_sacctmgr_accepts(
    module: ModuleType, accounting: Accounting, run: Run
) -> None:
    accounting.shows(qos="normal|0|||", assoc="root||||normal")
    predicted = run(module, check=True, **WANTED)
    assert accounting.asked() == []
    done = run(module, **WANTED)
    assert done["commands"] == predicted["commands"] == accounting.asked()
    assert done["commands"] == [
        "add qos low Description=gpufleet",
        "add qos high Description=gpufleet",
        "modify qos where name=normal set Priority=100 Preempt=low",
        f"modify qos where name=high set {HIGH}",
        "add account research cluster=dc1 Description=gpufleet Organization=gpufleet",
        "modify account where name=research cluster=dc1 set QOS=low,normal DefaultQOS=normal",
        "modify account where name=research cluster=dc1 set GrpTRES=gres/gpu=16",
        "add user ada account=research cluster=dc1",
    ]


def test_removed_limit_is_removed_in_slurm(module: ModuleType, accounting: Accounting, run: Run) -> None:
    free = [*QOS[:2], QOS[2] | {"max_gpus_per_user": -1, "max_minutes": 0, "preempts": []}]
    run(module, **WANTED | {"qos": free})
    assert accounting.asked() == [
        "modify qos where name=high set Preempt= MaxTRESPerUser=gres/gpu=-1 MaxWall=-1"
    ]


def test_account_may_use_its_qos_lower_ones_and_unranked_ones(module: ModuleType) -> None:
    urgent = {"name": "urgent", "priority": 5000, "preempts": [], "max_gpus_per_user": -1, "max_minutes": 0}
    state = module.wanted([*QOS, urgent], ACCOUNTS)
    assert state["accounts"]["research"]["qos"] == ["low", "normal", "urgent"]


def test_managed_associations_are_removed_and_manual_ones_stay(
    module: ModuleType, accounting: Accounting, run: Run
) -> None:
    module.remember(
        module.RECORD,
        {"qos": {"old"}, "accounts": {"vision", "shared"}, "users": {("vision", "bob"), ("research", "eve")}},
    )
    accounting.shows(
        qos=TABLES["qos"] + "\nold|1|||\nmine|7|||",
        assoc=TABLES["assoc"]
        + "\nvision||gres/gpu=8|low|low\nvision|bob||low|low\nresearch|eve||normal|normal"
        "\nshared||||normal\nshared|guest|||normal\nguests||||normal\nresearch|zoe||normal|normal",
    )
    run(module, **WANTED)
    assert accounting.asked() == [
        "delete user where name=eve account=research cluster=dc1",
        "delete user where name=bob account=vision cluster=dc1",
        "delete account where name=vision cluster=dc1",
        "delete qos where name=old",
    ]
    # `shared` has another user: it stays, and stays managed.
    assert json.loads(module.RECORD.read_text()) == {"qos": [], "accounts": ["shared"], "users": []}
    assert module.RECORD.stat().st_mode & 0o777 == 0o600


def test_default_account_of_a_moved_user_changes_before_the_removal(
    module: ModuleType, accounting: Accounting, run: Run
) -> None:
    """Upstream: src/plugins/accounting_storage/mysql/accounting_storage_mysql.c of Slurm 23.11.4."""
    module.remember(
        module.RECORD,
        {"qos": set(), "accounts": set(), "users": {("old", "ada"), ("old", "eve"), ("old", "bob")}},
    )
    accounting.shows(
        assoc=TABLES["assoc"] + "\nold||||normal\nold|ada||normal|normal\nold|eve||normal|normal"
        "\nold|bob||normal|normal\nguests||||normal\nguests|bob|||normal",
        user="root|root\nada|old\neve|old\nbob|guests",
    )
    done = run(module, **WANTED)
    # eve has no other account, and the default account of bob stays.
    assert done["commands"] == accounting.asked()
    assert done["commands"] == [
        "modify user where name=ada cluster=dc1 set DefaultAccount=research",
        "delete user where name=ada account=old cluster=dc1",
        "delete user where name=bob account=old cluster=dc1",
        "delete user where name=eve account=old cluster=dc1",
    ]


@pytest.mark.parametrize("default", ["old", "vision"])
def test_default_account_becomes_a_listed_one_also_if_it_is_new(
    module: ModuleType, accounting: Accounting, run: Run, default: str
) -> None:
    module.remember(module.RECORD, {"qos": set(), "accounts": {"vision"}, "users": {("vision", "ada")}})
    accounting.shows(
        assoc=TABLES["assoc"].replace("research|ada", "vision|ada") + "\nvision||||normal",
        user=f"ada|{default}",
    )
    commands = run(module, **WANTED)["commands"]
    changed = ["modify user where name=ada cluster=dc1 set DefaultAccount=research"]
    assert commands == [
        "add user ada account=research cluster=dc1",
        *(changed if default == "vision" else []),
        "delete user where name=ada account=vision cluster=dc1",
        "delete account where name=vision cluster=dc1",
    ]


def test_created_associations_are_recorded_as_managed(
    module: ModuleType, accounting: Accounting, run: Run
) -> None:
    more = [*ACCOUNTS, {"name": "vision", "gpus": 8, "qos": "low", "users": ["ada"]}]
    run(module, **WANTED | {"accounts": more})
    assert json.loads(module.RECORD.read_text()) == {
        "qos": [],
        "accounts": ["vision"],
        "users": [["vision", "ada"]],
    }


@pytest.mark.parametrize("how", ["missing", "silent", "unregistered"])
def test_check_mode_works_before_accounting_answers(
    module: ModuleType, accounting: Accounting, programs: Programs, run: Run, how: str
) -> None:
    if how == "missing":
        (programs.folder / "sacctmgr").unlink()
    elif how == "silent":
        programs.add("sacctmgr", "echo 'Connection refused' >&2; exit 1")
    else:
        accounting.shows(tres="cpu|\nmem|")
    assert run(module, check=True, **WANTED)["changed"] is True
    failed = run(module, **WANTED)
    assert failed["failed"]
    assert "journalctl -u slurmdbd -u slurmctld" in failed["msg"]


def test_refusal_due_to_running_jobs_gives_a_remedy(
    module: ModuleType, accounting: Accounting, programs: Programs, run: Run
) -> None:
    module.remember(module.RECORD, {"qos": set(), "accounts": set(), "users": {("research", "eve")}})
    accounting.shows(assoc=TABLES["assoc"] + "\nresearch|eve||normal|normal")
    refuse = 'case "$1" in -i) echo "Job(s) active, cancel job(s) before remove"; exit 1;; esac\n'
    programs.add("sacctmgr", refuse + SACCTMGR.replace("{folder}", str(accounting.folder)))
    failed = run(module, **WANTED)
    assert "Jobs of it still run" in failed["msg"]
    assert json.loads(module.RECORD.read_text())["users"] == [["research", "eve"]]


@pytest.mark.parametrize(
    ("text", "minutes"), [("", 0), ("01:30:00", 90), ("7-00:00:00", 10080), ("1-02:03:00", 1563)]
)
def test_times_are_parsed_in_slurm_format(text: str, minutes: int) -> None:
    assert sacctmgr.minutes_of(text) == minutes
