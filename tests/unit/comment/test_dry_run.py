"""`gpufleet comment --dry-run`: what would be posted, without a token and without a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli.main import main
from tests.unit.comment.conftest import FakeHost

VERDICT = "<!-- gpufleet check prod -->\n### gpufleet check prod: pass\n\n@all /approve\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A verdict, outside of any CI."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "CI_PROJECT_ID", "GPUFLEET_GITLAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "verdict.md"
    path.write_text(VERDICT)
    return path


def test_text_is_printed_as_posted_outside_ci(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comment", "prod", str(file), "--dry-run"]) == 0
    reported = capsys.readouterr()
    assert reported.out.startswith("<!-- gpufleet check prod -->\n### gpufleet check prod: pass\n")
    assert "@all" not in reported.out
    assert "not posted (--dry-run): the comment for the pull request" in reported.err


def test_pull_request_is_named_in_ci_without_a_request(
    file: Path, github: FakeHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/fleet")
    monkeypatch.setenv("GITHUB_API_URL", github.address)
    assert main(["comment", "prod", str(file), "--pr", "7", "--dry-run", "--json"]) == 0
    assert '"comment": "not posted"' in capsys.readouterr().out
    assert github.requests == []
    assert main(["comment", "prod", str(file), "--pr", "7", "--dry-run"]) == 0
    assert "acme/fleet" in capsys.readouterr().err


def test_file_that_is_not_a_verdict_of_the_environment_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["comment", "dev", str(file), "--dry-run"]) == 2
    assert "does not start with the line" in capsys.readouterr().err
