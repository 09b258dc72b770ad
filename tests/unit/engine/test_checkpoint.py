"""The checkpoint, the journal and the resources in them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.embedded import checkpoint, journal
from gpufleet.engine.embedded.integrity import problems, without_gaps
from gpufleet.engine.embedded.journal import StateJournal, replay
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.embedded.resource import ResourceState, from_json, to_json
from gpufleet.engine.embedded.values import UNKNOWN, ResourceRef, SecretValue
from gpufleet.engine.errors import StateError


class RotCipher:
    """A transparent cipher."""

    calls = 0

    def encrypt(self, plaintext: str) -> str:
        self.calls += 1
        return "sealed:" + plaintext[::-1]

    def decrypt(self, ciphertext: str) -> str:
        return ciphertext.removeprefix("sealed:")[::-1]


def resource(name: str, **fields: Any) -> dict[str, Any]:
    return {"urn": f"urn:pulumi:d::p::a:b:C::{name}", "custom": True, "type": "a:b:C", **fields}


def urn(name: str) -> str:
    return str(resource(name)["urn"])


def names(resources: list[dict[str, Any]]) -> list[str]:
    return [item["urn"].rpartition("::")[2] for item in resources]


def test_resource_survives_the_checkpoint_with_encrypted_secrets() -> None:
    state = ResourceState(
        urn=urn("x"), type="a:b:C", custom=True, id="i",
        inputs={"p": SecretValue({"deep": [SecretValue("inner"), 1]}), "plain": "x"},
        outputs={"ref": ResourceRef("urn:r", "id", "1"), "u": UNKNOWN},
        dependencies=["urn:y"], property_dependencies={"p": ["urn:y"]},
        custom_timeouts={"create": 60}, init_errors=["e"], protect=True,
        extra={"hideDiff": ["x"]},
    )  # fmt: skip
    cipher = RotCipher()
    data = to_json(state, cipher)
    assert "inner" not in json.dumps(data)
    assert data["inputs"]["p"]["4dabf18193072939515e22adb298388d"] == "1b47061264138c4ac30d75fd1eb44270"
    assert data["hideDiff"] == ["x"]
    assert "delete" not in data
    again = from_json(json.loads(json.dumps(data)), cipher)
    assert again == state
    # Encrypted values are written unchanged, not encrypted again.
    calls = cipher.calls
    assert to_json(again, cipher) == data
    assert cipher.calls == calls


def test_plaintext_secrets_are_read_and_encrypted() -> None:
    sig = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
    state = from_json(resource("x", inputs={"p": {**sig, "plaintext": '"hunter2"'}}), RotCipher())
    assert state.inputs == {"p": SecretValue("hunter2")}
    assert to_json(state, RotCipher())["inputs"]["p"] == {**sig, "ciphertext": 'sealed:"2retnuh"'}


def test_resources_follow_their_dependencies() -> None:
    given = [
        resource("c", dependencies=[urn("b")]),
        resource("b", parent=urn("a")),
        resource("a"),
        resource("d", provider=f"{urn('p')}::id"),
        resource("p"),
    ]
    assert names(checkpoint.sort_by_dependency(given)) == ["a", "p", "b", "d", "c"]


def test_correct_order_is_kept() -> None:
    given = [resource("b"), resource("a"), resource("c", dependencies=[urn("a"), urn("gone")])]
    assert checkpoint.sort_by_dependency(given) == given


def test_replaced_resource_follows_its_replacement_without_a_cycle() -> None:
    given = [
        resource("a"), resource("b", dependencies=[urn("a")]),
        resource("a", delete=True), resource("b", dependencies=[urn("a")], delete=True),
    ]  # fmt: skip
    assert checkpoint.sort_by_dependency(given) == given


def test_cycle_is_refused() -> None:
    with pytest.raises(StateError, match="cycle"):
        checkpoint.sort_by_dependency(
            [resource("a", dependencies=[urn("b")]), resource("b", dependencies=[urn("a")])]
        )


def test_ordering_ten_thousand_resources_is_fast() -> None:
    given = [resource("0"), *(resource(str(i), dependencies=[urn(str(i - 1))]) for i in range(1, 10_000))]
    assert names(checkpoint.sort_by_dependency(given[::-1])) == [str(i) for i in range(10_000)]


def test_saved_checkpoint_is_private_and_complete_and_keeps_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "dev.json"
    checkpoint.save(path, [resource("a")], [], "")
    checkpoint.save(path, [resource("b")], [{"type": "creating", "resource": resource("c")}], "v1:s:v1:n:c")
    deployment, digest = checkpoint.load(path)
    assert names(deployment["resources"]) == ["b"]
    assert deployment["pending_operations"][0]["type"] == "creating"
    assert checkpoint.salt_of(deployment) == "v1:s:v1:n:c"
    assert len(digest) == 64
    assert names(checkpoint.load(checkpoint.backup_of(path))[0]["resources"]) == ["a"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == ["dev.json", "dev.json.bak"]


def test_missing_checkpoint_is_empty() -> None:
    assert checkpoint.load(Path("/nonexistent/dev.json")) == ({"manifest": {}, "resources": []}, "")


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", '{"version": 3}', '{"version": 4, "deployment": {}}',
        '{"version": 3, "deployment": {"resources": [{"urn": "x"}]}}',
    ],
)  # fmt: skip
def test_invalid_checkpoint_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "dev.json"
    path.write_text(content)
    with pytest.raises(StateError, match="not a complete checkpoint"):
        checkpoint.load(path)
    assert path.read_text() == content


def test_operating_system_error_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file" / "dev.json"
    for act in (lambda: checkpoint.load(inside), lambda: checkpoint.save(inside, [], [], ""),
                lambda: StateJournal(inside, "d"), lambda: StateLock(inside, "up").__enter__()):  # fmt: skip
        with pytest.raises(StateError) as refused:
            act()
        assert "move it away and run again" in refused.value.remedy
    with pytest.raises(StateError, match="Is a directory") as refused:
        checkpoint.load(tmp_path)
    assert "a folder blocks the path of the file" in refused.value.remedy


def test_missing_state_with_backups_is_not_an_empty_state(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    checkpoint.save(path, [resource("a")], [], "")
    checkpoint.save(path, [resource("b")], [], "")
    path.unlink()
    with pytest.raises(StateError, match="the state is missing") as refused:
        checkpoint.load(path)
    assert "gpufleet state repair" in refused.value.remedy


def test_dangling_references_are_removed_as_in_pulumi() -> None:
    given = [
        resource("a"),
        resource("c", parent=urn("gone"), dependencies=[urn("gone"), urn("a")], deletedWith=urn("gone"),
                 propertyDependencies={"x": [urn("gone")], "y": [urn("a")]}),
        resource("d", id="1", provider=f"{urn('lost')}::id"),
    ]  # fmt: skip
    mended = without_gaps(given)
    assert mended[0] is given[0]
    assert mended[1] == resource(
        "c", dependencies=[urn("a")], propertyDependencies={"x": [], "y": [urn("a")]}
    )
    # A provider cannot be repaired, so that is still reported.
    assert problems(mended[2:]) == [f"{urn('d')} needs {urn('lost')}, which is missing"]


def test_other_secrets_provider_is_refused() -> None:
    with pytest.raises(StateError, match="awskms"):
        checkpoint.salt_of({"secrets_providers": {"type": "awskms"}})


def test_applying_a_journal_puts_new_resources_first_and_keeps_the_rest() -> None:
    olds = [resource("a"), resource("b"), resource("c"), resource("d")]
    records: list[dict[str, Any]] = [
        {"kind": "begin", "n": 1, "type": "creating", "resource": resource("e")},
        {"kind": "step", "n": 1, "put": [0, resource("e", id="1")]},
        {"kind": "step", "same": [1, 2]},
        {
            "kind": "step",
            "n": -1,
            "put": [2, resource("b", id="2")],
            "old": [[1, resource("b", delete=True)]],
        },
        {"kind": "step", "drop": [3]},
        {"kind": "outputs", "key": 1, "outputs": {"x": 1}},
        {"kind": "begin", "n": 2, "type": "deleting", "resource": resource("a")},
        {"kind": "salt", "salt": "v1:new"},
    ]
    replayed = replay(olds, records)
    assert names(replayed.resources) == ["e", "c", "b", "a", "b"]
    assert replayed.resources[1]["outputs"] == {"x": 1}
    assert replayed.resources[4]["delete"] is True
    assert [item["type"] for item in replayed.pending] == ["deleting"]
    assert replayed.salt == "v1:new"
    assert olds[2] == resource("c")


def test_any_prefix_of_a_journal_is_a_valid_state(tmp_path: Path) -> None:
    path = tmp_path / "dev.json.journal"
    writer = StateJournal(path, "digest")
    for number in range(1, 6):
        writer.append(
            {"kind": "begin", "n": number, "type": "creating", "resource": resource(str(number))},
            durable=True,
        )
        writer.append(
            {"kind": "step", "n": number, "put": [number, resource(str(number), id="x")]}, durable=True
        )
    writer.close(remove=False)
    content = path.read_bytes()
    seen = set()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        replayed = replay([], journal.read(path, "digest"))
        # Every started resource is created or pending, and never both.
        pending = names([operation["resource"] for operation in replayed.pending])
        assert not set(names(replayed.resources)) & set(pending)
        seen.add((len(replayed.resources), len(replayed.pending)))
    assert seen == {(made, pending) for made in range(6) for pending in (0, 1)} - {(5, 1)}


def test_journal_with_a_damaged_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dev.json.journal"
    path.write_bytes(b'{"kind": "base", "digest": "d"}\n{"kind": \n{"kind": "step"}\n')
    with pytest.raises(StateError, match=":2: the journal"):
        journal.read(path, "d")


def test_threads_share_a_journal_and_every_record_arrives(tmp_path: Path) -> None:
    path = tmp_path / "dev.json.journal"
    writer = StateJournal(path, "d")

    def write(thread: int) -> None:
        for number in range(50):
            writer.append({"kind": "step", "who": f"{thread}-{number}"}, durable=True)

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_disk = journal.read(path, "d")
    assert {record["who"] for record in on_disk} == {f"{t}-{n}" for t in range(8) for n in range(50)}
    assert len(on_disk) == 400
    writer.close(remove=True)
    assert not path.exists()
