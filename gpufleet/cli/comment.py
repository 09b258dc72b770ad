"""`gpufleet comment`: post a verdict as a comment of the pull request and update it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli import completion
from gpufleet.cli.arguments import Json
from gpufleet.cli.console import emit_json, emit_text, err, out

Environment = Annotated[
    str, typer.Argument(help="The environment that was checked.", autocompletion=completion.environments)
]
File = Annotated[Path, typer.Argument(help="The file that `gpufleet check --markdown` wrote.")]
Number = Annotated[
    int | None, typer.Option("--pr", min=1, help="Pull request; default: that of this CI run.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the comment without posting it; needs no token.")
]
Author = Annotated[
    str, typer.Option("--author", help="User of the token, if the token cannot read it (GitHub apps).")
]


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(comment)


def comment(
    environment: Environment,
    file: File,
    number: Number = None,
    author: Author = "",
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Post a verdict on the pull request, or update the existing comment.

    Reads the pull request and the token from the variables of GitHub Actions (GITHUB_TOKEN) or GitLab CI
    (GPUFLEET_GITLAB_TOKEN). --dry-run prints the comment and needs neither. If a fork's pull request may not
    comment, this is a warning with exit code 0: the verdict is the exit code of `gpufleet check`.
    """
    if dry_run:
        from gpufleet.comment.command import preview_comment

        name, body = preview_comment(environment, file, os.environ, number, author)
        if json:
            emit_json({"pull_request": name, "comment": "not posted", "body": body})
        else:
            emit_text(body)
            err.print(f"not posted (--dry-run): the comment for {name or 'the pull request'}", markup=False)
        return
    from gpufleet.comment.command import NOT_ALLOWED
    from gpufleet.comment.command import comment as post

    name, outcome = post(environment, file, os.environ, number, author)
    if json:
        emit_json({"pull_request": name, "comment": outcome})
    else:
        out.print(f"{name}: comment {outcome}", markup=False)
    if outcome == "not allowed":
        err.print(f"[yellow]warning:[/yellow] {NOT_ALLOWED}", soft_wrap=True)
