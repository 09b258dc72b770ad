"""What `gpufleet comment` and `python3 -m gpufleet.comment` both do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpufleet.comment.body import verdict_body
from gpufleet.comment.publish import Outcome, host_from_environment, publish, where_from_environment

NOT_ALLOWED = (
    "the host lets the pull request of a fork (or of Dependabot) not comment: the verdict is in the log "
    "and the files of the run"
)


def comment(
    environment: str, file: Path, env: Mapping[str, str], number: int | None = None, author: str = ""
) -> tuple[str, Outcome]:
    """Post the verdict in `file` on the pull request of this run; its name, and what was done."""
    host = host_from_environment(env, number, author)
    run, commit = where_from_environment(env)
    body = verdict_body(environment, file, most=host.most, run=run, commit=commit)
    return host.name, publish(host, body)
