"""The CI templates: linted with the tools of their hosts, pinned, with least privilege."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.ci import judges
from tests.ci.workflows import GITHUB, GITLAB, ROOT, WORKFLOWS, all_jobs, gitlab, steps, workflow

PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


@pytest.fixture(scope="session")
def actionlint() -> Path:
    return judges.actionlint()


def _lint(actionlint: Path, folder: Path) -> Any:
    judges.run("git", "init", "--quiet", folder)
    return judges.run(actionlint, "-color=false", cwd=folder)


@pytest.fixture(params=["the templates", "a new fleet repository"])
def workflows(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with `.github/workflows`."""
    folder = tmp_path / "fleet"
    if request.param == "the templates":
        shutil.copytree(GITHUB, folder)
    else:
        done = judges.run(judges.BIN / "gpufleet", "new", folder, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.fresh
def test_actionlint_and_shellcheck_find_no_errors(actionlint: Path, workflows: Path) -> None:
    done = _lint(actionlint, workflows)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "reported"),
    [
        ("needs: check", "needs: chekc", "chekc"),
        ('--base "origin/$BASE_REF"', "--base origin/$BASE_REF", "SC2086"),
        ("${{ matrix.environment }}", "${{ matrix.enviroment }}", "enviroment"),
    ],
)
def test_actionlint_finds_an_injected_error(
    actionlint: Path, tmp_path: Path, right: str, wrong: str, reported: str
) -> None:
    shutil.copytree(GITHUB, tmp_path, dirs_exist_ok=True)
    path = tmp_path / ".github" / "workflows" / "gpufleet-check.yml"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    done = _lint(actionlint, tmp_path)
    assert done.returncode == 1 and reported in done.stdout


def test_zizmor_finds_no_vulnerability(workflows: Path) -> None:
    done = judges.run(
        *(judges.BIN / "zizmor", "--offline", "--persona=pedantic", "--format=json", "--no-exit-codes"),
        workflows,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # `$/...` instead of `./...` is a proposal for newer runners only; actionlint does not support it.
    assert [each["ident"] for each in found if each["ident"] != "self-repository"] == []


def test_zizmor_finds_an_injected_vulnerability(tmp_path: Path) -> None:
    shutil.copytree(GITHUB, tmp_path, dirs_exist_ok=True)
    path = tmp_path / ".github" / "workflows" / "gpufleet-check.yml"
    text = re.sub(r" # zizmor: ignore.*", "", path.read_text())
    path.write_text(text.replace('"$ENVIRONMENT" --base', '"${{ github.head_ref }}" --base'))
    done = judges.run(judges.BIN / "zizmor", "--offline", "--format=json", "--no-exit-codes", tmp_path)
    found = {each["ident"] for each in json.loads(done.stdout)}
    assert {"dangerous-triggers", "template-injection"} <= found


def test_template_matches_the_gitlab_schema() -> None:
    done = judges.run(
        judges.BIN / "check-jsonschema",
        "--builtin-schema=vendor.gitlab-ci",
        "--data-transform=gitlab-ci",
        GITLAB,
    )
    assert done.returncode == 0, done.stdout


def test_gitlab_schema_rejects_an_injected_error(tmp_path: Path) -> None:
    path = tmp_path / "gitlab-ci.yml"
    path.write_text(GITLAB.read_text().replace("when: manual", "when: by-hand"))
    done = judges.run(
        judges.BIN / "check-jsonschema",
        "--builtin-schema=vendor.gitlab-ci",
        "--data-transform=gitlab-ci",
        path,
    )
    assert done.returncode == 1


def _gitlab_jobs() -> dict[str, dict[str, Any]]:
    reserved = {"workflow", "stages", "variables", "default"}
    return {name: job for name, job in gitlab().items() if name not in reserved}


def test_shellcheck_finds_no_errors_in_gitlab_scripts(tmp_path: Path) -> None:
    seen = 0
    for name, job in _gitlab_jobs().items():
        lines = [*job.get("before_script", ()), *job.get("script", ())]
        if lines:
            seen += 1
            path = tmp_path / f"{name.replace(' ', '-').strip('.')}.sh"
            path.write_text("#!/bin/bash\nset -eo pipefail\n" + "\n".join(lines) + "\n")
            done = judges.run(judges.BIN / "shellcheck", "--norc", path)
            assert done.returncode == 0, done.stdout
    assert seen >= 6


def test_jobs_for_gitlab_need_only_jobs_of_an_earlier_or_the_same_stage() -> None:
    stages = gitlab()["stages"]
    jobs = {name: job for name, job in _gitlab_jobs().items() if not name.startswith(".")}
    for name, job in jobs.items():
        for needed in job.get("needs", ()):
            assert stages.index(jobs[needed]["stage"]) <= stages.index(job["stage"]), (name, needed)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_a_version_comment(path: Path) -> None:
    lines = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    for line in lines:
        used = line.removeprefix("uses: ")
        if not used.startswith("./"):
            action, _, version = used.partition(" # ")
            assert PINNED.fullmatch(action), line
            assert re.fullmatch(r"v\d+\.\d+\.\d+", version), line


def test_each_action_has_one_commit_in_all_workflows() -> None:
    commits: dict[str, set[str]] = {}
    for _, _, job in all_jobs():
        for step in steps(job):
            if "uses" in step:
                action, _, commit = step["uses"].partition("@")
                commits.setdefault(action, set()).add(commit)
    assert commits and all(len(found) == 1 for found in commits.values())


def test_pulumi_cli_version_equals_the_sdk_version() -> None:
    lock = (ROOT / "requirements" / "lock.txt").read_text()
    [wanted] = re.findall(r"^pulumi==([\d.]+)", lock, re.MULTILINE)
    given = [
        step["with"]["pulumi-version"]
        for _, _, job in all_jobs()
        for step in steps(job)
        if step.get("uses", "").startswith("pulumi/actions@")
    ]
    assert given == [wanted] * 3
    assert gitlab()["variables"]["PULUMI_IMAGE"].endswith(f":{wanted}")


def test_tokens_have_only_the_permissions_that_their_job_needs() -> None:
    for path in WORKFLOWS:
        assert workflow(path.stem)["permissions"] == {}
    writing = {
        (file, name): sorted(key for key, level in job["permissions"].items() if level == "write")
        for file, name, job in all_jobs()
    }
    assert {job: rights for job, rights in writing.items() if rights} == {
        ("gpufleet-check", "comment"): ["pull-requests"],
        ("gpufleet-check", "sarif"): ["security-events"],
        ("gpufleet-deploy", "dev"): ["id-token"],
        ("gpufleet-deploy", "prod"): ["id-token"],
        ("gpufleet-environment", "preview"): ["id-token"],
        ("gpufleet-environment", "up"): ["id-token"],
        ("gpufleet-drift", "drift"): ["id-token"],
        ("gpufleet-drift", "issue"): ["issues"],
    }


def test_job_that_runs_pull_request_code_has_no_secret_and_no_token() -> None:
    own = workflow("gpufleet-own-code")
    assert list(own["on"]) == ["pull_request"]
    for job in own["jobs"].values():
        assert not re.search(r"secrets\.|github\.token|GITHUB_TOKEN", json.dumps(job))
        assert job["permissions"] in ({}, {"contents": "read"})
        assert "upload-artifact" not in json.dumps(job)
    checkout = steps(own["jobs"]["check"])[0]
    assert checkout["with"]["persist-credentials"] is False


def test_workflow_that_judges_comes_from_the_target_branch_and_checks_out_only_it() -> None:
    check = workflow("gpufleet-check")
    assert list(check["on"]) == ["pull_request_target"]
    base = {"${{ github.event.pull_request.base.ref }}", "${{ github.event.pull_request.base.sha }}"}
    for job in check["jobs"].values():
        assert "secrets." not in json.dumps(job)
        for step in steps(job):
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["ref"] in base
            assert "cache" not in step.get("uses", "") + json.dumps(step.get("with", {}))
            assert not re.search(
                r"git (checkout|switch|worktree|merge|pull|reset|restore|apply)|\$\{\{", step.get("run", "")
            )
    judging = check["jobs"]["check"]
    assert judging["permissions"] == {"contents": "read", "pull-requests": "read"}
    first, *rest = steps(judging)
    with_token = [number for number, step in enumerate(rest) if "github.token" in json.dumps(step)]
    installed = [number for number, step in enumerate(rest) if "scripts/" in step.get("run", "")]
    assert first["with"]["persist-credentials"] is False
    assert with_token == [0] and min(installed) > 0
    (run,) = [step["run"] for step in rest if step.get("name") == "Check"]
    assert '--base "origin/$BASE_REF" --change "$HEAD_SHA"' in run


def test_gitlab_judges_in_a_work_tree_of_the_target_branch_and_comments_only_that() -> None:
    jobs = _gitlab_jobs()
    (script,) = jobs["check"]["script"]
    entered = script.index('cd "$target"')
    assert script.index("git worktree add") < entered < script.index("scripts/setup")
    assert '--change "$CI_COMMIT_SHA"' in script
    assert jobs["comment"]["needs"] == ["check"]
    assert "artifacts" not in jobs["own code"]


def test_the_job_that_comments_runs_the_target_branch_and_installs_nothing() -> None:
    comment = workflow("gpufleet-check")["jobs"]["comment"]
    checkout, download, post = steps(comment)
    assert checkout["with"] == {
        "ref": "${{ github.event.pull_request.base.sha }}",
        "persist-credentials": False,
    }
    assert download["with"]["path"].startswith("${{ runner.temp }}/")
    assert post["run"] == 'python3 -m gpufleet.comment "$ENVIRONMENT" "$RUNNER_TEMP/verdict/verdict.md"'


def test_no_checkout_persists_its_token() -> None:
    checkouts = [
        step for _, _, job in all_jobs() for step in steps(job) if "actions/checkout" in step.get("uses", "")
    ]
    assert len(checkouts) == 6
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_cloud_credentials_come_after_everything_is_installed() -> None:
    seen = 0
    for _, name, job in all_jobs():
        used = [step.get("uses", step.get("run", "")) for step in steps(job)]
        role = [number for number, text in enumerate(used) if text.startswith("aws-actions/")]
        if role:
            seen += 1
            assert max(n for n, text in enumerate(used) if "scripts/setup" in text) < role[0], name
            assert job["environment"], name
    assert seen == 3


def test_running_update_is_never_cancelled() -> None:
    up = workflow("gpufleet-environment")["jobs"]["up"]
    assert up["concurrency"] == {
        "group": "gpufleet-up-${{ inputs.environment }}",
        "cancel-in-progress": False,
    }
    assert "concurrency" not in workflow("gpufleet-deploy")
    assert _gitlab_jobs()[".up"]["interruptible"] is False
    assert _gitlab_jobs()[".up"]["resource_group"] == "gpufleet-$ENVIRONMENT"


def test_all_check_jobs_cover_the_same_environments() -> None:
    jobs = workflow("gpufleet-check")["jobs"]
    lists = [job["strategy"]["matrix"]["environment"] for job in jobs.values() if "strategy" in job]
    assert lists == [["dev", "prod"]] * 3
    for environment in lists[0]:
        assert (ROOT / "stacks" / environment / "fleet.yaml").is_file()


def test_every_job_has_a_timeout() -> None:
    for file, name, job in all_jobs():
        assert "uses" in job or job["timeout-minutes"] <= 360, (file, name)
