"""The prolog of cloud nodes: the job's user, and names of its nodes in /etc/hosts."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.loading import load_source

PROGRAM = Path(__file__).resolve().parents[3] / "ansible/roles/slurm_cloud_node/files/prolog"
BEFORE = "127.0.0.1 localhost\n10.40.0.9 use1-sweep-9 # gpufleet cloud node\n"


@pytest.fixture
def prolog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_source(PROGRAM, "cloud_prolog")
    hosts = tmp_path / "hosts"
    hosts.write_text(BEFORE)
    switch = tmp_path / "nsswitch.conf"
    switch.write_text("passwd: files systemd\n")
    monkeypatch.setattr(module, "HOSTS", hosts)
    monkeypatch.setattr(module, "SWITCH", switch)
    for name in ("USER", "UID", "GID"):
        monkeypatch.delenv(f"SLURM_JOB_{name}", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    return module


def answer(prolog: Any, monkeypatch: pytest.MonkeyPatch, *nodes: tuple[str, str]) -> None:
    """Let Slurm answer with these nodes and their addresses."""

    def output_of(*words: str) -> str:
        if words[0] == "squeue":
            return "use1-sweep-[1-2]\n"
        assert words == ("scontrol", "-o", "show", "node", "use1-sweep-[1-2]")
        return "".join(
            f"NodeName={name} Arch=x86_64 CoresPerSocket=1 NodeAddr={address} NodeHostName={name} Port=1\n"
            for name, address in nodes
        )

    monkeypatch.setattr(prolog, "output_of", output_of)


def test_names_of_the_nodes_are_added_and_replaced(prolog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(prolog, monkeypatch, ("use1-sweep-1", "10.40.0.4"), ("use1-sweep-2", "10.40.0.5"))
    assert prolog.main() == 0
    answer(prolog, monkeypatch, ("use1-sweep-1", "10.40.0.6"), ("use1-sweep-2", "10.40.0.5"))
    assert prolog.main() == 0
    assert prolog.HOSTS.read_text() == (
        f"{BEFORE}10.40.0.6 use1-sweep-1 # gpufleet cloud node\n"
        "10.40.0.5 use1-sweep-2 # gpufleet cloud node\n"
    )
    assert prolog.HOSTS.stat().st_mode & 0o777 == 0o644


def test_nodes_that_are_known_by_name_are_left_to_name_servers(
    prolog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(prolog, monkeypatch, ("dgx01", "dgx01"))
    assert prolog.main() == 0
    assert prolog.HOSTS.read_text() == BEFORE


def test_job_starts_without_names_if_slurm_does_not_answer(
    prolog: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prolog, "addresses", lambda _: prolog.output_of("/nonexistent/scontrol"))
    monkeypatch.setattr(prolog, "nodes", lambda: "use1-sweep-1")
    assert prolog.main() == 0
    assert prolog.HOSTS.read_text() == BEFORE
    assert "No such file" in capsys.readouterr().err


def created(
    prolog: Any, monkeypatch: pytest.MonkeyPatch, user: str, uid: int, gid: int
) -> list[tuple[str, ...]]:
    """The commands that create the user of a job."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(prolog, "output_of", lambda *words: commands.append(words) or "")
    for name, value in (("USER", user), ("UID", uid), ("GID", gid)):
        monkeypatch.setenv(f"SLURM_JOB_{name}", str(value))
    prolog.create_user()
    return commands


UNKNOWN = 54_321


def test_user_that_the_image_lacks_is_created_with_the_numbers_of_the_job(
    prolog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, user = created(prolog, monkeypatch, "ada", UNKNOWN, UNKNOWN + 1)
    assert group == ("groupadd", "--gid", "54322", "ada")
    assert user[:5] == ("useradd", "--uid", "54321", "--gid", "54322")
    assert user[-1] == "ada"
    # A group of that number may exist.
    (only,) = created(prolog, monkeypatch, "ada", UNKNOWN, 0)
    assert only[0] == "useradd"


@pytest.mark.parametrize(("user", "uid"), [("root", 0), ("daemon", 999), ("-x", UNKNOWN), ("a b", UNKNOWN)])
def test_accounts_of_the_system_and_strange_names_are_left(
    prolog: Any, monkeypatch: pytest.MonkeyPatch, user: str, uid: int
) -> None:
    assert created(prolog, monkeypatch, user, uid, uid) == []


def test_known_user_is_left(prolog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prolog, "is_known", lambda uid: uid == UNKNOWN)
    assert created(prolog, monkeypatch, "ada", UNKNOWN, UNKNOWN) == []


def test_user_comes_from_the_job_where_slurm_has_its_name_service(
    prolog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prolog.SWITCH.write_text("# slurm\npasswd:         slurm files systemd\n")
    assert created(prolog, monkeypatch, "ada", UNKNOWN, UNKNOWN) == []


def test_job_starts_if_its_user_cannot_be_created(
    prolog: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(prolog, monkeypatch, ("use1-sweep-1", "10.40.0.4"))
    monkeypatch.setattr(
        prolog, "create_user", lambda: prolog.subprocess.run(["/nonexistent/useradd"], check=True)
    )
    assert prolog.main() == 0
    assert "use1-sweep-1" in prolog.HOSTS.read_text()
    assert "user: FileNotFoundError" in capsys.readouterr().err
