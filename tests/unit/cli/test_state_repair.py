"""`gpufleet state show`, `import`, `unlock` and `repair` on real files, with their refusals."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpufleet.engine.embedded import admin, checkpoint
from gpufleet.engine.embedded.journal import StateJournal, journal_of
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.embedded.stored_state import load_state

from .conftest import STACK, VPC, FakeEngine, Gpufleet

SUBNET = VPC.replace("vpc:Vpc", "subnet:Subnet").replace("-vpc", "-subnet")
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


def stack() -> dict[str, Any]:
    return {"urn": STACK, "custom": False, "type": "pulumi:pulumi:Stack"}


def vpc(**fields: Any) -> dict[str, Any]:
    return {
        "urn": VPC, "custom": True, "id": "vpc-1", "type": "aws:ec2/vpc:Vpc", "parent": STACK, **fields
    }  # fmt: skip


def subnet(**fields: Any) -> dict[str, Any]:
    return {
        "urn": SUBNET, "custom": True, "id": "subnet-1", "type": "aws:ec2/subnet:Subnet", "parent": STACK,
        "dependencies": [VPC], **fields,
    }  # fmt: skip


def exported(*resources: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"version": 3, "deployment": {"resources": list(resources), **more}}).encode()


@pytest.fixture
def state_file(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state of dev with a VPC, and one backup without it."""
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    path = workplace / ".gpufleet" / "state" / "aws" / "dev.json"
    checkpoint.save(path, [stack()], [], "")
    checkpoint.save(path, [stack(), vpc()], [], "")
    return path


def urns(path: Path) -> list[str]:
    return [item["urn"] for item in load_state(path).replayed.resources]


# -- show


def test_show_prints_a_resource_with_masked_secrets(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    secret = {**SECRET, "ciphertext": "v1:n:c"}
    engine.state = {
        "version": 3,
        "deployment": {"resources": [stack(), vpc(inputs={"x": [secret], "y": 1})]},
    }
    for asked in (VPC, "atlas-dev-use1-vpc"):
        answer = gpufleet("state", "show", "dev", asked)
        assert answer.code == 0
        assert json.loads(answer.out) == vpc(inputs={"x": ["[secret]"], "y": 1})
    assert gpufleet("state", "show", "dev", VPC, "--json").json["resources"][0]["id"] == "vpc-1"


def test_show_of_an_unknown_resource_suggests_the_nearest(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.state = {"version": 3, "deployment": {"resources": [stack(), vpc()]}}
    answer = gpufleet("state", "show", "dev", "atlas-dev-use1-vpx")
    assert answer.code == 2
    assert "did you mean 'atlas-dev-use1-vpc'?" in answer.err
    assert "gpufleet state list dev" in answer.err


def test_show_of_an_ambiguous_name_lists_the_matches(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    other = vpc(urn=VPC.replace("Vpc::", "Other::"))
    engine.state = {"version": 3, "deployment": {"resources": [stack(), vpc(), other]}}
    answer = gpufleet("state", "show", "dev", "atlas-dev-use1-vpc")
    assert answer.code == 2
    assert VPC in answer.err
    assert other["urn"] in answer.err


# -- import


def test_import_keeps_the_previous_state_as_backup(
    gpufleet: Gpufleet, state_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "export.json"
    # Out of order, as an export may be.
    file.write_bytes(exported(subnet(), vpc(), stack()))
    answer = gpufleet("state", "import", "dev", str(file), "--yes")
    assert answer.code == 0, answer.err
    assert f"{state_file.relative_to(Path.cwd())}: 3 resources, 2 before" in answer.out
    assert urns(state_file) == [STACK, VPC, SUBNET]
    assert len(checkpoint.load(checkpoint.backup_of(state_file))[0]["resources"]) == 2


def test_import_can_read_stdin(gpufleet: Gpufleet, state_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(exported(stack()))))
    assert gpufleet("state", "import", "dev", "-", "--yes", "--json").json["after"] == 1
    assert urns(state_file) == [STACK]


def test_import_over_a_state_asks_first(gpufleet: Gpufleet, state_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_bytes(exported(stack()))
    answer = gpufleet("state", "import", "dev", str(file))
    assert answer.code == 2
    assert "--yes" in answer.err
    assert urns(state_file) == [STACK, VPC]


def test_import_encrypts_plaintext_secrets(gpufleet: Gpufleet, state_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_bytes(exported(stack(), vpc(inputs={"p": {**SECRET, "plaintext": '"hunter2"'}})))
    assert gpufleet("state", "import", "dev", str(file), "--yes").code == 0
    text = state_file.read_text()
    assert "hunter2" not in text
    assert '"ciphertext": "v1:' in text
    # It can be decrypted with the same passphrase.
    assert gpufleet("state", "import", "dev", str(state_file), "--yes").code == 0


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"not json", "not an export of a stack"),
        (b'{"version": 2}', "it has version 2"),
        (exported(stack(), subnet()), f"needs {VPC}, which is missing"),
        (exported(vpc(parent=""), vpc(parent="")), "occurs 2 times"),
        (exported(stack(), vpc(id="")), "has no id"),
        (exported(vpc(urn=VPC.replace(":dev:", ":prod:"))), "belongs to another stack or project"),
        (exported(stack(), secrets_providers={"type": "awskms"}), "awskms"),
        (
            exported(
                stack(),
                vpc(inputs={"p": {**SECRET, "ciphertext": "v1:AAAA:AAAA"}}),
                secrets_providers={"type": "passphrase", "state": {"salt": "v1:AAAAAAAAAAA=:v1:AAAA:AAAA"}},
            ),
            "the passphrase does not match",
        ),
    ],
)
def test_invalid_state_is_refused_and_nothing_changes(
    gpufleet: Gpufleet, state_file: Path, tmp_path: Path, content: bytes, reported: str
) -> None:
    before = state_file.read_bytes()
    file = tmp_path / "export.json"
    file.write_bytes(content)
    answer = gpufleet("state", "import", "dev", str(file), "--yes")
    assert answer.code == 2
    assert reported in answer.err
    assert state_file.read_bytes() == before


def test_missing_file_cannot_be_imported(gpufleet: Gpufleet, state_file: Path) -> None:
    answer = gpufleet("state", "import", "dev", "/nowhere/export.json", "--yes")
    assert answer.code == 2
    assert "/nowhere/export.json: No such file" in answer.err


# -- unlock


def test_unlock_names_the_holder_and_keeps_its_lock(gpufleet: Gpufleet, state_file: Path) -> None:
    with StateLock(state_file, "up"):
        answer = gpufleet("state", "unlock", "dev")
        assert answer.code == 4
        assert "is locked by process" in answer.err
        assert "(up, since " in answer.err
        assert "kill -INT" in answer.err
    assert gpufleet("state", "unlock", "dev").out == "the state of dev is not locked\n"
    assert gpufleet("state", "unlock", "dev", "--json").json["locked"] is False


# -- repair


def test_intact_state_needs_no_repair_and_its_backups_are_listed(
    gpufleet: Gpufleet, state_file: Path
) -> None:
    answer = gpufleet("state", "repair", "dev")
    assert answer.code == 0
    assert "is valid: nothing to repair" in answer.out
    assert [line.split()[0] for line in answer.out.splitlines()[:2]] == ["dev.json", "dev.json.bak"]
    report = gpufleet("state", "repair", "dev", "--json").json
    assert (report["whole"], [copy["resources"] for copy in report["copies"]]) == (True, [2, 1])


@pytest.mark.parametrize("damage", ["truncated", "empty", "gone"])
def test_damaged_state_is_restored_from_the_last_good_backup(
    gpufleet: Gpufleet, state_file: Path, damage: str
) -> None:
    content = state_file.read_bytes()
    if damage == "gone":
        state_file.unlink()
    else:
        state_file.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    asked = gpufleet("state", "repair", "dev")
    assert asked.code == 2
    assert "pass --yes" in asked.err
    answer = gpufleet("state", "repair", "dev", "--yes")
    assert answer.code == 0, answer.err
    assert "1 resources, from dev.json.bak" in answer.out
    assert urns(state_file) == [STACK]
    kept = list(state_file.parent.glob("dev.json.damaged-*"))
    assert len(kept) == (0 if damage == "gone" else 1)
    assert all(path.read_bytes() in content for path in kept)


def test_another_backup_can_be_chosen(gpufleet: Gpufleet, state_file: Path) -> None:
    assert gpufleet("state", "repair", "dev", "--from", "dev.json.bak", "--yes").code == 0
    assert urns(state_file) == [STACK]


def test_invalid_backup_is_refused(gpufleet: Gpufleet, state_file: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    answer = gpufleet("state", "repair", "dev", "--from", str(tmp_path / "bad.json"), "--yes")
    assert answer.code == 4
    assert "not a complete checkpoint" in answer.err
    assert urns(state_file) == [STACK, VPC]


def test_journal_of_a_lost_checkpoint_is_kept(gpufleet: Gpufleet, state_file: Path) -> None:
    # A run crashed after it had created a subnet and during another one; then the checkpoint was damaged.
    journal = StateJournal(journal_of(state_file), checkpoint.load(state_file)[1])
    second = subnet(urn=SUBNET + "-b", id="")
    journal.append({"kind": "begin", "n": 1, "type": "creating", "resource": subnet(id="")}, durable=True)
    journal.append({"kind": "step", "n": 1, "put": [0, subnet()], "drop": [0]}, durable=True)
    journal.append({"kind": "begin", "n": 2, "type": "creating", "resource": second}, durable=True)
    journal.close(remove=False)
    checkpoint.load(state_file)
    state_file.write_bytes(b"{")
    answer = gpufleet("state", "repair", "dev", "--yes")
    assert answer.code == 0, answer.err
    assert f"merged from the interrupted run: {SUBNET}" in answer.out
    state = load_state(state_file).replayed
    # The backup had no VPC yet: resources that need it stay without it.
    assert {item["urn"]: item.get("dependencies") for item in state.resources} == {STACK: None, SUBNET: None}
    assert [item["resource"]["urn"] for item in state.pending] == [second["urn"]]
    assert list(state_file.parent.glob("dev.json.journal.damaged-*"))
    assert not journal_of(state_file).exists()


def test_journal_damaged_in_the_middle_is_used_up_to_the_damage(gpufleet: Gpufleet, state_file: Path) -> None:
    journal = StateJournal(journal_of(state_file), checkpoint.load(state_file)[1])
    journal.append({"kind": "step", "put": [0, subnet()]}, durable=True)
    journal.close(remove=False)
    with journal_of(state_file).open("ab") as out:
        out.write(b'{"kind": \n{"kind": "step", "drop": [0]}\n')
    report = gpufleet("state", "list", "dev")
    assert "gpufleet state repair" in report.err
    answer = gpufleet("state", "repair", "dev", "--yes")
    assert answer.code == 0, answer.err
    assert "the journal of an interrupted run is damaged in line 3" in answer.out
    assert sorted(urns(state_file)) == sorted([STACK, VPC, SUBNET])


def test_missing_backup_is_reported(gpufleet: Gpufleet, state_file: Path) -> None:
    for path in (state_file, checkpoint.backup_of(state_file)):
        path.write_bytes(b"{")
    answer = gpufleet("state", "repair", "dev", "--yes")
    assert answer.code == 2
    assert "no copy of the state of dev can be read" in answer.err
    assert "gpufleet state import" in answer.err


@pytest.mark.parametrize("damage", ["truncated", "gone", "journal"])
def test_import_replaces_a_damaged_state_and_keeps_it(
    gpufleet: Gpufleet, state_file: Path, tmp_path: Path, damage: str
) -> None:
    backup = checkpoint.backup_of(state_file).read_bytes()
    bad = {"truncated": state_file, "journal": journal_of(state_file)}.get(damage)
    if bad is None:
        state_file.unlink()
    else:
        bad.write_bytes(b"{\n{\n")
    file = tmp_path / "export.json"
    file.write_bytes(exported(stack()))
    asked = gpufleet("state", "import", "dev", str(file))
    assert (asked.code, "--yes" in asked.err) == (2, True)
    answer = gpufleet("state", "import", "dev", str(file), "--yes", "--json")
    assert answer.code == 0, answer.err
    kept = [Path(path) for path in answer.json["kept"]]
    assert urns(state_file) == [STACK]
    assert (b"{\n{\n" in [path.read_bytes() for path in kept]) is (bad is not None)
    assert all("damaged-" in path.name for path in kept)
    assert checkpoint.backup_of(state_file).read_bytes() == backup
    assert not journal_of(state_file).exists()
    assert load_state(state_file).replayed.resources


@pytest.mark.parametrize(("dies_after", "left"), [(1, {STACK, VPC, SUBNET}), (2, {STACK})])
def test_import_killed_at_any_point_leaves_the_old_or_the_new_state(
    state_file: Path, monkeypatch: pytest.MonkeyPatch, dies_after: int, left: set[str]
) -> None:
    journal = StateJournal(journal_of(state_file), checkpoint.load(state_file)[1])
    journal.append({"kind": "step", "put": [0, subnet()]}, durable=True)
    journal.close(remove=False)
    genuine, saved = checkpoint.save, []

    def deadly(*args: Any) -> str:
        saved.append(genuine(*args))
        if len(saved) == dies_after:
            raise KeyboardInterrupt
        return saved[-1]

    monkeypatch.setattr(checkpoint, "save", deadly)
    with pytest.raises(KeyboardInterrupt):
        admin.import_state(state_file, exported(stack()), "gpufleet", "dev")
    assert set(urns(state_file)) == left


# -- pending operations of an interrupted run


def test_pending_creation_can_be_adopted_or_forgotten(gpufleet: Gpufleet, state_file: Path) -> None:
    pending = [{"type": "creating", "resource": subnet(id="")}]
    checkpoint.save(state_file, [stack(), vpc()], pending, "")
    assert gpufleet("state", "repair", "dev", "--adopt", f"{SUBNET}=subnet-9").code == 0
    (operation,) = load_state(state_file).replayed.pending
    assert operation["resource"]["id"] == "subnet-9"
    assert gpufleet("state", "repair", "dev", "--forget", SUBNET).code == 0
    assert load_state(state_file).replayed.pending == []
    answer = gpufleet("state", "repair", "dev", "--forget", SUBNET)
    assert answer.code == 2
    assert f"no creation of {SUBNET} is pending" in answer.err


@pytest.mark.parametrize("option", [("--adopt", "no-id"), ("--adopt", "a=b", "--forget", "a")])
def test_conflicting_options_are_refused(
    gpufleet: Gpufleet, state_file: Path, option: tuple[str, ...]
) -> None:
    assert gpufleet("state", "repair", "dev", *option).code == 2
