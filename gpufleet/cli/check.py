"""`gpufleet check`: a verdict on a change before it is deployed."""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from msgspec.structs import replace

from gpufleet.cli.arguments import Environment, Json, PreviewCloud, PreviewEngine
from gpufleet.cli.console import emit_json, emit_text, err, is_quiet, out
from gpufleet.cli.counting import Pace
from gpufleet.cli.policy_options import PolicyConfig
from gpufleet.cli.run_log import Durations
from gpufleet.engine import forks
from gpufleet.errors import CloudError, ExitCode, GpufleetError, InputError
from gpufleet.preload import LIBRARIES
from gpufleet.verdict.request import CheckRequest
from gpufleet.verdict.scratch import scratch
from gpufleet.workspace import Cloud, Workspace

if TYPE_CHECKING:
    from gpufleet.verdict.models import Verdict

Format = Literal["terminal", "markdown", "json", "sarif", "junit"]
EngineName = Literal["embedded", "pulumi"]
_LARGEST_JOBS = 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(check)


def _to_file(name: str) -> Any:
    return typer.Option(
        f"--{name}", metavar="FILE", help=f"Also write the result as {name.upper()} to this file."
    )


def check(
    environment: Environment,
    base: Annotated[
        str | None, typer.Option("--base", metavar="REF", help="Compare with this branch, tag or commit.")
    ] = None,
    opened: Annotated[
        list[str] | None,
        typer.Option(
            "--open", metavar="REF", help="Another open change to include in the budget. Can be repeated."
        ),
    ] = None,
    change: Annotated[
        str | None,
        typer.Option(
            "--change",
            metavar="REF",
            help="Check the fleet files of this commit with the code of --base; run none of its code.",
        ),
    ] = None,
    engine: PreviewEngine = "embedded",
    cloud: PreviewCloud = None,
    jobs: Annotated[
        Path | None,
        typer.Option("--jobs", metavar="FILE", help='Running jobs by node group: {"site/group": 3}.'),
    ] = None,
    policy_config: PolicyConfig = None,
    form: Annotated[
        str, typer.Option("--format", help=f"Format on stdout: {', '.join(get_args(Format))}.")
    ] = "terminal",
    markdown: Annotated[Path | None, _to_file("markdown")] = None,
    sarif: Annotated[Path | None, _to_file("sarif")] = None,
    junit: Annotated[Path | None, _to_file("junit")] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json-file", metavar="FILE", help="Also write the result as JSON to this file."),
    ] = None,
    json: Json = False,
) -> int:
    """Check changes, cost and rules of an environment before it is deployed.

    Needs no account and no network. --base compares with another commit, and judges stacks/ by its code too
    where the change edits both. Exit code 1: a mandatory rule is violated.
    """
    if form not in get_args(Format):
        raise InputError(f"--format is {form[:40]!r}", remedy=f"write one of {', '.join(get_args(Format))}")
    form = "json" if json else form
    request = request_of(environment, base, engine, cloud, policy_config)
    request = replace(
        request, open_changes=tuple(opened or ()), change=change, jobs=_jobs(jobs) if jobs is not None else {}
    )
    verdict = verdict_of(request, quiet=form != "terminal")
    files: dict[Format, Path | None] = {
        "markdown": markdown,
        "sarif": sarif,
        "junit": junit,
        "json": json_file,
    }
    for name, path in files.items():
        if path is not None:
            _write(path, _text(verdict, name))
    if form == "terminal":
        from gpufleet.report.verdict_text import print_verdict

        print_verdict(verdict, out, brief=is_quiet())
    elif form == "json":
        from gpufleet.report.verdict_json import verdict_to_json

        emit_json(verdict_to_json(verdict))
    else:
        emit_text(_text(verdict, form))
    return int(ExitCode.DONE if verdict.passed else ExitCode.REFUSED)


def request_of(
    environment: str, base: str | None, engine: str, cloud: str | None, policy_config: Path | None
) -> CheckRequest:
    """Raises InputError for options that exclude each other."""
    if engine not in get_args(EngineName):
        raise InputError(
            f"--engine is {engine[:40]!r}", remedy=f"write one of {', '.join(get_args(EngineName))}"
        )
    if cloud is not None and engine != "pulumi":
        raise InputError(
            "--cloud needs --engine pulumi: the embedded engine uses only an emulated AWS",
            remedy="remove --cloud, or add --engine pulumi",
        )
    if cloud is not None and cloud not in get_args(Cloud):
        raise InputError(f"--cloud is {cloud[:40]!r}", remedy=f"write one of {', '.join(get_args(Cloud))}")
    return CheckRequest(
        Workspace.open(environment),
        engine,  # type: ignore[arg-type]
        cloud,  # type: ignore[arg-type]
        base,
        policy_config=policy_config.resolve() if policy_config is not None else None,
    )


def verdict_of(request: CheckRequest, *, quiet: bool) -> Verdict:
    """Return the verdict. Each step is printed on stderr unless `quiet`.

    Raises the errors of `gpufleet.verdict.check.check`.
    """
    with scratch() as started:
        if request.engine == "pulumi":
            _require_real(request.workspace, request.cloud)
        else:
            # Before this process imports the verdict, which takes as long.
            started.creates = request.base is not None
            _ = started.account
            forks.prepare(os.environ, LIBRARIES)
        from gpufleet.verdict.check import check as run_check

        workspace, base = request.workspace, ["with a base"] if request.base else []
        # A commit may have an environment that the work tree does not have.
        name = workspace.target if request.change is not None else workspace.environment()
        key = " ".join(["check", name, *base, *request.open_changes])
        steps = _Steps(workspace.local, key, quiet=quiet)
        try:
            verdict = run_check(request, steps, started)
        except CloudError as error:
            # No user resource was touched, so this is not a cloud failure.
            raise GpufleetError(error.message, remedy=error.remedy) from error
        steps.end()
        return verdict


def _require_real(workspace: Workspace, cloud: str | None) -> None:
    """Raise InputError early if the Pulumi CLI or an account for a real preview is missing."""
    from gpufleet.cli.account import require_account
    from gpufleet.engine.select import select_engine

    name = workspace.environment()
    if workspace.cloud(name, cloud) == "aws":
        select_engine("pulumi", real_account=True)
        require_account(profile=workspace.stack_config(name, plain_only=True).get("aws:profile"))


class _Steps:
    """Prints the steps on stderr, with progress and the remaining time estimated from the last run."""

    def __init__(self, local: Path, key: str, *, quiet: bool) -> None:
        self._kept, self._key, self._quiet = local, key, quiet
        self._durations = Durations.of(local)
        self._expected = self._durations.expected(key)
        self._pace = Pace("check", self._expected)
        self._begun = 0

    def __call__(self, line: str) -> None:
        """A step begins."""
        self._pace.done = self._begun
        self._begun += 1
        if not self._quiet:
            far = [self._pace.count("done")] if self._expected.steps else []
            words = ", ".join([*far, line, *self._pace.times()])
            err.print(f"check: {words}", markup=False, style="dim", soft_wrap=True)

    def end(self) -> None:
        """Store the duration for the next estimate, if the checkout already has a .gpufleet folder."""
        if self._kept.is_dir():
            self._durations.keep(self._key, self._begun, self._pace.elapsed_s)


def _jobs(path: Path) -> dict[str, int]:
    remedy = 'write a JSON object with the running jobs by node group: {"use1/pretrain": 3}'
    try:
        if path.stat().st_size > _LARGEST_JOBS:
            raise InputError(f"{path} has more than {_LARGEST_JOBS:,} bytes", remedy=remedy)
        found = json_module.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", remedy=remedy) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}", remedy=remedy) from None
    if not isinstance(found, dict):
        raise InputError(f"{path} does not contain a JSON object", remedy=remedy)
    for group, count in found.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InputError(
                f"{path}: {group[:80]!r} has {str(count)[:40]!r} as number of jobs", remedy=remedy
            )
    return found


def _text(verdict: Verdict, form: Format | str) -> str:
    if form == "markdown":
        from gpufleet.report.verdict_markdown import verdict_to_markdown

        return verdict_to_markdown(verdict)
    if form == "sarif":
        from gpufleet.report.verdict_sarif import verdict_to_sarif

        return json_module.dumps(verdict_to_sarif(verdict), indent=1) + "\n"
    if form == "junit":
        from gpufleet.report.verdict_junit import verdict_to_junit

        return verdict_to_junit(verdict)
    from gpufleet.report.verdict_json import verdict_to_json

    return json_module.dumps(verdict_to_json(verdict), indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    from gpufleet.files import write_atomically

    write_atomically(path, text)
