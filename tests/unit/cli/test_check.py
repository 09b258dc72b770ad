"""`gpufleet check`: options, exit codes and files, with a prepared verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from gpufleet.cli.main import main
from gpufleet.errors import CloudError, InputError
from gpufleet.verdict.models import Verdict
from gpufleet.verdict.request import CheckRequest
from tests.unit.verdict.conftest import rule, verdict, violated

Judge = Callable[[Verdict | Exception], list[CheckRequest]]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> Judge:
    """Set the verdict; returns the requests for it."""
    asked: list[CheckRequest] = []

    def set_to(outcome: Verdict | Exception) -> list[CheckRequest]:
        def check(request: CheckRequest, on_step: Any, _started: Any = None) -> Verdict:
            on_step("previewing")
            asked.append(request)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr("gpufleet.verdict.check.check", check)
        return asked

    return set_to


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (verdict(rule("a")), 0),
        (verdict(rule("a", violated(effect="advisory"), status="advisory")), 0),
        (verdict(rule("a", violated())), 1),
        (InputError("no such ref"), 2),
        (CloudError("the emulated AWS is gone"), 3),
        (RuntimeError("a fault of ours"), 3),
    ],
)
def test_each_exit_code_has_one_meaning(judged: Judge, outcome: Verdict | Exception, code: int) -> None:
    judged(outcome)
    assert main(["check", "prod"]) == code


def test_stdout_has_only_json(judged: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    judged(verdict(rule("a", violated())))
    assert main(["check", "prod", "--json"]) == 1
    reported = capsys.readouterr()
    assert json.loads(reported.out)["verdict"] == "fail"
    assert reported.out.count("\n") == 1
    assert reported.err == ""


def test_error_with_json_is_an_object_with_its_exit_code(
    judged: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    judged(InputError("no such ref", remedy="fetch it"))
    assert main(["check", "prod", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "error": "no such ref",
        "remedy": "fetch it",
        "exit_code": 2,
    }


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("terminal", "PASS  prod"),
        ("markdown", "<!-- gpufleet check prod -->\n"),
        ("json", '{"verdict": "pass"'),
        ("sarif", "{\n"),
        ("junit", "<?xml"),
    ],
)
def test_each_format_is_printed_to_stdout(
    judged: Judge, capsys: pytest.CaptureFixture[str], name: str, start: str
) -> None:
    judged(verdict(rule("a")))
    assert main(["check", "prod", "--format", name]) == 0
    assert capsys.readouterr().out.startswith(start)


def test_all_output_files_are_written_even_for_a_failed_verdict(
    judged: Judge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged(verdict(rule("a", violated())))
    names = {"--markdown": "v.md", "--sarif": "v.sarif", "--junit": "v.xml", "--json-file": "v.json"}
    options = [word for option, name in names.items() for word in (option, f"out/{name}")]
    assert main(["check", "prod", *options]) == 1
    out = tmp_path / "out"
    assert (out / "v.md").read_text().startswith("<!-- gpufleet check prod -->")
    assert json.loads((out / "v.sarif").read_text())["version"] == "2.1.0"
    assert ET.parse(out / "v.xml").getroot().attrib["failures"] == "1"
    assert json.loads((out / "v.json").read_text())["verdict"] == "fail"
    assert sorted(path.name for path in out.iterdir()) == sorted(names.values())
    assert capsys.readouterr().out.startswith("FAIL")


def test_unwritable_output_file_is_bad_input(judged: Judge, tmp_path: Path) -> None:
    judged(verdict(rule("a")))
    (tmp_path / "taken").write_text("")
    assert main(["check", "prod", "--sarif", "taken/v.sarif"]) == 2


def test_options_reach_the_verdict(judged: Judge, tmp_path: Path) -> None:
    asked = judged(verdict(rule("a")))
    (tmp_path / "jobs.json").write_text('{"use1/pretrain": 3}')
    options = ["--base", "main", "--open", "a", "--open", "b", "--jobs", "jobs.json"]
    assert main(["check", "prod", *options]) == 0
    (request,) = asked
    assert (request.base, request.open_changes, request.engine) == ("main", ("a", "b"), "embedded")
    assert request.jobs == {"use1/pretrain": 3}
    assert request.workspace.target == "prod"


@pytest.mark.parametrize(
    "options",
    [
        ["--format", "xml"],
        ["--engine", "terraform"],
        ["--cloud", "aws"],
        ["--engine", "pulumi", "--cloud", "gcp"],
        ["--jobs", "missing.json"],
        ["--nonsense"],
    ],
)
def test_conflicting_options_are_bad_input(judged: Judge, options: list[str]) -> None:
    asked = judged(verdict(rule("a")))
    assert main(["check", "prod", *options]) == 2
    assert asked == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"use1/a": -1}',
        '{"use1/a": "3"}',
        '{"use1/a": true}',
        '{"use1/a": 1.5}',
        "[" * 100_000,
    ],
)
def test_invalid_jobs_file_is_bad_input(judged: Judge, tmp_path: Path, text: str) -> None:
    asked = judged(verdict(rule("a")))
    (tmp_path / "jobs.json").write_text(text)
    assert main(["check", "prod", "--jobs", "jobs.json"]) == 2
    assert asked == []


def test_open_changes_need_a_base(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "prod", "--open", "feature"]) == 2
    assert "--base" in capsys.readouterr().err


def test_unknown_environment_is_bad_input(workplace: Path) -> None:
    assert main(["check", "nowhere"]) == 2
