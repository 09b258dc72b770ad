"""`gpufleet configure`: bring the hosts of the racks to what the fleet file says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.console import emit_json, errors, is_terminal, out, print_findings
from gpufleet.cli.hints import complete_hints
from gpufleet.errors import ExitCode, InterruptionError

Site = Annotated[str, typer.Option("--site", help="One rack site; default: all of them.")]
Limit = Annotated[str, typer.Option("--limit", help="An Ansible host pattern, as 'dgx00[1-4],rack_login'.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", "--tags", help="One role, or several with commas; default: all.")
]
Check = Annotated[bool, typer.Option("--check", help="Say what would change, and change nothing.")]
Diff = Annotated[bool, typer.Option("--diff", help="Show the differences of what changes.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Only hosts that failed, were unreachable or not done last time.")
]
SkipPreflight = Annotated[bool, typer.Option("--skip-preflight", help="Do not measure the hosts first.")]
TransportOption = Annotated[
    str, typer.Option("--transport", help="ssh, mitogen, or auto: mitogen where it is installed.")
]
SshConfig = Annotated[
    Path | None, typer.Option("--ssh-config", help="An ssh_config in place of your own.", exists=True)
]
Forks = Annotated[
    int | None, typer.Option("--forks", min=1, max=500, help="Hosts at once; default: ansible.cfg's.")
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
    """Run the playbooks of ansible/ on the rack hosts, with the roles that are there.

    Hosts are measured first; one on which nothing can be installed is left alone. With --check nothing
    is changed, and exit code 1 says that something would be. Exit code 4: hosts failed or were not
    reached, the others are done, and --resume goes on with those. Secrets come from the environment or
    the vault file.
    """
    from gpufleet.cli.configure_progress import HostProgress
    from gpufleet.cli.configure_setup import Setup
    from gpufleet.files import write_atomically
    from gpufleet.racks.configure.result import result_to_json
    from gpufleet.racks.configure.run import configure as run_configure
    from gpufleet.report.configure_html import configure_page
    from gpufleet.report.configure_text import print_configure

    setup = Setup(environment, site, limit, tuple(only or ()), ssh_config)
    if not json:
        print_findings(setup.findings)
    with setup.folder.locked():
        request = setup.request(
            check=check,
            diff=diff,
            resume=resume,
            judged=not skip_preflight,
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
                raise InterruptionError("hosts keep what was done", ["--resume"]) from None
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
            fix = complete_hints("correct the cause, then `gpufleet configure --resume`")
            errors.print(f"  fix: {fix}", markup=False, soft_wrap=True)
    if result.failed_hosts or result.cut_short:
        return int(ExitCode.CLOUD_FAILURE)
    return int(ExitCode.REFUSED if check and result.changed else ExitCode.DONE)


def _confirm(name: str, hosts: int) -> None:
    question = f"This is the first run that changes the {hosts} hosts of {name}. Go on?"
    if not typer.confirm(question, err=not is_terminal(out.file)):
        raise typer.Abort


def _nothing_left(name: str, *, json: bool) -> int:
    if json:
        emit_json({"environment": name, "hosts": {}, "duration_s": 0.0, "changed": 0, "failed_hosts": []})
    else:
        out.print(f"{name}: the last run left nothing to resume", markup=False)
    return int(ExitCode.DONE)
