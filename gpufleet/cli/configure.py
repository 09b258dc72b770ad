"""`gpufleet configure`: configure rack hosts according to the fleet file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.console import emit_json, errors, is_terminal, out, print_findings
from gpufleet.cli.hints import complete_hints
from gpufleet.errors import ExitCode, InterruptionError

Site = Annotated[str, typer.Option("--site", help="One rack site; default: all.")]
Limit = Annotated[
    str, typer.Option("--limit", help="An Ansible host pattern, such as 'dgx00[1-4],rack_login'.")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", "--tags", help="One role, or several separated by commas; default: all."),
]
Check = Annotated[bool, typer.Option("--check", help="Show what would change without changing it.")]
Diff = Annotated[bool, typer.Option("--diff", help="Show the differences of what changes.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Only hosts that failed, were unreachable or not finished in the last run."
    ),
]
SkipPreflight = Annotated[bool, typer.Option("--skip-preflight", help="Do not measure the hosts first.")]
TransportOption = Annotated[
    str, typer.Option("--transport", help="ssh, mitogen, or auto: mitogen if it is installed.")
]
SshConfig = Annotated[
    Path | None, typer.Option("--ssh-config", help="Use this ssh_config instead of your own.", exists=True)
]
Forks = Annotated[
    int | None,
    typer.Option("--forks", min=1, max=500, help="Parallel hosts; default: the setting in ansible.cfg."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the first run that changes hosts.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(configure)


def configure(
    environment: Environment,
    site: Site = "",
    limit: Limit = "",
    only: Only = None,
    check: Check = False,
    diff: Diff = False,
    resume: Resume = False,
    skip_preflight: SkipPreflight = False,
    transport: TransportOption = "auto",
    ssh_config: SshConfig = None,
    forks: Forks = None,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Run the playbooks of ansible/ on the rack hosts.

    Preflight measures the hosts first and skips those that cannot be installed. With --check nothing is
    changed, and exit code 1 means that there are changes. Exit code 4: hosts failed or were unreachable, the
    others are done; --resume continues with the failed ones. Secrets come from the environment or the vault
    file.
    """
    from gpufleet.cli.configure_progress import HostProgress
    from gpufleet.cli.configure_setup import Setup
    from gpufleet.files import write_atomically
    from gpufleet.racks.configure.result import result_to_json
    from gpufleet.racks.configure.run import configure as run_configure
    from gpufleet.report.configure_html import configure_page
    from gpufleet.report.configure_text import print_configure
    from gpufleet.report.first_job import first_jobs

    setup = Setup(environment, site, limit, tuple(only or ()), ssh_config)
    if not json:
        print_findings(setup.findings)
    with setup.folder.locked():
        request = setup.request(
            check=check,
            diff=diff,
            resume=resume,
            with_preflight=not skip_preflight,
            transport=transport,
            forks=forks,
        )
        if request is None:
            return _nothing_left(setup.name, json=json)
        if request.changes_hosts and not yes and not setup.has_run:
            _confirm(setup.name, len(request.hosts))
        key = f"configure/{setup.name}/{len(request.hosts)} hosts"
        expected = setup.durations.expected(key)
        with HostProgress(out, len(request.hosts), expected=expected, quiet=json) as progress:
            try:
                result = run_configure(request, setup.folder, progress.on_task, progress.on_stage)
            except KeyboardInterrupt:
                raise InterruptionError("finished tasks are kept on the hosts", ["--resume"]) from None
        if not result.cut_short:
            setup.durations.keep(key, progress.pace.done, progress.pace.elapsed_s)
        if result.page is not None:
            write_atomically(result.page, configure_page(result), mode=0o600)
    if json:
        emit_json(result_to_json(result))
    else:
        print_configure(result, out, diffs=diff)
        out.print(f"page: {result.page}", markup=False, soft_wrap=True)
        if request.changes_hosts and (result.failed_hosts or result.cut_short):
            fix = complete_hints("fix the cause, then run `gpufleet configure --resume`")
            errors.print(f"  fix: {fix}", markup=False, soft_wrap=True)
        elif not check and any(change.role.startswith("slurm_") for change in result.changes):
            for job in first_jobs(setup.plan):
                line = f"{job.site}: a first job, as {job.user} on {job.host}: {job.command}"
                out.print(line, markup=False, soft_wrap=True)
    if result.failed_hosts or result.cut_short:
        return int(ExitCode.CLOUD_FAILURE)
    return int(ExitCode.REFUSED if check and result.changed else ExitCode.DONE)


def _confirm(name: str, hosts: int) -> None:
    question = f"This is the first run that changes the {hosts} hosts of {name}. Continue?"
    if not typer.confirm(question, err=not is_terminal(out.file)):
        raise typer.Abort


def _nothing_left(name: str, *, json: bool) -> int:
    if json:
        emit_json({"environment": name, "hosts": {}, "duration_s": 0.0, "changed": 0, "failed_hosts": []})
    else:
        out.print(f"{name}: no hosts of the last run to resume", markup=False)
    return int(ExitCode.DONE)
