"""Output at the end of a run: changes, cost, outputs, and next command."""

from __future__ import annotations

from gpufleet.cli.console import emit_json, errors, from_here, is_quiet, note, out
from gpufleet.cli.outcome import RunOutcome
from gpufleet.cli.stack_run import StackRun


def show_preview(run: StackRun, outcome: RunOutcome) -> None:
    """Print the changes by site, then sites, cost and budget.

    Before the confirmation of `up`, creations are only counted unless --verbose.
    """
    from gpufleet.report.changes_text import print_site_changes
    from gpufleet.report.cost_text import ACCOUNT, print_budget
    from gpufleet.report.overview_text import print_overview
    from gpufleet.report.plan_text import site_line
    from gpufleet.report.run_text import print_result

    listed = run.verb == "preview" or run.options.verbose
    groups = outcome.by_site(run.plan)
    headings = {site.site: site_line(site) for site in run.plan.cloud}
    for group in groups:
        if group.events:
            heading = ACCOUNT if group.site is None else headings.get(group.site, group.site)
            print_site_changes(group, heading, out, listed=listed)
    print_overview(run.plan, run.cost, groups, out)
    print_budget(run.cost, run.plan, out, briefly=not listed)
    print_result(outcome.result, out, errors)
    if not listed and run.log.is_written:
        out.print(f"all changes: {from_here(run.log.path)}, or use --verbose", markup=False, soft_wrap=True)


def show_result(run: StackRun, outcome: RunOutcome) -> None:
    """Print changes by site, failures and outputs."""
    from gpufleet.report.overview_text import print_overview
    from gpufleet.report.run_text import missing_nodes, print_outputs, print_result

    result = outcome.result
    if run.verb == "up" and result.changes.total and not is_quiet() and not result.interrupted:
        print_overview(run.plan, run.cost, outcome.by_site(run.plan), out)
    if run.verb == "up" and result.ok and result.outputs and not is_quiet():
        if run.options.verbose:
            out.print("outputs:")
            print_outputs(result.outputs, out)
        else:
            out.print(f"outputs: {', '.join(sorted(result.outputs))}", markup=False)
    for line in missing_nodes(result.outputs) if run.verb == "up" and result.ok else ():
        errors.print(f"warning: {line}", markup=False, soft_wrap=True)
    print_result(result, out, errors)
    if run.log.is_written and not is_quiet():
        out.print(f"log: {from_here(run.log.path)}", markup=False, soft_wrap=True)


def finish(run: StackRun, outcome: RunOutcome) -> int:
    """Print the result and the next command, and return the exit code."""
    from gpufleet.report.refusals_text import print_refusals
    from gpufleet.report.run_text import next_steps

    if outcome.result.interrupted and outcome.result.verb == "preview":
        raise KeyboardInterrupt
    if run.options.json:
        _emit(run, outcome)
    elif outcome.result.interrupted:
        show_result(run, outcome)
        raise KeyboardInterrupt
    else:
        if outcome.result.verb == "preview" and not is_quiet():
            show_preview(run, outcome)
        else:
            show_result(run, outcome)
        for line in next_steps(outcome.result):
            note(line)
        print_refusals(outcome.refusals, out)
    return int(outcome.exit_code)


def _emit(run: StackRun, outcome: RunOutcome) -> None:
    from gpufleet.pricing.json import cost_to_json
    from gpufleet.report.run_text import result_to_json, sites_to_json

    document = result_to_json(outcome.result, run.cloud)
    if run.verb in ("preview", "up"):
        document["cost"] = cost_to_json(run.cost, run.plan)
        document["findings"] = [finding.to_json() for finding in run.validated.findings]
        document["sites"] = sites_to_json(outcome.by_site(run.plan))
    emit_json(document)
