"""One run of an engine on one environment, with its output."""

from __future__ import annotations

import datetime as dt
import functools
import sys
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct
from msgspec.structs import replace

from gpufleet.cli.console import (
    err,
    is_quiet,
    is_terminal,
    out,
    print_findings,
)
from gpufleet.cli.engine_choice import choose_engine_of_run
from gpufleet.cli.outcome import RunOutcome
from gpufleet.cli.progress import Progress, policy_line
from gpufleet.cli.run_log import Durations, RunLog
from gpufleet.cli.waiting import sandbox_start
from gpufleet.engine.api import (
    Event,
    PolicyEvent,
    ResourceEvent,
    RunResult,
    StackRequest,
    Verb,
)
from gpufleet.errors import InputError
from gpufleet.findings import FINDINGS_SHOWN, SAME_AS_FINDING
from gpufleet.preload import PROGRAMS, PROVIDERS
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.checks import ValidFleet
    from gpufleet.cli.change_rules import DeployedState
    from gpufleet.plan.models import FleetPlan
    from gpufleet.pricing import FleetCost
    from gpufleet.report.refusals_text import PolicyRefusal


PACK = "policies"
"""The folder of the policy pack in a checkout."""


class RunOptions(Struct, frozen=True):
    """The options of all runs."""

    target: str
    engine: str = "auto"
    cloud: str | None = None
    parallel: int = 16
    yes: bool = False
    json: bool = False
    skip_policies: bool = False
    policy_config: Path | None = None
    allow_data_loss: bool = False
    verbose: bool = False


class StackRun:
    """One command on one stack. The constructor checks environment, cloud and engine."""

    def __init__(self, verb: Verb, options: RunOptions) -> None:
        self.verb: Verb = verb
        self.options = options
        self.workspace = Workspace.open(options.target)
        self.name = self.workspace.environment()
        self.cloud = self.workspace.cloud(self.name, options.cloud)
        offline = self.workspace.offline_request(self.name, self.cloud)
        self.engine = choose_engine_of_run(
            options.engine, replace(offline, preload=self._preload), self.cloud
        )
        if self.cloud == "sandbox" and self.engine.name == "embedded":
            # The program needs all values, also defaults.
            self.workspace.stack_config(self.name)
        self._foreseen: RunResult | None = None
        if verb != "preview":
            self._require_terminal_or_yes()

    # -- before

    @cached_property
    def validated(self) -> ValidFleet:
        """Return the checked fleet file. Raises SpecError with all findings if it is invalid."""
        from gpufleet.changes.bought_blocks import blocks_of_state
        from gpufleet.checks import validate

        return validate(
            self.workspace.target,
            root=self.workspace.root,
            bought=lambda: blocks_of_state(
                self.engine.export(self.workspace.offline_request(self.name, self.cloud))
            ),
        )

    @property
    def plan(self) -> FleetPlan:
        """The plan of the fleet file."""
        return self.validated.plan

    @property
    def cost(self) -> FleetCost:
        """The cost of the plan."""
        return self.validated.cost

    @cached_property
    def request(self) -> StackRequest:
        """The request to the engine. Starts the emulated AWS if it is the cloud."""
        request = self.workspace.request(
            self.name,
            self.cloud,
            parallel=self.options.parallel,
            while_starting=functools.partial(
                sandbox_start, self.workspace.local, quiet=self.options.json or is_quiet()
            ),
        )
        return replace(
            request,
            env={**request.env, FINDINGS_SHOWN: "1"},
            policy_packs=self.policy_packs,
            policy_config=self._policy_config,
            preload=self._preload,
            # `up` of the sandbox refuses what the emulated AWS lacks, before its first change.
            assumes=self.verb == "preview" and self.cloud == "sandbox",
        )

    @property
    def _preload(self) -> tuple[str, ...]:
        programs = PROGRAMS if self.verb in ("preview", "up") else ()
        return (*programs, *(PROVIDERS if self.cloud == "sandbox" else ()))

    @property
    def policy_packs(self) -> tuple[Path, ...]:
        """The policy pack of the checkout, if it exists and is not skipped."""
        pack = self.workspace.root / PACK
        with_policies = self.verb in ("preview", "up") and not self.options.skip_policies
        return (pack,) if with_policies and (pack / "PulumiPolicy.yaml").is_file() else ()

    @property
    def _policy_config(self) -> dict[Path, Path]:
        config = self.options.policy_config
        return {pack: config.resolve() for pack in self.policy_packs} if config is not None else {}

    def introduce(self) -> None:
        """Print engine and cloud. On a real account, check the credentials first."""
        account = self._require_account() if self.cloud == "aws" else ""
        url = self.request.env.get("AWS_ENDPOINT_URL", "")
        if self.options.json or is_quiet():
            return
        engine = (
            "embedded (Pulumi's protocol, no CLI)"
            if self.engine.name == "embedded"
            else "pulumi (the Pulumi CLI)"
        )
        cloud = (
            f"sandbox (emulated AWS at {url}; no account, no cost)"
            if self.cloud == "sandbox"
            else "aws (a real account; resources cost money)"
        )
        out.print(
            f"[bold]gpufleet {self.verb} {self.name}[/bold]  engine: {engine}  cloud: {cloud}", soft_wrap=True
        )
        if self.cloud == "aws":
            out.print(f"  account: {account}", soft_wrap=True)
        if self.options.skip_policies:
            err.print("[yellow]policies are skipped (--skip-policies)[/yellow]")

    def _require_account(self) -> str:
        from gpufleet.cli.account import require_account

        # `refresh` and `destroy` work without a valid fleet file.
        regions = [site.region for site in self.plan.cloud] if self.verb in ("preview", "up") else []
        settings = self.workspace.stack_config(self.name, plain_only=True)
        # A preview of a cluster that does not exist yet needs no way into it.
        forwarded = [
            site.site
            for site in (self.plan.cloud if self.verb == "up" else ())
            if site.kubernetes is not None and site.kubernetes.access == "ssm"
        ]
        return require_account(regions, settings.get("aws:profile"), forwarded)

    def show_findings(self) -> None:
        """Print the warnings of the fleet file."""
        if not self.options.json:
            print_findings(self.validated.findings, err)

    def show_plan(self) -> None:
        """Print the plan, its cost and the budget."""
        from gpufleet.report.plan_text import print_summary

        if not self.options.json and not is_quiet():
            print_summary(self.plan, self.cost, out)

    def _require_terminal_or_yes(self) -> None:
        seen = is_terminal(out.file) or is_terminal(err.file)
        can_ask = sys.stdin is not None and sys.stdin.isatty() and seen and not self.options.json
        if not self.options.yes and not can_ask:
            raise InputError(
                f"{self.verb} cannot ask for confirmation"
                + (" with --json" if self.options.json else " without a terminal"),
                remedy="pass --yes (`gpufleet preview` shows what `up` would change)",
            )

    def confirm(self, question: str) -> None:
        """Ask for confirmation before a change, unless --yes is set."""
        if not self.options.yes and not typer.confirm(question, err=not is_terminal(out.file)):
            raise typer.Abort

    # -- the run

    def execute(self, verb: Verb) -> RunOutcome:
        """Run the engine and show its progress. A preview with a policy pack also evaluates change rules."""
        if verb == "preview" and self.policy_packs:
            return self._preview_with_change_rules()
        previewed = self._foreseen is not None and self._foreseen.ok
        request = replace(self.request, previewed=previewed) if verb == "up" else self.request
        return self._run(verb, request)

    @property
    def needs_preview(self) -> bool:
        """Whether `up` previews first even without a confirmation: for policies, or because the stack has
        storage or reservations that must not be deleted."""
        from gpufleet.changes.guard import is_guarded

        return bool(self.policy_packs) or is_guarded(self.engine.export(self.request))

    def refuse_data_loss(self, foreseen: RunOutcome) -> None:
        """Refuse a change that deletes storage or a reservation without approval."""
        from gpufleet.changes.guard import lost_reservations, refuse_data_loss
        from gpufleet.changes.observe import observed_steps

        steps = observed_steps(foreseen.events)
        refuse_data_loss(
            steps,
            allow_data_loss=self.options.allow_data_loss,
            exported=self.engine.export(self.request) if lost_reservations(steps) else None,
            now=dt.datetime.now(dt.UTC),
        )

    def refuse_destroying_data(self, counts: Mapping[str, int]) -> None:
        """Refuse to destroy a stack that has storage (`counts` by type) without approval."""
        from gpufleet.changes.guard import refuse_destroying_data

        refuse_destroying_data(counts, allow_data_loss=self.options.allow_data_loss)

    def _preview_with_change_rules(self) -> RunOutcome:
        from gpufleet.cli.change_rules import DeployedState, evaluate_change_rules
        from gpufleet.policy.report import REPORT

        with tempfile.TemporaryDirectory(prefix="gpufleet-policies-") as folder:
            report = Path(folder) / "report.json"
            deployed = DeployedState(
                self.engine.export(self.request), complete=self.engine.is_complete(self.request)
            )
            request = replace(self.request, env={**self.request.env, REPORT: str(report)})
            outcome = self._run("preview", request)
            result = evaluate_change_rules(outcome.result, outcome.events, request, report, deployed)
            refusals = self._refusals(result, request, report, deployed)
        for violation in result.violations[len(outcome.result.violations) :]:
            if not self.options.json and not is_quiet() and violation.enforcement != "mandatory":
                out.print(policy_line(violation), soft_wrap=True)
        self._foreseen = result
        return RunOutcome(result, outcome.events, refusals)

    def _refusals(
        self, result: RunResult, request: StackRequest, report: Path, deployed: DeployedState
    ) -> tuple[PolicyRefusal, ...]:
        """Return the violated mandatory rules with their lines of the fleet file, none with --json."""
        from gpufleet.cli.refusals import placed_refusals

        if self.options.json or not any(each.enforcement == "mandatory" for each in result.violations):
            return ()
        return placed_refusals(result.violations, request, report, deployed.stack)

    def _run(self, verb: Verb, request: StackRequest) -> RunOutcome:
        from gpufleet.cli.refusals import refusals_of

        events: list[ResourceEvent] = []
        known = self._foreseen.violations if self._foreseen is not None and verb == "up" else ()
        printed = {(each.policy, each.urn) for each in known}
        findings = {each.rule for each in self.validated.findings} if verb in ("preview", "up") else set()
        repeated = {rule for finding, rule in SAME_AS_FINDING.items() if finding in findings}
        key = f"{self.cloud}/{self.name}/{verb}"
        with Progress(
            out,
            verb,
            expected=self._durations.expected(key, self._steps(verb, key)),
            log=self.log,
            quiet=self.options.json or is_quiet(),
            listed=self.options.verbose and verb != "preview",
        ) as progress:

            def take(event: Event) -> None:
                if isinstance(event, ResourceEvent):
                    events.append(event)
                # Refusals are printed at the end. Do not repeat warnings of the preview or of findings.
                if not isinstance(event, PolicyEvent) or (
                    event.enforcement != "mandatory"
                    and (event.policy, event.urn) not in printed
                    and event.policy not in repeated
                ):
                    progress.on_event(event)

            result: RunResult = getattr(self.engine, verb)(request, take)
        if result.ok:
            self._durations.keep(key, progress.done, result.duration_s)
        if verb == "preview":
            self._foreseen = result
        return RunOutcome(result, tuple(events), refusals_of(result.violations))

    @cached_property
    def log(self) -> RunLog:
        """The log file of this command."""
        return RunLog(self.workspace.local / "logs" / f"{self.verb}-{self.name}.log")

    @property
    def _durations(self) -> Durations:
        return Durations.of(self.workspace.local)

    def _steps(self, verb: Verb, key: str) -> int:
        """Return the number of resources of a run, 0 if unknown."""
        if verb == "up":
            seen = self._foreseen
            return seen.changes.total + seen.changes.same if seen is not None else 0
        last = self._durations.expected(f"{self.cloud}/{self.name}/up").steps
        # Without an earlier preview, use the last `up` as an estimate.
        return 0 if verb == "preview" and self._durations.expected(key).steps else last


def state_summary(run: StackRun) -> dict[str, Any]:
    """Return type -> number of resources in the stack, empty without a stack."""
    exported = run.engine.export(run.workspace.offline_request(run.name, run.cloud)) or {}
    deployment = exported.get("deployment") or {}
    counts: dict[str, int] = {}
    for resource in deployment.get("resources") or ():
        if resource.get("custom") and not resource["type"].startswith("pulumi:"):
            counts[resource["type"]] = counts.get(resource["type"], 0) + 1
    return counts
