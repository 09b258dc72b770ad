"""Finds the pull request of this CI run, and creates or updates our comment on it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from gpufleet.comment.api import Api, CodeHostError
from gpufleet.comment.hosts import Comment, GitHub, GitLab, Host
from gpufleet.errors import CloudError, InputError

Outcome = Literal["created", "updated", "unchanged", "not allowed"]

GITLAB_TOKEN = "GPUFLEET_GITLAB_TOKEN"  # noqa: S105 - the variable's name
_TRIES = 3
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
# Pull requests of Dependabot get a read-only token, like those of a fork.
_ROBOTS = frozenset({"dependabot[bot]"})


def publish(host: Host, body: str) -> Outcome:
    """Update our comment that starts with the body's first line, or create one.

    Comments of others are never changed, whatever they start with. If the host does not allow a fork's pull
    request to comment, the outcome is "not allowed", not an error: the exit code of `gpufleet check` is the
    verdict, and the comment only shows it. Raises CloudError for anything else.
    """
    for attempt in range(_TRIES):
        try:
            return _publish(host, body)
        except CodeHostError as error:
            if error.status in (401, 403) and not error.transient:
                if host.read_only:
                    return "not allowed"
                raise CloudError(f"{host.name}: {error.message}", remedy=host.remedy) from None
            # A creation that seems to have failed may have succeeded: check before the retry.
            again = error.status == 404 or error.processed
            if not again or attempt == _TRIES - 1 or not host.api.wait(attempt):
                raise CloudError(f"{host.name}: {error.message}", remedy=error.remedy) from None
    raise AssertionError("unreachable: the last try raises")


def _publish(host: Host, body: str) -> Outcome:
    ours = _find(host, body.partition("\n")[0])
    if ours is None:
        host.create(body)
        return "created"
    if _same(ours.body, body):
        return "unchanged"
    host.update(ours, body)
    return "updated"


def _find(host: Host, first_line: str) -> Comment | None:
    for comment in host.comments():
        if comment.own and comment.body.replace("\r\n", "\n").partition("\n")[0].strip() == first_line:
            return comment
    return None


def _same(one: str, other: str) -> bool:
    return one.replace("\r\n", "\n").strip() == other.strip()


def host_from_environment(env: Mapping[str, str], number: int | None = None, author: str = "") -> Host:
    """Return the pull request in the variables of GitHub Actions or GitLab CI.

    GitHub: GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL, and GITHUB_EVENT_PATH unless `number` is given.
    GitLab: GPUFLEET_GITLAB_TOKEN, CI_PROJECT_ID, CI_API_V4_URL and CI_MERGE_REQUEST_IID. Raises InputError
    for missing variables.
    """
    if env.get("GITHUB_REPOSITORY"):
        return _github(env, number, author)
    if env.get("CI_PROJECT_ID"):
        return _gitlab(env, number)
    raise InputError(
        "neither GITHUB_REPOSITORY nor CI_PROJECT_ID is set",
        remedy="run it in a job of GitHub Actions or GitLab CI, or set the variables that the guide lists",
    )


def where_from_environment(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the address of this CI run and the commit that it checked; empty if not set."""
    if env.get("GITHUB_REPOSITORY"):
        server, repository, run = (
            env.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
        )
        address = f"{server}/{repository}/actions/runs/{run}" if server and run else ""
        pull = _event(env).get("pull_request") or {}
        return address, str((pull.get("head") or {}).get("sha") or env.get("GITHUB_SHA", ""))
    return env.get("CI_PIPELINE_URL", ""), env.get("CI_COMMIT_SHA", "")


def _github(env: Mapping[str, str], number: int | None, author: str) -> GitHub:
    repository = env["GITHUB_REPOSITORY"]
    if not _REPOSITORY.fullmatch(repository):
        raise InputError(f"GITHUB_REPOSITORY is {repository!r}", remedy="set it to owner/name")
    event = _event(env)
    pull = event.get("pull_request") or {}
    found = number or pull.get("number") or event.get("number")
    if not isinstance(found, int):
        raise InputError("the event of this run is not of a pull request", remedy="pass its number with --pr")
    token = env.get("GITHUB_TOKEN", "")
    if not token:
        raise InputError("GITHUB_TOKEN is not set", remedy="set it in the step's env to ${{ github.token }}")
    api = Api(env.get("GITHUB_API_URL") or "https://api.github.com", ("Authorization", f"Bearer {token}"))
    head = ((pull.get("head") or {}).get("repo") or {}).get("full_name")
    robot = (pull.get("user") or {}).get("login") in _ROBOTS
    host = GitHub(api, repository, found, read_only=bool(pull) and (head != repository or robot))
    if author:
        host.author = author
    return host


def _event(env: Mapping[str, str]) -> dict[str, Any]:
    path = env.get("GITHUB_EVENT_PATH")
    if not path:
        return {}
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"GITHUB_EVENT_PATH: {type(error).__name__}", remedy="run it in a job of GitHub Actions"
        ) from None
    return event if isinstance(event, dict) else {}


def _gitlab(env: Mapping[str, str], number: int | None) -> Host:
    project = env["CI_PROJECT_ID"]
    iid = str(number or env.get("CI_MERGE_REQUEST_IID", ""))
    if not iid.isdigit():
        raise InputError(
            "CI_MERGE_REQUEST_IID is not set: this is not a merge request pipeline",
            remedy="run the job only in merge request pipelines, or pass the number with --pr",
        )
    address = env.get("CI_API_V4_URL")
    token = env.get(GITLAB_TOKEN, "")
    if not address or not token:
        raise InputError(
            f"{GITLAB_TOKEN if address else 'CI_API_V4_URL'} is not set",
            remedy=f"store a project access token with the scope api in the CI/CD variable {GITLAB_TOKEN}",
        )
    source = env.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", project)
    api = Api(address, ("PRIVATE-TOKEN", token))
    return GitLab(api, quote(project, safe=""), int(iid), read_only=source != project)
