"""The scripts of the nightly drift and of the preview, with stand-ins for Pulumi and GitHub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.ci.runner import Runner, done
from tests.ci.workflows import steps, workflow

RUN = "https://github.com/acme/fleet/actions/runs/1"


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    (tmp_path / "work" / ".venv" / "bin").mkdir(parents=True)
    known = {
        "matrix.environment": "prod",
        "inputs.environment": "prod",
        "vars.PULUMI_BACKEND_URL": "s3://state",
        "github.token": "ghs_token",
        "github.repository": "acme/fleet",
        "github.server_url": "https://github.com",
        "github.run_id": "1",
        "needs.drift.result": "success",
    }
    return Runner(tmp_path / "work", tmp_path / "temp", known, {})


@pytest.mark.parametrize(
    ("pulumi", "step", "status"), [(0, 0, "none\n"), (7, 0, "drift\n"), (1, 1, None), (255, 255, None)]
)
def test_exit_code_of_pulumi_separates_drift_from_failure(
    runner: Runner, pulumi: int, step: int, status: str | None
) -> None:
    runner.tool("pulumi", f'#!/bin/sh\necho "$@"\necho "$PULUMI_BACKEND_URL"\nexit {pulumi}\n')
    ran = runner.step("gpufleet-drift", "drift", "Compare the cloud with main")
    assert ran.returncode == step, done(ran)
    path = runner.workspace / "drift" / "prod" / "status"
    assert (path.read_text() if path.exists() else None) == status
    assert "--stack prod --refresh --expect-no-changes" in ran.stdout
    assert "s3://state" in ran.stdout


def _gh(runner: Runner, open_issues: list[int]) -> Path:
    """A `gh` with open issues that records its calls."""
    log = runner.temp / "asked"
    log.touch()
    listed = json.dumps([{"number": number} for number in open_issues])
    runner.tool(
        "gh",
        "#!/usr/bin/env python3\nimport json, sys\n"
        f"if sys.argv[1:3] == ['issue', 'list']: print({listed!r}); sys.exit()\n"
        f"open({str(log)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n",
    )
    return log


def _asked(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def _found(runner: Runner, *environments: tuple[str, str]) -> None:
    """What the runs of the environments uploaded, as actions/download-artifact (v8) puts it on disk."""
    jobs = workflow("gpufleet-drift")["jobs"]
    (upload,) = [each for each in steps(jobs["drift"]) if "/upload-artifact@" in each.get("uses", "")]
    (download,) = [each for each in steps(jobs["issue"]) if "/download-artifact@" in each.get("uses", "")]
    for environment, status in environments:
        runner._known = {**runner._known, "matrix.environment": environment}
        code = {"drift": 7, "none": 0}[status]
        runner.tool("pulumi", f"#!/bin/sh\necho '~ {environment} was changed by hand'\nexit {code}\n")
        ran = runner.step("gpufleet-drift", "drift", "Compare the cloud with main")
        assert ran.returncode == 0, done(ran)
        artifact = upload["with"]["name"].replace("${{ matrix.environment }}", environment)
        folder = runner.temp / "drift"
        if not download["with"].get("merge-multiple") and len(environments) > 1:
            folder /= artifact
        shutil.copytree(runner.workspace / upload["with"]["path"], folder, dirs_exist_ok=True)
        shutil.rmtree(runner.workspace / upload["with"]["path"])


def _issue(runner: Runner) -> None:
    ran = runner.step("gpufleet-drift", "issue", "Keep the issue up to date")
    assert ran.returncode == 0, done(ran)


def test_first_drift_opens_an_issue_with_the_differences(runner: Runner) -> None:
    log = _gh(runner, [])
    _found(runner, ("prod", "drift"), ("dev", "none"))
    _issue(runner)
    label, create = _asked(log)
    assert label[:3] == ["label", "create", "gpufleet-drift"]
    assert create[:4] == ["issue", "create", "--title", "gpufleet: drift in prod"]
    body = (runner.temp / "body.md").read_text()
    assert "prod was changed by hand" in body and "dev was changed" not in body and RUN in body


def test_drift_of_the_only_environment_is_seen(runner: Runner) -> None:
    log = _gh(runner, [12])
    _found(runner, ("prod", "drift"))
    _issue(runner)
    [edit] = _asked(log)
    assert edit[:5] == ["issue", "edit", "12", "--title", "gpufleet: drift in prod"]


def test_issue_of_many_environments_is_cut_to_what_github_accepts(runner: Runner) -> None:
    _gh(runner, [])
    for number in range(5):
        folder = runner.temp / "drift" / f"site{number}"
        folder.mkdir(parents=True)
        (folder / "status").write_text("drift\n")
        (folder / "diff.txt").write_text("~ changed\n" * 5_000)
    _issue(runner)
    body = (runner.temp / "body.md").read_text()
    assert 50_000 < len(body) < 65_536 and body.endswith("The rest is in the run.\n")


def test_continuing_drift_updates_the_open_issue(runner: Runner) -> None:
    log = _gh(runner, [12])
    _found(runner, ("dev", "drift"), ("prod", "drift"))
    _issue(runner)
    [edit] = _asked(log)
    assert edit[:5] == ["issue", "edit", "12", "--title", "gpufleet: drift in dev prod"]


def test_issue_is_closed_when_drift_is_gone(runner: Runner) -> None:
    log = _gh(runner, [12])
    _found(runner, ("dev", "none"), ("prod", "none"))
    _issue(runner)
    assert _asked(log) == [["issue", "close", "12", "--comment", f"No drift any more: {RUN}"]]


def test_issue_stays_open_when_the_comparison_is_incomplete(runner: Runner) -> None:
    log = _gh(runner, [12])
    _found(runner, ("dev", "none"))
    runner._known = {**runner._known, "needs.drift.result": "failure"}
    _issue(runner)
    assert _asked(log) == []


def test_nothing_happens_without_drift_and_without_an_issue(runner: Runner) -> None:
    log = _gh(runner, [])
    _issue(runner)
    assert _asked(log) == []


@pytest.mark.parametrize("code", [0, 1])
def test_preview_is_shown_and_its_exit_code_is_that_of_the_step(runner: Runner, code: int) -> None:
    gpufleet = runner.workspace / ".venv" / "bin" / "gpufleet"
    gpufleet.write_text(f'#!/bin/sh\necho "asked: $@"\necho "to stderr" >&2\nexit {code}\n')
    gpufleet.chmod(0o755)
    ran = runner.step("gpufleet-environment", "preview", "Preview with the policy pack")
    assert ran.returncode == code, done(ran)
    text = runner.summary.read_text()
    assert "asked: preview prod --engine pulumi --cloud aws" in text and "to stderr" in text
