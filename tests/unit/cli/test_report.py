"""`gpufleet report`: path of the page, refusals, exit codes, with a prepared verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpufleet.errors import InputError
from gpufleet.verdict.models import Verdict
from gpufleet.verdict.request import CheckRequest
from tests.unit.cli.conftest import Gpufleet
from tests.unit.report.fleets import verdict_on
from tests.unit.verdict.conftest import rule, violated


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[CheckRequest]:
    """The requests for a verdict, which is always a failing one on dev."""
    requests: list[CheckRequest] = []

    def check(request: CheckRequest, _on_step: Any, _started: Any = None) -> Verdict:
        if request.base == "nowhere":
            raise InputError("no such ref")
        requests.append(request)
        return verdict_on("dev", rule("closed-buckets", violated()))

    monkeypatch.setattr("gpufleet.verdict.check.check", check)
    return requests


def test_page_is_written_for_any_verdict(gpufleet: Gpufleet, asked: list[CheckRequest]) -> None:
    answer = gpufleet("report", "dev", "--html", "out/dev.html", "--base", "main")
    assert (answer.code, answer.out) == (0, "out/dev.html: FAIL, 1 violation of 1 rule\n")
    page = Path("out/dev.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "closed-buckets" in page
    assert asked[0].base == "main"
    assert [path.name for path in Path("out").iterdir()] == ["dev.html"]


def test_json_names_the_file_and_the_verdict(gpufleet: Gpufleet, asked: list[CheckRequest]) -> None:
    answer = gpufleet("report", "dev", "--html", "dev.html", "--json")
    assert answer.code == 0
    assert answer.json == {
        "file": "dev.html",
        "environment": "dev",
        "verdict": "fail",
        "bytes": Path("dev.html").stat().st_size,
    }
    assert answer.err == ""


def test_earlier_report_is_replaced(gpufleet: Gpufleet, asked: list[CheckRequest]) -> None:
    gpufleet("report", "dev", "--html", "dev.html")
    page = Path("dev.html").read_text(encoding="utf-8")
    Path("dev.html").write_text(page.replace("closed-buckets", "older"), encoding="utf-8")
    assert gpufleet("report", "dev", "--html", "dev.html").code == 0
    assert Path("dev.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("stacks", "--html stacks is a folder"),
        ("stacks/dev/fleet.yaml", "stacks/dev/fleet.yaml exists and is not a report of gpufleet"),
        ("Pulumi.yaml/report.html", "Pulumi.yaml is not a writable folder"),
        ("/dev/null", "/dev/null exists and is not a report of gpufleet"),
        ("a\0b", "embedded null"),
        ("x" * 300, "is not a valid path"),
    ],
)
def test_invalid_report_path_is_refused_before_anything_is_computed(
    gpufleet: Gpufleet, asked: list[CheckRequest], place: str, message: str
) -> None:
    before = Path("stacks/dev/fleet.yaml").read_bytes()
    answer = gpufleet("report", "dev", "--html", place)
    assert answer.code == 2
    assert message in answer.err
    assert asked == []
    assert Path("stacks/dev/fleet.yaml").read_bytes() == before


def test_no_page_is_written_without_a_verdict(gpufleet: Gpufleet, asked: list[CheckRequest]) -> None:
    assert gpufleet("report", "dev", "--html", "dev.html", "--base", "nowhere").code == 2
    assert not Path("dev.html").exists()


def test_page_needs_a_file(gpufleet: Gpufleet) -> None:
    answer = gpufleet("report", "dev")
    assert answer.code == 2
    assert "--html" in answer.err
