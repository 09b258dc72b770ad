"""After a crash: the next run reports pending operations, looks them up, and creates nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.engine.api import Changes
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.engine.embedded.recovery.search import (
    Answer,
    Candidates,
    ProviderCall,
    RepeatableCreation,
    UnknownResult,
)
from gpufleet.engine.embedded.resource import ResourceState

from .conftest import Lab

A = "urn:pulumi:dev::lab::box:index:Box::a"


class Finder:
    """A finder with prepared results; `ours` are the ids of matching resources."""

    def __init__(self, answer: Answer, ours: tuple[str, ...] | None = None, settle: float = 0.0) -> None:
        self.answer = answer
        self.ours = ours
        self.settle = settle
        self.asked = 0

    def visibility_delay_s(self, env: Mapping[str, str]) -> float:
        return self.settle

    def find(self, wanted: ResourceState, ask: ProviderCall) -> Answer:
        self.asked += 1
        return self.answer

    def matches(self, wanted: ResourceState, outputs: Mapping[str, Any]) -> bool:
        return self.ours is None or str(outputs["arn"]).removeprefix("arn:") in self.ours


def orphan(lab: Lab, text: str = 'Box("a", {"size": 1})\n', name: str = "a") -> str:
    """Let the provider crash after it created a box, before the response; the orphan's id."""
    before = set(lab.things())
    lab.fault("create", name, made=True, die=True)
    lab.program(text)
    assert not lab.run("up").ok
    lab.no_faults()
    (identifier,) = set(lab.things()) - before
    return identifier


def test_orphaned_resource_is_found_and_not_created_twice(lab: Lab) -> None:
    identifier = orphan(lab, 'a = Box("a", {"size": 1})\nBox("b", {"of": a.arn})\n')
    lab.forget_calls()
    result = lab.up()
    assert result.changes == Changes(create=1, same=2)
    warning = lab.messages("warning")
    assert f"did not finish creating {A} " in warning
    assert f": it was created, and is taken over (id {identifier})" in warning
    assert lab.resources()["a"]["id"] == identifier
    assert [call["name"] for call in lab.calls("create")] == ["b"]
    assert "pending_operations" not in lab.export()
    assert lab.up().changes == Changes(same=3)
    assert "died" not in lab.messages("warning")


def test_broken_call_to_a_live_provider_leaves_the_operation_pending(lab: Lab) -> None:
    lab.fault("create", "a", made=True, broken=True)
    lab.program('Box("a")\n')
    assert not lab.run("up").ok
    assert lab.errors()["a"] == "Socket closed"
    (identifier,) = lab.things()
    lab.up()
    assert f": it was created, and is taken over (id {identifier})" in lab.messages("warning")
    assert set(lab.things()) == {identifier}


def test_preview_looks_for_orphans_and_writes_nothing(lab: Lab) -> None:
    identifier = orphan(lab)
    before = {file: file.read_bytes() for file in lab.request.state_file.parent.iterdir()}
    result = lab.run("preview")
    assert result.ok
    assert result.changes == Changes(same=2)
    assert f"is taken over (id {identifier})" in lab.messages("warning")
    assert {file: file.read_bytes() for file in lab.request.state_file.parent.iterdir()} == before


def test_destroy_finds_the_orphan_and_deletes_it(lab: Lab) -> None:
    orphan(lab)
    assert lab.run("destroy").ok
    assert lab.things() == {}
    assert "pending_operations" not in lab.export()


@pytest.mark.parametrize("bare", [True, False])
def test_untagged_orphan_is_adopted_only_where_its_finder_allows_it(lab: Lab, bare: bool) -> None:
    identifier = orphan(lab)
    lab.engine = EmbeddedEngine({"box": Finder(Candidates((identifier,), bare=bare), ours=())})
    assert lab.run("up").ok is bare
    assert list(lab.things()) == [identifier]
    if not bare:
        assert "does not have its tags" in lab.errors()["a"]


def test_refresh_adopts_the_orphan(lab: Lab) -> None:
    identifier = orphan(lab)
    assert lab.run("refresh").ok
    assert lab.resources()["a"]["id"] == identifier


def test_orphan_of_a_replacement_replaces_the_old_resource(lab: Lab) -> None:
    lab.up('Box("a", {"zone": "x"})\n')
    old = lab.resources()["a"]["id"]
    new = orphan(lab, 'Box("a", {"zone": "y"})\n')
    lab.forget_calls()
    assert lab.up().ok
    assert (lab.resources()["a"]["id"], set(lab.things())) == (new, {new})
    assert [(call["op"], call.get("id")) for call in lab.calls("create", "delete")] == [("delete", old)]


def test_orphan_of_a_delete_before_replace_is_adopted(lab: Lab) -> None:
    text = 'a = Box("a", {{"slot": {0}}})\nBox("b", {{"of": a.arn}})\n'
    lab.up(text.format(1))
    new = orphan(lab, text.format(2))
    lab.forget_calls()
    assert lab.up().ok
    assert lab.resources()["a"]["id"] == new
    assert lab.calls("create", "delete") == []
    assert lab.names() == ["a", "b"]


def test_outdated_orphan_is_updated_to_the_program(lab: Lab) -> None:
    identifier = orphan(lab)
    assert lab.up('Box("a", {"size": 2})\n').changes == Changes(update=1, same=1)
    assert lab.things()[identifier]["inputs"]["size"] == 2


def test_orphan_that_is_no_longer_in_the_program_is_deleted(lab: Lab) -> None:
    orphan(lab)
    assert lab.up("").changes.delete == 1
    assert lab.things() == {}


def test_completed_deletion_is_not_repeated(lab: Lab) -> None:
    lab.up('Box("a")\nBox("b")\n')
    lab.fault("delete", "a", made=True, die=True)
    lab.program('Box("b")\n')
    assert not lab.run("up").ok
    assert lab.names() == ["b"]
    lab.no_faults()
    lab.forget_calls()
    assert lab.up().changes == Changes(same=2)
    assert f"did not finish deleting {A} " in lab.messages("warning")
    assert "it was deleted" in lab.messages("warning")
    assert lab.calls("delete") == []


def test_completed_update_is_detected(lab: Lab) -> None:
    lab.up('Box("a", {"size": 1})\n')
    lab.fault("update", "a", made=True, die=True)
    lab.program('Box("a", {"size": 2})\n')
    assert not lab.run("up").ok
    lab.no_faults()
    # Same inputs as in the state: without a lookup in the cloud there would be nothing to do.
    lab.forget_calls()
    assert lab.up('Box("a", {"size": 1})\n').changes == Changes(update=1, same=1)
    (thing,) = lab.things().values()
    assert thing["inputs"]["size"] == 1


def test_undecided_creation_is_not_repeated_until_a_person_repairs_the_state(lab: Lab) -> None:
    identifier = orphan(lab, 'a = Box("a")\nBox("b", {"of": a.arn})\n')
    lab.engine = EmbeddedEngine({})
    for _ in range(2):
        assert not lab.run("up").ok
        assert "a box:index:Box cannot be searched" in lab.errors()["a"]
        assert f"gpufleet state repair <environment> --adopt '{A}=<its id>'" in lab.errors()["a"]
        assert lab.errors()["b"].startswith("skipped")
        assert [operation["type"] for operation in lab.export()["pending_operations"]] == ["creating"]
    assert [name for name in lab.names() if name == "a"] == ["a"]
    assert not lab.run("preview").ok
    assert not lab.run("refresh").ok
    assert not lab.run("destroy").ok
    assert set(lab.things()) == {identifier}
    assert "cannot be searched" in lab.messages("warning")


def test_two_matching_orphans_are_left_for_a_person_to_decide(lab: Lab) -> None:
    first = orphan(lab)
    thing = json.loads((lab.cloud / "things" / f"{first}.json").read_text())
    (lab.cloud / "things" / "a-second.json").write_text(json.dumps({**thing, "id": "a-second"}))
    assert not lab.run("up").ok
    assert "both match it" in lab.errors()["a"]
    assert "a-second" in lab.errors()["a"]
    assert len(lab.things()) == 2


def test_foreign_resource_of_the_same_name_is_not_adopted(lab: Lab) -> None:
    orphan(lab)
    lab.engine = EmbeddedEngine({"box": Finder(Candidates(tuple(lab.things())), ours=())})
    assert not lab.run("up").ok
    assert "exists, but does not have its tags or labels" in lab.errors()["a"]
    assert len(lab.things()) == 1


def test_resource_in_the_state_is_not_an_orphan(lab: Lab) -> None:
    lab.up('Box("old")\n')
    known = lab.resources()["old"]["id"]
    lab.fault("create", "a", die=True)
    lab.program('Box("old")\nBox("a")\n')
    assert not lab.run("up").ok
    lab.engine = EmbeddedEngine({"box": Finder(Candidates((known,)))})
    assert lab.up().changes == Changes(create=1, same=2)
    assert len(lab.things()) == 2


def test_repeatable_creation_is_repeated(lab: Lab) -> None:
    lab.fault("create", "a", die=True)
    lab.program('Box("a")\n')
    assert not lab.run("up").ok
    lab.engine = EmbeddedEngine({"box": Finder(RepeatableCreation())})
    assert lab.up().changes == Changes(create=1, same=1)


def test_eventually_consistent_cloud_is_asked_again(lab: Lab) -> None:
    lab.fault("create", "a", die=True)
    lab.program('Box("a")\n')
    assert not lab.run("up").ok
    finder = Finder(Candidates(), settle=4.0)
    lab.engine = EmbeddedEngine({"box": finder})
    assert lab.up().ok
    assert finder.asked >= 2


def test_unreachable_cloud_keeps_the_pending_operation(lab: Lab) -> None:
    orphan(lab)
    lab.fault("invoke", "box:index:find", message="throttled")
    assert not lab.run("up").ok
    assert "cannot be looked up: throttled" in lab.errors()["a"]
    assert lab.up().changes == Changes(same=2)


def test_undecided_update_does_not_stop_the_run(lab: Lab) -> None:
    lab.up('Box("a", {"size": 1})\n')
    lab.fault("update", "a", die=True)
    lab.program('Box("a", {"size": 2})\n')
    assert not lab.run("up").ok
    lab.fault("read", "a", message="not now")
    assert lab.up().changes.update == 1
    assert "it cannot be looked up: not now" in lab.messages("warning")


@pytest.mark.parametrize("reason", ["no rule", "no tags"])
def test_reason_for_an_undecided_creation_is_reported(lab: Lab, reason: str) -> None:
    orphan(lab)
    lab.engine = EmbeddedEngine({"box": Finder(UnknownResult(reason))})
    assert not lab.run("preview").ok
    assert reason in lab.errors()["a"]


def test_resource_deleted_outside_pulumi_leaves_no_dangling_reference(lab: Lab) -> None:
    lab.up("""
        a = Box("a")
        b = Box("b", {"of": a.arn}, Opts(parent=a))
        Box("c", {}, Opts(deleted_with=a, depends_on=[a, b]))
    """)
    (lab.cloud / "things" / f"{lab.resources()['a']['id']}.json").unlink()
    result = lab.run("refresh")
    assert result.ok
    assert result.changes.delete == 1
    resources = lab.resources()
    assert "a" not in resources
    assert "a" not in json.dumps([resources["b"].get("dependencies"), resources["c"].get("deletedWith")])
    assert "parent" not in resources["b"]
    assert lab.up().ok
    assert lab.names() == ["a", "b", "c"]


def test_recent_checkpoints_are_kept_and_unchanged_runs_add_none(lab: Lab) -> None:
    for size in range(8):
        lab.up(f'Box("a", {{"size": {size}}})\n')
    lab.up()
    lab.run("refresh")
    folder = lab.request.state_file.parent
    kept = sorted(file.name for file in folder.glob("dev.json.bak*"))
    assert kept == ["dev.json.bak", *(f"dev.json.bak.{number}" for number in range(2, 6))]
    sizes = []
    for name in kept:
        deployment = json.loads((folder / name).read_text())["deployment"]
        sizes += [r["inputs"]["size"] for r in deployment["resources"] if r["urn"] == A]
    assert sizes == [6, 5, 4, 3, 2]


def test_emptied_state_accepts_another_passphrase(lab: Lab) -> None:
    secret = 'Box("a", {"password": pulumi.Output.secret("s3cret")})\n'
    lab.up(secret)
    assert lab.run("destroy").ok
    lab.request = replace(lab.request, env={**lab.request.env, "PULUMI_CONFIG_PASSPHRASE": "another"})
    assert lab.up(secret).changes.create == 2
    assert lab.up().changes == Changes(same=2)
