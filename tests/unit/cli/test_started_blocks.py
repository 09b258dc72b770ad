"""A Capacity Block that starts in the past: every planning command refuses it unless it is bought."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.resources.types import BLOCK_OFFERING, CAPACITY_BLOCK
from tests.unit.changes.test_bought_blocks import resource
from tests.unit.cli.conftest import TODAY, FakeEngine, Gpufleet

START = "2026-11-20"
END = "2026-12-04T11:30:00Z"


@pytest.fixture
def started(workplace: Path) -> Path:
    """The environment `prod`, whose block started the day before the tests' today."""
    file = workplace / "stacks" / "prod" / "fleet.yaml"
    text = file.read_text()
    assert "start: in 21 d" in text
    assert TODAY.date().isoformat() == "2026-11-21"
    file.write_text(text.replace("start: in 21 d", f"start: {START}"))
    return file


def bought(start: str = START) -> dict[str, Any]:
    inputs = {"start": start, "count": 64.0, "duration_hours": 336.0, "instance_type": "p5.48xlarge"}
    offering = resource(BLOCK_OFFERING, inputs=inputs, outputs={"end_date": END}, custom=True, id="cbr-1")
    return {
        "version": 3,
        "deployment": {
            "manifest": {},
            "resources": [offering, resource(CAPACITY_BLOCK, custom=True, id="cr-1")],
        },
    }


@pytest.mark.parametrize(
    "words", [("validate",), ("plan",), ("check",), ("preview",), ("up", "--yes")], ids=lambda words: words[0]
)
def test_started_block_that_is_not_bought_is_bad_input(
    gpufleet: Gpufleet, engine: FakeEngine, started: Path, words: tuple[str, ...]
) -> None:
    line = next(n for n, text in enumerate(started.read_text().splitlines(), 1) if START in text)
    answer = gpufleet(words[0], "prod", *words[1:])
    assert answer.code == 2
    assert f"stacks/prod/fleet.yaml:{line}" in answer.err
    assert f"a block that starts at '{START}' starts in the past" in answer.err
    assert "write 'in 1 d'" in answer.err
    assert not {"preview", "up"} & set(engine.verbs)


@pytest.mark.parametrize("words", [("preview",), ("up", "--yes")], ids=lambda words: words[0])
def test_block_in_the_state_of_the_stack_passes(
    gpufleet: Gpufleet, engine: FakeEngine, started: Path, words: tuple[str, ...]
) -> None:
    engine.state = bought()
    answer = gpufleet(words[0], "prod", *words[1:], "--skip-policies")
    assert answer.code == 0
    assert "capacity-block-start" not in answer.err


def test_changed_start_requests_another_block(gpufleet: Gpufleet, engine: FakeEngine, started: Path) -> None:
    engine.state = bought("2026-11-19")
    assert gpufleet("preview", "prod").code == 2


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_commands_without_a_cloud_read_blocks_from_the_embedded_state(
    gpufleet: Gpufleet, started: Path, workplace: Path, verb: str
) -> None:
    state = workplace / ".gpufleet" / "state" / "aws" / "prod.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps(bought()))
    answer = gpufleet(verb, "prod")
    assert answer.code == 0
    assert "capacity-block-start" not in answer.err
    state.write_text("{")
    assert gpufleet(verb, "prod").code == 2


def test_inventory_does_not_need_a_block(gpufleet: Gpufleet, started: Path, tmp_path: Path) -> None:
    assert gpufleet("inventory", "prod", "--output", str(tmp_path / "hosts.yml")).code == 0
