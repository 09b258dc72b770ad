"""PAM of sshd: logins need a job, administrators do not, and no other program is affected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import load

Run = Callable[..., dict[str, Any]]
ADMIN = "/usr/lib/gpufleet/ssh-admin"
# As in Debian 12 and Ubuntu 24.04.
SSHD = """\
@include common-auth
account    required     pam_nologin.so
# account  required     pam_access.so
@include common-account
session    required     pam_loginuid.so
@include common-session
session    required     pam_limits.so
@include common-password
"""
SESSION = """\
# a comment
session\t[default=1]\t\t\tpam_permit.so
session\trequisite\t\t\tpam_deny.so
session\trequired\t\t\tpam_permit.so
session\t[success=2 default=ignore]\tpam_succeed_if.so quiet uid < 1000
session\toptional\t\t\tpam_systemd.so
session\trequired\t\t\tpam_unix.so
"""


@pytest.fixture
def pam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("pam_sshd")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    (tmp_path / "sshd").write_text(SSHD)
    (tmp_path / "sshd").chmod(0o640)
    (tmp_path / "common-session").write_text(SESSION)
    return module


def stack(text: str, kind: str) -> list[list[str]]:
    """The lines of a stack, in words."""
    return [words for words in map(str.split, text.splitlines()) if words and words[0].lstrip("-") == kind]


def test_adoption_is_last_of_the_account_stack_and_administrators_jump_over_it(
    pam: ModuleType, run: Run, tmp_path: Path
) -> None:
    with_own = SSHD.replace(
        "session    required     pam_limits", "account required pam_access.so\nsession required pam_limits"
    )
    (tmp_path / "sshd").write_text(with_own)
    assert run(pam, tied=True, admin=ADMIN)["changed"]
    account = stack((tmp_path / "sshd").read_text(), "account")
    assert account[-3:] == [
        ["account", "required", "pam_access.so"],
        ["account", "[success=1", "default=ignore]", "pam_exec.so", "quiet", ADMIN],
        [
            *("-account", "required", "pam_slurm_adopt.so"),
            *("action_adopt_failure=deny", "action_generic_failure=deny"),
        ],
    ]


def test_pam_systemd_is_for_administrators_only_and_no_jump_changes(
    pam: ModuleType, run: Run, tmp_path: Path
) -> None:
    run(pam, tied=True, admin=ADMIN)
    text = (tmp_path / "sshd").read_text()
    assert "@include common-session" not in text.splitlines()
    assert [line[-1] if line[1] != "[success=ignore" else line[1:] for line in stack(text, "session")] == [
        "pam_loginuid.so",
        *("pam_permit.so", "pam_deny.so", "pam_permit.so"),
        "1000",
        "pam_permit.so",  # instead of pam_systemd, for the jump of the line above
        "pam_unix.so",
        ["[success=ignore", "default=1]", "pam_exec.so", "quiet", ADMIN],
        "pam_systemd.so",
        "pam_limits.so",
    ]
    assert (tmp_path / "common-session").read_text() == SESSION


def test_second_run_changes_nothing_and_a_change_of_common_session_is_followed(
    pam: ModuleType, run: Run, tmp_path: Path
) -> None:
    assert run(pam, check=True, tied=True, admin=ADMIN)["changed"]
    assert (tmp_path / "sshd").read_text() == SSHD
    run(pam, tied=True, admin=ADMIN)
    assert (tmp_path / "sshd").stat().st_mode & 0o777 == 0o640
    assert not run(pam, tied=True, admin=ADMIN)["changed"]
    (tmp_path / "common-session").write_text(f"{SESSION}session optional pam_mkhomedir.so\n")
    assert run(pam, tied=True, admin=ADMIN)["changed"]
    assert "pam_mkhomedir.so" in (tmp_path / "sshd").read_text()


def test_file_is_as_before_when_logins_need_no_job(pam: ModuleType, run: Run, tmp_path: Path) -> None:
    assert not run(pam, tied=False, admin=ADMIN)["changed"]
    run(pam, tied=True, admin=ADMIN)
    assert run(pam, tied=False, admin=ADMIN)["changed"]
    assert (tmp_path / "sshd").read_text() == SSHD


def test_missing_file_names_the_setting_that_needs_none(pam: ModuleType, run: Run, tmp_path: Path) -> None:
    (tmp_path / "sshd").unlink()
    assert "ssh_requires_job: false" in run(pam, tied=True, admin=ADMIN)["msg"]
    assert not run(pam, tied=False, admin=ADMIN)["changed"]
