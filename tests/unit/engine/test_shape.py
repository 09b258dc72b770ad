"""States and journals of the wrong shape: a message with the place, never a Python error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.journal import StateJournal, journal_of
from gpufleet.engine.embedded.repair import examine, repair
from gpufleet.engine.embedded.store import StateStore
from gpufleet.engine.embedded.stored_state import load_state
from gpufleet.engine.embedded.values import SECRET_SIG, SIG_KEY
from gpufleet.engine.errors import StateError
from tests.unit.engine.test_checkpoint import resource, urn

WHOLE: dict[str, Any] = {
    "version": 3,
    "deployment": {
        "manifest": {"time": "2026-01-01T00:00:00Z"},
        "resources": [
            resource("p", type="pulumi:providers:a", id="1"),
            resource(
                "a",
                id="i",
                parent=urn("p"),
                provider=f"{urn('p')}::1",
                inputs={"s": {SIG_KEY: SECRET_SIG, "plaintext": '"x"'}, "n": {"deep": [1]}},
                outputs={"o": 1.5},
                dependencies=[urn("p")],
                propertyDependencies={"s": [urn("p")]},
                customTimeouts={"create": 60},
                protect=True,
                aliases=[urn("old")],
            ),
        ],
        "pending_operations": [{"type": "creating", "resource": resource("b")}],
    },
}
WRONG = (None, 5, True, "x", [], {}, [None], [5], {"x": None}, 1.5)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def replaced(document: Any, path: tuple[Any, ...], new: Any, *, drop: bool) -> Any:
    if not path:
        return new
    document = copy.deepcopy(document)
    inner = document
    for part in path[:-1]:
        inner = inner[part]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return document


def opened(path: Path) -> str:
    """The message when a run opens the state, empty if there is none."""
    try:
        with StateStore(path, "preview", dry_run=True, env={"PULUMI_CONFIG_PASSPHRASE": "p"}):
            return ""
    except StateError as error:
        assert error.remedy
        return error.message


@pytest.mark.parametrize("place", list(places(WHOLE)), ids=str)
def test_any_value_in_any_place_is_read_or_refused_with_its_place(
    tmp_path: Path, place: tuple[Any, ...]
) -> None:
    path = tmp_path / "dev.json"
    refused = 0
    for drop, new in ((True, None), *((False, wrong) for wrong in WRONG)):
        path.write_text(json.dumps(replaced(WHOLE, place, new, drop=drop)))
        reported = opened(path)
        refused += bool(reported)
        assert "Error" not in reported
        examine(path)
    assert refused or place[-1:] in (
        (),
        ("time",),
        ("manifest",),
        ("n",),
        ("deep",),
        ("o",),
        (0,),
        ("s",),
        (SIG_KEY,),
    )


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ('{"version": 3, "deployment": {"resources": [{"urn": "urn:pulumi:d::p::t::n"}]}}',
         "deployment.resources[0].type is missing"),
        ('{"version": 3, "deployment": {"resources": [{"urn": "x", "type": "t", "custom": true}]}}',
         "deployment.resources[0].urn is not a URN"),
        ('{"version": 3, "deployment": {"resources": {}}}', "deployment.resources should be a valid list"),
        ('{"version": 3, "deployment": ' + "[" * 100_000, "nested too deep"),
        ('{"version": 3, "deployment": {"resources": [], "x": NaN}}', "NaN is not JSON"),
        ('{"version": 3, "deployment": {"resources": [], "x": "\\ud800"}}', "not Unicode"),
        ('{"version": ' + "9" * 10_000 + "}", ""),
        ("[3]", "not a JSON object"),
        ("\x1b[31m", "not a complete checkpoint"),
    ],
)  # fmt: skip
def test_first_error_is_named_with_a_remedy(tmp_path: Path, content: str, reported: str) -> None:
    path = tmp_path / "dev.json"
    path.write_text(content)
    with pytest.raises(StateError) as caught:
        checkpoint.load(path)
    assert reported in caught.value.message
    assert "gpufleet state repair" in caught.value.remedy


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "step", "n": 1, "put": [0, {"urn": "x"}]},
        {"kind": "step", "drop": "0"},
        {"kind": "step", "same": [0]},
        {"kind": "begin", "n": 1},
        {"kind": "nothing"},
        {"kind": "outputs", "key": 7, "outputs": {}},
        {"kind": "step", "drop": [99]},
    ],
    ids=str,
)
def test_journal_of_the_wrong_shape_is_refused_and_repaired(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "dev.json"
    digest = checkpoint.save(path, [resource("a", id="i")], [], "")
    journal = StateJournal(journal_of(path), digest)
    journal.append({"kind": "step", "n": -1, "put": [0, resource("b", id="j")]}, durable=True)
    journal.append(record, durable=True)
    journal.close(remove=False)
    with pytest.raises(StateError) as caught:
        load_state(path)
    assert "gpufleet state repair" in caught.value.remedy
    assert not examine(path).is_whole
    repair(path, path)
    found = [item["urn"] for item in load_state(path).replayed.resources]
    assert sorted(found) == [urn("a"), urn("b")]
