"""Changing commands ask first, or need --yes without a terminal."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli import stack_run
from gpufleet.engine.api import Changes, Op

from .conftest import STACK, VPC, FakeEngine, Gpufleet, event, result


class _Keyboard(io.StringIO):
    """A terminal with prepared input."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def answer_prompt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`answer_prompt("y")` opens a terminal with this answer."""

    def sits(answer: str) -> None:
        monkeypatch.setattr(stack_run, "is_terminal", lambda stream: True)
        monkeypatch.setattr(sys, "stdin", _Keyboard(f"{answer}\n"))

    return sits


@pytest.mark.parametrize("verb", ["up", "refresh", "destroy"])
def test_changes_need_yes_without_a_terminal(gpufleet: Gpufleet, engine: FakeEngine, verb: str) -> None:
    answer = gpufleet(verb, "dev")
    assert answer.code == 2
    assert f"{verb} cannot ask for confirmation without a terminal" in answer.err
    assert "pass --yes" in answer.err
    assert engine.asked == []
    assert answer.out == ""


def test_json_needs_yes_at_a_terminal_too(gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any) -> None:
    answer_prompt("y")
    answer = gpufleet("up", "dev", "--json")
    assert answer.code == 2
    assert answer.json["exit_code"] == 2
    assert engine.asked == []


def test_up_previews_and_continues_after_yes(
    gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any
) -> None:
    answer_prompt("y")
    answer = gpufleet("up", "dev")
    assert answer.code == 0
    assert engine.verbs == ["preview", "up"]
    assert answer.out.index("preview: 3 to create") < answer.out.index("up: 3 created")


def test_up_counts_creations_before_it_asks(
    gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any, workplace: Path
) -> None:
    answer_prompt("n")
    reported = gpufleet("up", "dev", "--cloud", "aws").out
    assert "1 aws:ec2:Vpc" in reported
    assert "atlas-dev-use1-vpc" not in reported
    assert "all changes: .gpufleet/logs/up-dev.log, or use --verbose" in reported
    assert "aws:ec2:Vpc  atlas-dev-use1-vpc" in (workplace / ".gpufleet/logs/up-dev.log").read_text()
    answer_prompt("n")
    assert "aws:ec2:Vpc  atlas-dev-use1-vpc" in gpufleet("up", "dev", "--cloud", "aws", "--verbose").out
    assert "aws:ec2:Vpc  atlas-dev-use1-vpc" in gpufleet("preview", "dev", "--cloud", "aws").out


def test_interrupted_question_counts_as_no_answer(
    gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_prompt("y")

    def pressed(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 0.2)
        return "y"

    monkeypatch.setattr(sys.stdin, "readline", pressed, raising=False)
    answer = gpufleet("up", "dev")
    assert answer.code == 130
    assert engine.verbs == ["preview"]
    assert answer.err.splitlines()[-1] == (
        "interrupted; the state is kept; run the same command to continue: `gpufleet up dev`"
    )


def test_up_changes_nothing_after_no(gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any) -> None:
    answer_prompt("n")
    answer = gpufleet("up", "dev")
    assert answer.code == 1
    assert engine.verbs == ["preview"]
    assert answer.err.splitlines()[-1] == "stopped; nothing was changed"


def test_up_does_not_ask_without_changes(gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any) -> None:
    answer_prompt("n")
    engine.runs["preview"] = ([event(VPC, Op.SAME)], result("preview", changes=Changes(same=1)))
    engine.runs["up"] = ([event(VPC, Op.SAME)], result("up", changes=Changes(same=1)))
    answer = gpufleet("up", "dev")
    assert answer.code == 0
    assert engine.verbs == ["preview", "up"]
    assert "Apply these changes" not in answer.out + answer.err


def test_up_stops_at_a_failed_preview(gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any) -> None:
    answer_prompt("y")
    engine.runs["preview"] = ([], result("preview", ok=False))
    assert gpufleet("up", "dev").code == 4
    assert engine.verbs == ["preview"]


def test_destroy_lists_deletions_before_it_asks(
    gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any
) -> None:
    resources = [
        {"type": "pulumi:pulumi:Stack", "urn": STACK},
        {"type": "pulumi:providers:aws", "urn": "p", "custom": True},
        {"type": "aws:fsx/lustreFileSystem:LustreFileSystem", "urn": "a", "custom": True},
        {"type": "aws:ec2/subnet:Subnet", "urn": "b", "custom": True},
        {"type": "aws:ec2/subnet:Subnet", "urn": "c", "custom": True},
    ]
    engine.state = {"version": 3, "deployment": {"resources": resources}}
    answer_prompt("n")
    answer = gpufleet("destroy", "dev", "--allow-data-loss")
    assert answer.code == 1
    assert engine.verbs == ["export"]
    assert "   2 aws:ec2/subnet:Subnet" in answer.out
    assert "   1 aws:fsx/lustreFileSystem:LustreFileSystem" in answer.out
    assert "providers" not in answer.out
    assert "Delete all 3 resources of dev in cloud aws?" in answer.out + answer.err


FILE_SYSTEM = "urn:pulumi:dev::gpufleet::aws:fsx/lustreFileSystem:LustreFileSystem::scratch"
STORED = {
    "version": 3,
    "deployment": {
        "resources": [
            {"type": "aws:fsx/lustreFileSystem:LustreFileSystem", "urn": FILE_SYSTEM, "custom": True}
        ]
    },
}


@pytest.mark.parametrize("answer", ["--yes", ""])
def test_destroy_deletes_storage_only_with_the_flag(
    gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any, answer: str
) -> None:
    engine.state = STORED
    answer_prompt("y")
    reported = gpufleet("destroy", "dev", *filter(None, [answer]))
    assert reported.code == 1
    assert engine.verbs == ["export"]
    assert "1 x fsx.LustreFileSystem" in reported.err
    assert "--allow-data-loss" in reported.err
    assert gpufleet("destroy", "dev", "--yes", "--allow-data-loss").code == 0
    assert engine.verbs[-1] == "destroy"


@pytest.mark.parametrize("op", [Op.DELETE, Op.REPLACE])
@pytest.mark.parametrize("answer", ["--yes", ""])
def test_up_refuses_to_lose_storage_before_any_change(
    gpufleet: Gpufleet, engine: FakeEngine, answer_prompt: Any, op: Op, answer: str
) -> None:
    engine.state = STORED
    engine.runs["preview"] = ([event(FILE_SYSTEM, op)], result("preview"))
    answer_prompt("y")
    reported = gpufleet("up", "dev", *filter(None, [answer]))
    assert reported.code == 1
    assert "up" not in engine.verbs
    assert "scratch (fsx.LustreFileSystem, " in reported.err
    assert "--allow-data-loss" in reported.err
    assert gpufleet("up", "dev", "--yes", "--allow-data-loss").code == 0
    assert engine.verbs[-1] == "up"


def test_update_of_storage_needs_no_flag(gpufleet: Gpufleet, engine: FakeEngine) -> None:
    engine.state = STORED
    engine.runs["preview"] = ([event(FILE_SYSTEM, Op.UPDATE)], result("preview"))
    assert gpufleet("up", "dev", "--yes").code == 0
    assert engine.verbs == ["export", "preview", "up"]


def test_destroy_and_refresh_need_no_valid_fleet_file(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    (workplace / "stacks" / "dev" / "fleet.yaml").write_text("nonsense", encoding="utf-8")
    assert gpufleet("destroy", "dev", "--yes").code == 0
    assert gpufleet("refresh", "dev", "--yes").code == 0
    assert engine.verbs == ["export", "destroy", "refresh"]


def test_bad_input_is_reported_before_the_engine_runs(
    gpufleet: Gpufleet, engine: FakeEngine, workplace: Path
) -> None:
    path = workplace / "stacks" / "dev" / "fleet.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("p5.48xlarge", "x").replace("spot", "spott"))
    answer = gpufleet("up", "dev", "--yes", "--json")
    assert answer.code == 2
    assert answer.json["findings"]
    assert engine.asked == []
