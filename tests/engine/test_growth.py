"""The cost of a run grows linearly with the number of resources: counted, since time is not stable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpufleet.engine.api import Changes
from gpufleet.engine.embedded import checkpoint, journal
from gpufleet.engine.embedded.files import write_durably

from .conftest import Lab

FEW, MANY = 10, 80


def _boxes(number: int) -> str:
    return f"""
    g = Group("g")
    for index in range({number}):
        Box(f"box-{{index:03d}}", {{"size": index, "text": "x" * 200}}, Opts(parent=g))
    """


class Writes:
    """Count writes of the state: total bytes, and checkpoints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counted: Counter[str] = Counter()
        append = journal._write_all

        def counted_append(descriptor: int, data: bytes) -> None:
            self.counted["bytes"] += len(data)
            append(descriptor, data)

        def counted_save(path: Path, content: bytes) -> None:
            self.counted["bytes"] += len(content)
            self.counted["checkpoints"] += 1
            write_durably(path, content)

        monkeypatch.setattr(journal, "_write_all", counted_append)
        monkeypatch.setattr(checkpoint, "write_durably", counted_save)

    def of(self, lab: Lab, verb: str) -> Counter[str]:
        """Writes of one run."""
        self.counted.clear()
        assert lab.run(verb).ok
        return Counter(self.counted)


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, Lab]:
    """A lab with few resources and one with many."""
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    return {number: Lab(tmp_path / str(number)).program(_boxes(number)) for number in (FEW, MANY)}


def test_writes_for_each_resource_do_not_grow_with_the_stack(
    labs: dict[int, Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = Writes(monkeypatch)
    for verb in ("up", "up", "destroy"):
        counted = {number: writes.of(lab, verb) for number, lab in labs.items()}
        assert counted[FEW]["bytes"] > 0
        assert counted[MANY]["bytes"] / MANY <= counted[FEW]["bytes"] / FEW, (verb, counted)
        assert counted[MANY]["checkpoints"] == counted[FEW]["checkpoints"] <= 1, (verb, counted)


def test_unchanged_run_does_not_write_the_checkpoint_or_its_backups(lab: Lab) -> None:
    boxes = "for index in {}: Box(f'box-{{index}}', {{'size': index // {}}})"
    lab.up(boxes.format("range(12)", 2))
    lab.up(boxes.format("range(12)", 3))
    folder = lab.request.state_file.parent
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {"dev.json", "dev.json.bak"} <= set(before)
    # In another order, as threads may end.
    result = lab.up(boxes.format("reversed(range(12))", 3))
    assert result.changes == Changes(same=13)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_preview_writes_no_state(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Writes(monkeypatch)
    lab.program(_boxes(FEW))
    assert writes.of(lab, "preview") == Counter()
    lab.up()
    assert writes.of(lab, "preview") == Counter()


def test_provider_is_called_once_for_each_resource_and_step(labs: dict[int, Lab]) -> None:
    for number, lab in labs.items():
        lab.up()
        assert len(lab.calls("create")) == number
        lab.forget_calls()
        lab.up()
        assert lab.calls("create", "update", "delete", "read") == []
        lab.run("destroy")
        assert len(lab.calls("delete")) == number
