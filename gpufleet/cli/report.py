"""`gpufleet report`: one HTML page with the fleet, its cost and the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.cli.arguments import Environment, Json, PreviewCloud, PreviewEngine
from gpufleet.cli.console import emit_json, out
from gpufleet.cli.html_file import require_own_page
from gpufleet.cli.policy_options import PolicyConfig
from gpufleet.errors import ExitCode
from gpufleet.interruption import defer_interruption

if TYPE_CHECKING:
    from gpufleet.verdict.models import Verdict


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(report)


def report(
    environment: Environment,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="Write the page to this file.")],
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REF", help="Also show the changes since this branch, tag or commit."),
    ] = None,
    engine: PreviewEngine = "embedded",
    cloud: PreviewCloud = None,
    policy_config: PolicyConfig = None,
    json: Json = False,
) -> int:
    """Write an HTML page of the fleet: diagram, cost and budget, rules, prices and changes.

    The figures are those of `gpufleet check`. The page needs no network and no scripts. Exit code 0: the page
    is written, also if the verdict is `fail`; use `gpufleet check` to refuse a change.
    """
    from gpufleet.cli.check import request_of, verdict_of
    from gpufleet.files import write_atomically
    from gpufleet.report.fleet_html import fleet_page

    require_own_page(html)
    verdict = verdict_of(request_of(environment, base, engine, cloud, policy_config), quiet=json)
    page = fleet_page(verdict)
    with defer_interruption():
        write_atomically(html, page)
        _print_verdict(html, verdict, json=json)
    return int(ExitCode.DONE)


def _print_verdict(html: Path, verdict: Verdict, *, json: bool) -> None:
    from gpufleet.report import verdict_words as words

    word = "pass" if verdict.passed else "fail"
    if json:
        emit_json(
            {
                "file": str(html),
                "environment": verdict.environment,
                "verdict": word,
                "bytes": html.stat().st_size,
            }
        )
    else:
        out.print(f"{html}: {word.upper()}, {words.headline(verdict)}", markup=False, soft_wrap=True)
