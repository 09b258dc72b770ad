"""The work of `gpufleet comment` and `python3 -m gpufleet.comment`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpufleet.comment.body import verdict_body
from gpufleet.comment.hosts import GitHub
from gpufleet.comment.publish import (
    GITLAB_TOKEN,
    Outcome,
    host_from_environment,
    publish,
    where_from_environment,
)
from gpufleet.errors import InputError

NOT_ALLOWED = (
    "the host does not allow comments from pull requests of forks or Dependabot: see the verdict in the log "
    "and the files of the run"
)


def comment(
    environment: str, file: Path, env: Mapping[str, str], number: int | None = None, author: str = ""
) -> tuple[str, Outcome]:
    """Post the verdict in `file` on the pull request of this run; return its name and the outcome."""
    host = host_from_environment(env, number, author)
    run, commit = where_from_environment(env)
    body = verdict_body(environment, file, most=host.most, run=run, commit=commit)
    return host.name, publish(host, body)


def preview_comment(
    environment: str, file: Path, env: Mapping[str, str], number: int | None = None, author: str = ""
) -> tuple[str, str]:
    """Return what `comment` would post: the pull request's name ("" if unknown) and the text.

    It needs no token. Outside CI the text is limited as for GitHub, whose limit is the lower one.
    """
    tokens = {"GITHUB_TOKEN": "none", GITLAB_TOKEN: "none"}
    try:
        host = host_from_environment({**tokens, **env}, number, author)
    except InputError:
        return "", verdict_body(environment, file, most=GitHub.most)
    run, commit = where_from_environment(env)
    return host.name, verdict_body(environment, file, most=host.most, run=run, commit=commit)
