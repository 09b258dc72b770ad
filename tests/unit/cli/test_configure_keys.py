"""`gpufleet hostkeys` and `gpufleet secrets new`: prerequisites of the first run."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from gpufleet.racks.configure.vault import read_vault
from tests.unit.cli.conftest import Gpufleet

PASSWORD = "a vault password"


@pytest.fixture
def vault(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUFLEET_VAULT_PASSWORD", PASSWORD)
    for name in ("GPUFLEET_SECRET_MUNGE_KEY", "GPUFLEET_SECRET_DATABASE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return workplace / "stacks" / "sandbox" / "secrets.yml"


def test_missing_secrets_are_generated_into_a_vault_and_never_shown(gpufleet: Gpufleet, vault: Path) -> None:
    reported = gpufleet("secrets", "new", "sandbox")
    assert reported.code == 0
    made = read_vault(vault, PASSWORD)
    assert set(made) == {"GPUFLEET_SECRET_MUNGE_KEY_LAB", "GPUFLEET_SECRET_DATABASE_PASSWORD_LAB"}
    assert vault.read_text().startswith("$ANSIBLE_VAULT;1.1;AES256")
    assert stat.S_IMODE(vault.stat().st_mode) == 0o600
    for value in made.values():
        assert len(value) >= 32
        assert value not in reported.out + reported.err + vault.read_text()
    again = gpufleet("secrets", "new", "sandbox", "--json")
    assert again.json["made"] == []
    assert read_vault(vault, PASSWORD) == made


def test_ansible_vault_opens_the_file(gpufleet: Gpufleet, vault: Path, tmp_path: Path) -> None:
    import sys

    gpufleet("secrets", "new", "sandbox")
    (tmp_path / "password").write_text(PASSWORD)
    shown = subprocess.run(
        [Path(sys.executable).with_name("ansible-vault"), "view", vault],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"ANSIBLE_VAULT_PASSWORD_FILE": str(tmp_path / "password"), "HOME": str(tmp_path)},
    )
    assert "GPUFLEET_SECRET_MUNGE_KEY_LAB: " in shown.stdout


def test_rotated_secret_changes_and_the_others_stay(gpufleet: Gpufleet, vault: Path) -> None:
    gpufleet("secrets", "new", "sandbox")
    before = read_vault(vault, PASSWORD)
    assert gpufleet("secrets", "new", "sandbox", "--rotate", "munge_key").code == 0
    after = read_vault(vault, PASSWORD)
    assert after["GPUFLEET_SECRET_MUNGE_KEY_LAB"] != before["GPUFLEET_SECRET_MUNGE_KEY_LAB"]
    assert after["GPUFLEET_SECRET_DATABASE_PASSWORD_LAB"] == before["GPUFLEET_SECRET_DATABASE_PASSWORD_LAB"]
    unknown = gpufleet("secrets", "new", "sandbox", "--rotate", "everything")
    assert (unknown.code, "munge_key" in unknown.err) == (2, True)


def test_nothing_is_written_with_a_missing_or_wrong_password(
    gpufleet: Gpufleet, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUFLEET_VAULT_PASSWORD")
    reported = gpufleet("secrets", "new", "sandbox")
    assert (reported.code, vault.exists()) == (2, False)
    assert "GPUFLEET_VAULT_PASSWORD" in reported.err
    monkeypatch.setenv("GPUFLEET_VAULT_PASSWORD", PASSWORD)
    gpufleet("secrets", "new", "sandbox")
    before = vault.read_bytes()
    monkeypatch.setenv("GPUFLEET_VAULT_PASSWORD", "another")
    wrong = gpufleet("secrets", "new", "sandbox", "--rotate", "munge_key")
    assert (wrong.code, vault.read_bytes() == before) == (2, True)
    assert "another" not in wrong.err


@pytest.mark.parametrize("text", ["GPUFLEET_SECRET_MUNGE_KEY: plain\n", "", "[1]"])
def test_unencrypted_vault_file_is_refused(gpufleet: Gpufleet, vault: Path, text: str) -> None:
    vault.write_text(text)
    reported = gpufleet("secrets", "new", "sandbox")
    assert reported.code == 2
    assert "is not encrypted" in reported.err


def test_password_may_be_in_a_file(
    gpufleet: Gpufleet, vault: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GPUFLEET_VAULT_PASSWORD")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("GPUFLEET_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    assert gpufleet("secrets", "new", "sandbox").code == 0
    assert read_vault(vault, PASSWORD)
    monkeypatch.setenv("GPUFLEET_VAULT_PASSWORD_FILE", str(tmp_path / "gone"))
    assert gpufleet("secrets", "new", "sandbox").code == 2


class Network:
    """A network whose hosts return prepared keys, as a stand-in for ssh-keyscan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = folder / "answers"
        tool = folder / "ssh-keyscan"
        tool.write_text(f'#!/bin/sh\nfor host in "$@"; do grep "^$host " {self.lines}; done\nexit 0\n')
        tool.chmod(0o755)
        self.lines.write_text("")

    def answer(self, host: str, name: str) -> str:
        """Generate a key for a host; its fingerprint."""
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        public = path.with_suffix(".pub").read_text().split()
        self.lines.write_text(f"{self.lines.read_text()}{host} {public[0]} {public[1]}\n")
        shown = subprocess.run(["ssh-keygen", "-l", "-f", path], capture_output=True, text=True, check=True)
        return shown.stdout.split()[1]


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network(tmp_path_factory.mktemp("network"))
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(made.folder))
    return made


def declare(workplace: Path, **fingerprints: str) -> None:
    path = workplace / "stacks" / "sandbox" / "fleet.yaml"
    listed = ", ".join(f'{name}: "{value}"' for name, value in fingerprints.items())
    old = "ssh: { user: ubuntu, domain: lab.example.com }"
    assert old in path.read_text()
    new = f"ssh: {{ user: ubuntu, domain: lab.example.com, fingerprints: {{ {listed} }} }}"
    path.write_text(path.read_text().replace(old, new))


def test_only_host_keys_with_the_declared_fingerprint_are_accepted(
    gpufleet: Gpufleet, workplace: Path, network: Network
) -> None:
    right = network.answer("ctl01.lab.example.com", "right")
    network.answer("dgx01.lab.example.com", "other")
    network.answer("login01.lab.example.com", "undeclared")
    declare(workplace, ctl01=right, dgx01=f"SHA256:{'a' * 43}")
    reported = gpufleet("hostkeys", "sandbox", "--json")
    assert reported.code == 4
    verdicts = {name: item["verdict"] for name, item in reported.json["hosts"].items()}
    assert verdicts == {
        "ctl01": "matches",
        "dgx01": "differs",
        "login01": "not-declared",
        "dgx02": "no-answer",
    }
    known = (workplace / "stacks" / "sandbox" / "known_hosts").read_text()
    assert "ctl01.lab.example.com" in known
    assert "dgx01" not in known and "login01" not in known
    assert gpufleet("hostkeys", "sandbox", "--limit", "ctl01", "--json").json["hosts"] == {}


def test_undeclared_host_keys_need_confirmation_and_differing_ones_are_refused(
    gpufleet: Gpufleet, workplace: Path, network: Network
) -> None:
    network.answer("dgx01.lab.example.com", "other")
    network.answer("login01.lab.example.com", "undeclared")
    declare(workplace, dgx01=f"SHA256:{'a' * 43}")
    reported = gpufleet("hostkeys", "sandbox", "--accept", "--yes")
    assert reported.code == 4
    assert "find the cause before you connect" in reported.err
    known = (workplace / "stacks" / "sandbox" / "known_hosts").read_text()
    assert "login01.lab.example.com ssh-ed25519" in known
    assert "dgx01" not in known


def test_answer_no_accepts_no_key(
    gpufleet: Gpufleet, workplace: Path, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    network.answer("login01.lab.example.com", "undeclared")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    reported = gpufleet("hostkeys", "sandbox", "--accept")
    assert reported.code == 1
    assert not (workplace / "stacks" / "sandbox" / "known_hosts").exists()
