"""One verdict: load, preview, evaluate, compare."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from gpufleet.changes.bought_blocks import blocks_of_fleet, blocks_of_state
from gpufleet.checks import validate
from gpufleet.checks.rules import BoughtBlock
from gpufleet.engine.api import Engine, StackRequest
from gpufleet.errors import InputError, SpecError
from gpufleet.policy.change import ChangeStep, OpenChange, StackChange
from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.fleet import FLEET_FILE_KEY, NOW, StackOfFleet, moment, open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.report import ReportedViolation, found_of
from gpufleet.policy.settings import ConfiguredRule, configure, read_pack_config
from gpufleet.policy.stricter_limits import limits_for_change
from gpufleet.verdict import guard
from gpufleet.verdict.assumed import assumed_types
from gpufleet.verdict.base_run import BaseRun
from gpufleet.verdict.before import stack_of_state, unprotected
from gpufleet.verdict.changes import changed_resources
from gpufleet.verdict.costs import compare_costs
from gpufleet.verdict.data_only import data_only
from gpufleet.verdict.git import GitRepository, Revision
from gpufleet.verdict.judged_code import CodeOfChange
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.models import ComparisonBase, GuardrailChanges, OpenChangeCost, Verdict
from gpufleet.verdict.open_changes import OpenChangePricing
from gpufleet.verdict.own_code import is_own, runs_own_code
from gpufleet.verdict.preview import (
    PACK,
    PolicyPreview,
    prepare,
    preview_with_policies,
    sandbox_request,
    stack_settings,
)
from gpufleet.verdict.racks import rack_differences
from gpufleet.verdict.request import CheckRequest
from gpufleet.verdict.results import exemption_uses, judged_by_both, rule_results, warnings_of
from gpufleet.verdict.scratch import Scratch, scratch
from gpufleet.verdict.sides import NOTHING, Checkout, Side, check_out, side_of
from gpufleet.verdict.steps import steps_of
from gpufleet.workspace import CLOUD_KEY, PROJECT

OnStep = Callable[[str], None]
NO_BASE = "evaluated only with --base"
DEPLOYED = "deployed"


def check(
    request: CheckRequest, on_step: OnStep = lambda _line: None, started: Scratch | None = None
) -> Verdict:
    """Return the verdict on an environment. `started` is its scratch, if its account already starts.

    Raises InputError (SpecError with findings) if files, refs or programs are invalid, and GpufleetError for
    internal errors.
    """
    begun = time.monotonic()
    if request.open_changes and request.base is None:
        raise InputError(
            "--open compares other changes with the base, but --base is not set",
            remedy="set --base to the target branch of these changes",
        )
    with scratch() if started is None else contextlib.nullcontext(started) as own:
        if request.change is None:
            return _Check(request, own, on_step).verdict(begun)
        given = data_only(request, own.folder)
        return _Check(given.request, own, on_step, given.left_out).verdict(begun)


class _Check:
    """The run of one check. All temporary files are in the folder of `scratch`."""

    def __init__(
        self,
        request: CheckRequest,
        scratch: Scratch,
        on_step: OnStep,
        left_out: tuple[str, ...] | None = None,
    ) -> None:
        """With `left_out` the work tree is a copy of the base with the data of the change."""
        self._request = request
        self._left_out = left_out
        self._scratch = scratch
        self._on_step = on_step
        self._workspace = request.workspace
        self._now = request.now or moment()
        self._name = self._workspace.environment()
        self._repository = GitRepository(self._workspace.root) if request.base is not None else None
        # Refs first, to report typing errors at once.
        self._base_at = self._revision(request.base)
        self._open_revisions = [
            found for ref in request.open_changes if (found := self._revision(ref)) is not None
        ]
        self._base_run = self._take_base()
        if request.engine == "embedded" or request.open_changes:
            # Both start in the background.
            _ = scratch.account
            prepare(own_code=self._runs_own_code)
        validated = validate(self._workspace.target, root=self._workspace.root, bought=self._bought_blocks)
        self._findings = validated.findings
        config = stack_settings(self._workspace, self._name)
        if request.engine == "pulumi":
            config[CLOUD_KEY] = self._workspace.cloud(self._name, request.cloud)
        # The stack's settings may refer to another file.
        same = (config.get(FLEET_FILE_KEY) or self._name) == self._workspace.target
        self._fleet = open_stack(
            self._workspace.root,
            PROJECT,
            self._name,
            config,
            preview=True,
            now=self._now,
            validated=validated if same else None,
        )
        self._configured = self._configure(self._fleet)

    def _revision(self, ref: str | None) -> Revision | None:
        return None if ref is None or self._repository is None else self._repository.revision(ref)

    def _take_base(self) -> BaseRun | None:
        if self._repository is None or self._base_at is None or self._request.engine != "embedded":
            return None
        return BaseRun(self._repository, self._base_at, self._workspace, self._scratch)

    @property
    def _runs_own_code(self) -> bool:
        """Whether all programs, also those of other commits, run with the running gpufleet."""
        root, others = self._workspace.root, list(self._open_revisions)
        if self._base_at is not None and self._base_run is not None and not self._base_run.is_kept:
            others.append(self._base_at)
        return (is_own(root) or not (root / "gpufleet").exists()) and all(
            self._repository is not None and runs_own_code(self._repository, each) for each in others
        )

    def _configure(self, fleet: StackOfFleet) -> tuple[ConfiguredRule, ...]:
        source = fleet.loaded.source if fleet.loaded else None
        given = read_pack_config(self._request.policy_config)
        return configure(load_rules(self._workspace.root), fleet.shared.spec, source, given)

    def _configured_by(self, base: Checkout | None) -> tuple[ConfiguredRule, ...]:
        """Return the rules of the change as the fleet file of the base configures them."""
        if base is None or base.fleet is None:
            return ()
        given = read_pack_config(self._request.policy_config)
        try:
            return configure([each.rule for each in self._configured], base.fleet.spec, None, given)
        except SpecError:
            # It configures rules or settings that the change removes. `guard-touched` reports such files.
            return ()

    # -- the verdict

    def verdict(self, started: float) -> Verdict:
        """Preview both sides, evaluate the rules and compare."""
        base = self._base_checkout
        before, state = NOTHING, self._scratch.folder / "state.json"
        if self._request.engine == "pulumi":
            before, previewed = self._real_preview(base)
        else:
            request = sandbox_request(
                self._workspace, self._scratch.account, state, own_code=is_own(self._workspace.root)
            )
            request = self._timed(request)
            if base is not None and base.fleet is not None and self._base_run is not None:
                before, previewed = self._preview_after(self._base_run, base, request)
            else:
                self._on_step(f"previewing {self._name}")
                previewed = self._preview(_embedded(), request)
        open_changes = self._price_open_changes(before, state)
        return self._assemble(base, before, previewed, open_changes, started)

    def _bought_blocks(self) -> tuple[BoughtBlock, ...]:
        """Return the Capacity Blocks of the state and of the base, which the change does not buy."""
        if self._request.engine == "pulumi":
            from gpufleet.engine.select import select_engine

            request = self._workspace.offline_request(
                self._name, self._workspace.cloud(self._name, self._request.cloud)
            )
            return blocks_of_state(select_engine("pulumi").export(request))
        base = self._base_checkout
        of_base = blocks_of_fleet(base.fleet.spec) if base is not None and base.fleet is not None else ()
        return (*self._workspace.bought_blocks(), *of_base)

    @cached_property
    def _base_checkout(self) -> Checkout | None:
        if self._base_at is None or self._repository is None:
            return None
        return check_out(self._repository, self._base_at, self._workspace, self._scratch.folder / "base")

    def _timed(self, request: StackRequest) -> StackRequest:
        """Return the request with the time of the verdict for the policy pack."""
        return replace(request, env={**request.env, NOW: self._now.isoformat()})

    def _preview(self, engine: Engine, request: StackRequest) -> PolicyPreview:
        pack, config = self._workspace.root / PACK, self._request.policy_config
        if config is not None:
            request = replace(request, policy_config={pack: config})
        return preview_with_policies(engine, request, pack, self._scratch.folder / "report.json")

    def _preview_after(
        self, run: BaseRun, base: Checkout, request: StackRequest
    ) -> tuple[Side, PolicyPreview]:
        """Create the base in the temporary account, so that the engine computes the change.

        The program of the change starts meanwhile, and waits with its first resource for the base's state.
        """
        ready: Future[None] = Future()
        with ThreadPoolExecutor(2, thread_name_prefix="preview") as pool:
            preview = pool.submit(self._preview, _embedded(), replace(request, state_ready=ready))
            try:
                exported = run.state(base, request.state_file, self._on_step)
                if exported is not None:
                    # Otherwise the preview would stop at the first protected resource.
                    text = json.dumps(unprotected(exported))
                    request.state_file.write_text(text, encoding="utf-8")
                self._on_step(f"previewing {self._name}")
            except BaseException:
                ready.cancel()
                raise
            ready.set_result(None)
            pool.submit(run.keep)
            shared = self._fleet.shared
            before = side_of(base.fleet, stack_of_state(exported), shared.catalog, shared.region)
            return before, preview.result()

    def _real_preview(self, base: Checkout | None) -> tuple[Side, PolicyPreview]:
        from gpufleet.engine.select import select_engine

        workspace, engine = self._workspace, select_engine("pulumi")
        cloud = workspace.cloud(self._name, self._request.cloud)
        self._on_step(f"previewing {self._name} with the Pulumi CLI in cloud {cloud}")
        request = self._timed(workspace.request(self._name, cloud))
        stack = stack_of_state(engine.export(request))
        shared = self._fleet.shared
        fleet = base.fleet if base is not None else self._fleet.loaded if len(stack) else None
        before = side_of(fleet, stack, shared.catalog, shared.region) if len(stack) else NOTHING
        return before, self._preview(engine, request)

    def _price_open_changes(self, before: Side, state: Path) -> tuple[OpenChangeCost, ...]:
        if not self._open_revisions or self._repository is None:
            return ()
        open_changes = OpenChangePricing(
            self._repository, self._workspace, self._scratch.account, state, before, self._fleet.shared
        )
        return open_changes.price(self._open_revisions, self._on_step)

    # -- putting it together

    def _assemble(
        self,
        base: Checkout | None,
        before: Side,
        previewed: PolicyPreview,
        open_changes: Sequence[OpenChangeCost],
        started: float,
    ) -> Verdict:
        shared, loaded = self._fleet.shared, self._fleet.loaded
        if loaded is None or shared.spec is None or shared.plan is None:
            raise AssertionError("validate() has found the fleet file")
        report = previewed.report
        after = Side(loaded, shared.plan, report.stack, shared.cost_of(report.stack))
        compared = base is not None or self._request.engine == "pulumi"
        steps = steps_of(previewed.events, before.stack, report.stack)
        locator = Locator(shared.spec, loaded.source, (report.stack, before.stack))
        found = list(report.found)
        if compared:
            of_change, by_stricter = self._evaluate_change(base, before, after, steps, open_changes)
            found = judged_by_both([*found, *of_change], by_stricter)
        spec_before = base.fleet.spec if base is not None and base.fleet is not None else None
        code = CodeOfChange.of(self._repository, self._base_at, self._left_out)
        touched = code.touched(self._name, spec_before, shared.spec) if code else GuardrailChanges()
        rules = list(rule_results(self._configured, found, locator, no_change="" if compared else NO_BASE))
        if compared:
            rules.append(guard.protection_result(steps, locator))
        if base is not None:
            rules.append(guard.guard_result(touched, locator))
        judged_by = (
            code.judge(self._request, self._now, self._scratch.folder, self._on_step) if code else None
        )
        if judged_by is not None and judged_by.second is not None:
            rules.append(guard.base_result(judged_by.second, rules, locator))
        if open_changes:
            rules.append(guard.open_changes_result(open_changes, locator))
        racks_before = (before.fleet.spec, before.plan) if before.fleet and before.plan else None
        return Verdict(
            environment=self._name,
            engine=self._request.engine,
            judged_at=self._now,
            fleet_file=loaded.source.file,
            base=self._base(base, before),
            rules=tuple(rules),
            changes=changed_resources(steps, locator, before),
            unchanged=sum(step.operation == "same" for step in steps),
            costs=compare_costs(
                before.cost if compared else None,
                after.cost,
                shared.plan.budget.monthly,
                self._now.date(),
            ),
            racks=rack_differences(racks_before, (shared.spec, shared.plan), shared.catalog),
            exemptions=exemption_uses(
                shared.spec.exemptions,
                found,
                loaded.source,
                self._now.date(),
                {rule.name for rule in rules if rule.status == "disabled"},
            ),
            guard=touched,
            judged_by=judged_by,
            assumed=assumed_types(report.stack) if self._request.engine == "embedded" else (),
            open_changes=tuple(open_changes),
            prefix=self._repository.prefix if self._repository else _prefix(self._workspace.root),
            seconds=time.monotonic() - started,
            warnings=warnings_of(self._findings, rules),
            after=after,
        )

    def _evaluate_change(
        self,
        base: Checkout | None,
        before: Side,
        after: Side,
        steps: tuple[ChangeStep, ...],
        open_changes: Sequence[OpenChangeCost],
    ) -> tuple[list[ReportedViolation], list[ReportedViolation]]:
        """Return the violations of change rules, and of the others by stricter limits before the change."""
        spec_before = base.fleet.spec if base is not None and base.fleet is not None else None
        limits = limits_for_change(
            self._configured, self._configured_by(base), self._fleet.shared, spec_before
        )
        self._configured = limits.configured
        others = [each for each in limits.configured if not each.rule.guard]
        evaluator = RuleEvaluator(others, limits.shared, limits.exemptions)
        change = StackChange(
            steps=steps,
            before=before.stack,
            after=after.stack,
            cost_before=before.cost,
            cost_after=after.cost,
            open_changes=tuple(
                OpenChange(each.name, each.increase) for each in open_changes if each.increase is not None
            ),
            jobs=self._request.jobs,
            spec_before=spec_before,
        )
        # Guards compare the fleet file itself, whose loosened limits are not in `limits.shared`.
        guards = [each for each in limits.configured if each.rule.guard]
        own = RuleEvaluator(guards, self._fleet.shared, limits.exemptions).change(change)
        found = [found_of(each) for each in (*evaluator.change(change), *own)]
        if not limits.differ:
            return found, []
        # The engine's policy run had the limits of the change itself.
        again = evaluator.stack(after.stack)
        again += [violation for resource in after.stack for violation in evaluator.resource(resource)]
        return found, [found_of(violation) for violation in again]

    def _base(self, base: Checkout | None, before: Side) -> ComparisonBase | None:
        if self._request.engine == "pulumi":
            return ComparisonBase(DEPLOYED, base.revision.commit if base else "", not len(before.stack))
        if base is None:
            return None
        return ComparisonBase(base.revision.ref, base.revision.commit, base.fleet is None)


def _prefix(root: Path) -> str:
    """Return the path of the checkout in its repository, empty if it is in none."""
    try:
        return GitRepository(root).prefix
    except InputError:
        return ""


def _embedded() -> Engine:
    from gpufleet.engine.embedded.engine import EmbeddedEngine

    return EmbeddedEngine()
