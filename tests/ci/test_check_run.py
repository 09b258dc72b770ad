"""The check of a pull request, step by step in a clone, with a stand-in only for GitHub's API."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.ci.runner import Runner, done
from tests.unit.comment.conftest import FakeHost, _running

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = "dev"
FLEET = f"stacks/{ENVIRONMENT}/fleet.yaml"
NUMBER = 7
pytestmark = pytest.mark.xdist_group("ci-check")


def _git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    answer = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


class Project:
    """A project on a host: `main` is the current checkout, with pull requests on top."""

    def __init__(self, folder: Path) -> None:
        self.origin = folder / "origin"
        self.origin.mkdir(parents=True)
        listed = _git(ROOT, "ls-files", "-co", "--exclude-standard", "-z").split("\0")
        for name in listed:
            source = ROOT / name
            if name and (source.is_file() or source.is_symlink()):
                target = self.origin / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        _git(self.origin, "init", "--quiet")
        _git(self.origin, "add", "--all", "--force")
        _git(self.origin, "commit", "--quiet", "-m", "main")
        self.base = _git(self.origin, "rev-parse", "HEAD")

    def pull(self, number: int, replace: tuple[str, str] | None) -> str:
        """Open a pull request that changes the fleet file; its last commit."""
        _git(self.origin, "switch", "--quiet", "-c", f"topic-{number}", "main")
        path = self.origin / FLEET
        text = path.read_text()
        if replace is None:
            text += "# a word more\n"
        else:
            assert replace[0] in text
            text = text.replace(*replace)
        path.write_text(text)
        _git(self.origin, "commit", "--quiet", "-am", f"topic {number}")
        head = _git(self.origin, "rev-parse", "HEAD")
        _git(self.origin, "update-ref", f"refs/pull/{number}/head", head)
        _git(self.origin, "switch", "--quiet", "main")
        return head

    def checkout(self, into: Path, commit: str) -> Path:
        """Like actions/checkout with fetch-depth 0."""
        _git(into.parent, "clone", "--quiet", "--no-checkout", str(self.origin), str(into))
        _git(into, "checkout", "--quiet", "--detach", commit)
        return into


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def api() -> Iterator[FakeHost]:
    yield from _running("github")


def _pull(number: int, repository: str = "acme/fleet", *, draft: bool = False) -> dict[str, Any]:
    return {"number": number, "draft": draft, "head": {"repo": {"full_name": repository}}}


def _installed(workspace: Path) -> None:
    """An environment with everything installed, so that the install step has nothing to do."""
    for name, command in (("python", ""), ("uv", "-m uv"), ("gpufleet", "-m gpufleet.cli.main")):
        path = workspace / ".venv" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n')
        path.chmod(0o755)
    wanted = (workspace / "requirements/lock.txt").read_bytes() + (workspace / "pyproject.toml").read_bytes()
    (workspace / ".venv" / ".installed").write_text(f"{hashlib.sha256(wanted).hexdigest()} {workspace}\n")


def _runner(
    project: Project,
    folder: Path,
    commit: str,
    opened: list[dict[str, Any]],
    api: FakeHost,
    number: int = NUMBER,
) -> Runner:
    workspace = project.checkout(folder / "work", project.base)
    _installed(workspace)
    event = folder / "event.json"
    head = {"repo": {"full_name": "acme/fleet"}, "sha": commit}
    event.write_text(json.dumps({"pull_request": {"number": NUMBER, "head": head, "user": {"login": "ann"}}}))
    runner = Runner(
        workspace,
        folder / "temp",
        {
            "github.token": "ghs_token",
            "github.event.pull_request.base.ref": "main",
            "github.event.pull_request.head.sha": commit,
            "github.event.pull_request.number": str(number),
            "matrix.environment": ENVIRONMENT,
        },
        {
            "GITHUB_REPOSITORY": "acme/fleet",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_API_URL": api.address,
            # The code of the workspace, not of the checkout that .venv was made in.
            "PYTHONPATH": str(workspace),
            "GPUFLEET_ROOT": "",
        },
    )
    (folder / "pulls.json").write_text(json.dumps(opened))
    # The stand-in for `gh api`; any other call or token is an error.
    gh = (
        '[ "$GH_TOKEN" = ghs_token ] || exit 4',
        f'[ "$1" = api ] && exec cat {folder}/pulls.json',
        "exit 3",
    )
    runner.tool("gh", "\n".join(("#!/bin/sh", *gh, "")))
    return runner


def _check(runner: Runner) -> Any:
    """The steps of the check job, up to and including the check."""
    for name in ("Fetch the open pull requests", "Install gpufleet from its lock file"):
        ran = runner.step("gpufleet-check", "check", name)
        assert ran.returncode == 0, done(ran)
    return runner.step("gpufleet-check", "check", "Check")


@pytest.mark.fresh
def test_passing_change_publishes_its_verdict_as_a_comment(
    project: Project, tmp_path: Path, api: FakeHost
) -> None:
    commit = project.pull(NUMBER, None)
    project.pull(8, None)
    opened = [_pull(NUMBER), _pull(8), _pull(9, "mallory/fleet"), _pull(10, draft=True)]
    runner = _runner(project, tmp_path, commit, opened, api)
    ran = _check(runner)
    assert ran.returncode == 0, done(ran)
    assert (runner.temp / "open").read_text() == "pull/8/head\n"
    verdict = runner.temp / "verdict"
    text = (verdict / "verdict.md").read_text()
    assert text.startswith(f"<!-- gpufleet check {ENVIRONMENT} -->\n")
    assert json.loads((verdict / "verdict.sarif").read_text())["version"] == "2.1.0"
    assert ElementTree.parse(verdict / "verdict.xml").getroot().tag in ("testsuites", "testsuite")
    shown = runner.step("gpufleet-check", "check", "Show the verdict on the run's page")
    assert shown.returncode == 0 and runner.summary.read_text() == text

    # The job that comments: a separate checkout of the target branch, with the verdict as data.
    trusted = project.checkout(tmp_path / "trusted", project.base)
    commenting = Runner(trusted, runner.temp, runner._known, runner._env | {"PYTHONPATH": ""})
    posted = commenting.step("gpufleet-check", "comment", "Comment")
    assert posted.returncode == 0, done(posted)
    assert [each["body"].partition("\n")[0] for each in api.comments] == [
        f"<!-- gpufleet check {ENVIRONMENT} -->"
    ]
    again = commenting.step("gpufleet-check", "comment", "Comment")
    assert again.stdout == f"acme/fleet#{NUMBER}: comment unchanged\n", done(again)


def test_failing_change_still_publishes_its_verdict(project: Project, tmp_path: Path, api: FakeHost) -> None:
    commit = project.pull(NUMBER + 20, ("monthly: 15000 USD", "monthly: 100 USD"))
    runner = _runner(project, tmp_path, commit, [], api, NUMBER + 20)
    ran = _check(runner)
    assert ran.returncode == 1, done(ran)
    assert "budget-monthly" in (runner.temp / "verdict" / "verdict.md").read_text()
    sarif = json.loads((runner.temp / "verdict" / "verdict.sarif").read_text())
    places = [
        place["physicalLocation"]["artifactLocation"]["uri"]
        for result in sarif["runs"][0]["results"]
        for place in result["locations"]
    ]
    assert FLEET in places


def test_code_of_a_pull_request_judges_nothing_and_does_not_run(
    project: Project, tmp_path: Path, api: FakeHost
) -> None:
    number, ran = NUMBER + 40, tmp_path / "ran"
    _git(project.origin, "switch", "--quiet", "-c", f"topic-{number}", "main")
    evil = f"open({str(ran)!r}, 'w').close()\n"
    for name in ("policies/__main__.py", "stacks/__main__.py", "gpufleet/__init__.py", "sitecustomize.py"):
        (project.origin / name).write_text(evil)
    (project.origin / "scripts/setup").write_text(f"#!/bin/sh\ntouch {ran}\n")
    fleet = project.origin / FLEET
    fleet.write_text(fleet.read_text().replace("monthly: 15000 USD", "monthly: 100 USD"))
    _git(project.origin, "add", "--all")
    _git(project.origin, "commit", "--quiet", "-m", "evil")
    head = _git(project.origin, "rev-parse", "HEAD")
    _git(project.origin, "update-ref", f"refs/pull/{number}/head", head)
    _git(project.origin, "switch", "--quiet", "main")
    runner = _runner(project, tmp_path, head, [], api, number)
    checked = _check(runner)
    assert checked.returncode == 1, done(checked)
    assert not ran.exists()
    text = (runner.temp / "verdict" / "verdict.md").read_text()
    assert "budget-monthly" in text and "5 files of code of the change are left out" in text


def test_pull_request_that_was_pushed_again_has_no_verdict_in_this_run(
    project: Project, tmp_path: Path, api: FakeHost
) -> None:
    project.pull(NUMBER + 50, None)
    runner = _runner(project, tmp_path, "f" * 40, [], api, NUMBER + 50)
    fetched = runner.step("gpufleet-check", "check", "Fetch the open pull requests")
    assert fetched.returncode == 1
    assert "pushed again" in fetched.stdout


def test_unreadable_fleet_file_is_bad_input_and_the_comment_reports_no_verdict(
    project: Project, tmp_path: Path, api: FakeHost
) -> None:
    commit = project.pull(NUMBER + 30, ("environment: dev\n", "environment: dev\nno_such_field: 1\n"))
    runner = _runner(project, tmp_path, commit, [], api, NUMBER + 30)
    ran = _check(runner)
    assert ran.returncode == 2, done(ran)
    assert not (runner.temp / "verdict" / "verdict.md").exists()
    trusted = project.checkout(tmp_path / "trusted", project.base)
    commenting = Runner(trusted, runner.temp, runner._known, runner._env | {"PYTHONPATH": ""})
    posted = commenting.step("gpufleet-check", "comment", "Comment")
    assert posted.returncode == 0, done(posted)
    assert "no verdict" in api.comments[0]["body"]
