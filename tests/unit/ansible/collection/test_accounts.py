"""Accounts: what is missing on a host, as descriptions and commands of a real run."""

from __future__ import annotations

import grp
import pwd
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

from tests.unit.ansible.collection.conftest import load

ADA = {"name": "ada", "uid": 2001, "gid": 2001, "groups": ["vision"], "ssh_keys": ["ssh-ed25519 AAAA ada"]}
VISION = {"name": "vision", "gid": 3000}


@pytest.fixture
def module() -> ModuleType:
    return load("accounts")


def host(module: ModuleType, users: str = "", groups: str = "", locked: str = "") -> Any:
    """A host from lines as in /etc/passwd (name:uid:gid) and /etc/group (name:gid:members)."""
    people = {}
    for line in users.split():
        name, uid, gid = line.split(":")
        people[name] = pwd.struct_passwd((name, "x", int(uid), int(gid), "", f"/home/{name}", "/bin/bash"))
    teams = {}
    for line in groups.split():
        name, gid, members = line.split(":")
        teams[name] = grp.struct_group((name, "x", int(gid), [word for word in members.split(",") if word]))
    return module.HostAccounts(people, teams, set(locked.split()))


def steps(
    module: ModuleType, there: Any, tmp_path: Path, made: list[str] | None = None, **more: Any
) -> list[str]:
    params = {
        "groups": [VISION],
        "accounts": [ADA],
        "homes": "/home",
        "make_homes": True,
        "shell": "/bin/bash",
    }
    params |= {"keys": str(tmp_path)} | more
    module.refuse_conflicts(there, params["groups"], params["accounts"])
    return [
        " ".join(step.command) or f"write {Path(step.path).name}"
        if step.text is not None or step.command
        else f"remove {Path(step.path).name}"
        for step in module.plan(params, there, made or [])
    ]


def test_bare_host_gets_groups_then_the_account_then_its_keys(module: ModuleType, tmp_path: Path) -> None:
    assert steps(module, host(module), tmp_path) == [
        "groupadd -g 3000 vision",
        "groupadd -g 2001 ada",
        "useradd -u 2001 -g 2001 -s /bin/bash -d /home/ada -m -p * -G vision ada",
        "write ada",
    ]


def test_configured_host_needs_no_change(module: ModuleType, tmp_path: Path) -> None:
    there = host(module, "ada:2001:2001", "ada:2001: vision:3000:ada docker:999:ada")
    (tmp_path / "ada").write_text(f"{module.HEADER}ssh-ed25519 AAAA ada\n")
    assert steps(module, there, tmp_path) == []


def test_memberships_follow_the_file_and_local_groups_stay(module: ModuleType, tmp_path: Path) -> None:
    there = host(module, "ada:2001:2001", "ada:2001: vision:3000: audio:3001:ada docker:999:ada")
    known = [VISION, {"name": "audio", "gid": 3001}]
    assert "usermod -G docker,vision ada" in steps(module, there, tmp_path, groups=known)


def test_killed_run_is_completed(module: ModuleType, tmp_path: Path) -> None:
    assert steps(module, host(module, "", "vision:3000:"), tmp_path)[0] == "groupadd -g 2001 ada"
    there = host(module, "ada:2001:2001", "ada:2001: vision:3000:")
    assert steps(module, there, tmp_path) == ["usermod -G vision ada", "write ada"]


@pytest.mark.parametrize(
    ("users", "groups", "reported"),
    [
        ("eve:2001:2001", "", "uid 2001 of ada belongs to eve"),
        ("ada:1500:2001", "", "ada has uid 1500 on this host and 2001"),
        ("", "games:3000:", "gid 3000 of vision belongs to games"),
        ("", "vision:2999:", "vision has gid 2999 on this host and 3000"),
        ("", "eve:2001:", "gid 2001 of ada belongs to the group eve"),
    ],
)
def test_id_that_is_in_use_is_refused(
    users: str, groups: str, reported: str, module: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(RefusalError, match=reported) as refused:
        steps(module, host(module, users, groups), tmp_path)
    assert "usermod -u" in str(refused.value) and "Nothing was changed" in str(refused.value)


def test_all_conflicts_are_reported_at_once(module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RefusalError) as refused:
        steps(
            module,
            host(module, "eve:2001:2001", "games:3000:"),
            tmp_path,
            accounts=[ADA | {"groups": ["no"]}],
        )
    for part in ("belongs to eve", "belongs to games", "in the group no"):
        assert part in str(refused.value)


def test_private_group_may_be_one_of_the_file(module: ModuleType, tmp_path: Path) -> None:
    shared = ADA | {"gid": 3000, "groups": []}
    assert steps(module, host(module), tmp_path, accounts=[shared])[:2] == [
        "groupadd -g 3000 vision",
        "useradd -u 2001 -g 3000 -s /bin/bash -d /home/ada -m -p * ada",
    ]


def test_only_managed_accounts_are_locked_and_none_is_deleted(module: ModuleType, tmp_path: Path) -> None:
    there = host(module, "ada:2001:2001 old:1000:1000", "ada:2001: old:1000: vision:3000:")
    (tmp_path / "ada").write_text(f"{module.HEADER}ssh-ed25519 AAAA ada\n")
    (tmp_path / "hand").write_text("ssh-ed25519 AAAA by hand\n")
    found = steps(module, there, tmp_path, made=["ada", "gone"], accounts=[])
    assert found == ["remove ada", "usermod -L -e 1 ada"]
    assert not any("userdel" in step for step in found)


def test_locked_account_stays_locked_until_it_is_listed_again(module: ModuleType, tmp_path: Path) -> None:
    there = host(module, "ada:2001:2001", "ada:2001: vision:3000:ada", locked="ada")
    assert steps(module, there, tmp_path, made=["ada"], accounts=[]) == []
    assert steps(module, there, tmp_path, made=["ada"]) == ["usermod -e  ada", "write ada"]


def test_homes_on_a_shared_file_system_are_not_created(module: ModuleType, tmp_path: Path) -> None:
    found = steps(module, host(module), tmp_path, make_homes=False, homes="/shared/home/")
    assert "useradd -u 2001 -g 2001 -s /bin/bash -d /shared/home/ada -M -p * -G vision ada" in found
