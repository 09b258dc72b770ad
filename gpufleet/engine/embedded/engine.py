"""The embedded engine: preview, up, refresh and destroy without the Pulumi CLI."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from gpufleet.engine.api import OnEvent, Op, RunResult, StackRequest, Verb
from gpufleet.engine.embedded import first_run
from gpufleet.engine.embedded.crypter import ROUNDS
from gpufleet.engine.embedded.policy_project import load_packs
from gpufleet.engine.embedded.recovery import FINDERS
from gpufleet.engine.embedded.recovery.search import Finder
from gpufleet.engine.embedded.refresh import refresh_all
from gpufleet.engine.embedded.removal import PlannedDeletions
from gpufleet.engine.embedded.reporter import Reporter
from gpufleet.engine.embedded.resource import from_json
from gpufleet.engine.embedded.run import Run
from gpufleet.engine.embedded.store import StateStore
from gpufleet.engine.embedded.stored_state import export_state, load_state
from gpufleet.engine.embedded.urns import ROOT_STACK_TYPE, matches
from gpufleet.engine.embedded.values import present
from gpufleet.engine.errors import PluginError
from gpufleet.engine.preview_first import up_after_preview
from gpufleet.errors import GpufleetError, InputError


class EmbeddedEngine:
    """An `Engine` that runs the program, the providers and the state itself."""

    name: Literal["embedded", "pulumi"] = "embedded"

    def __init__(self, finders: Mapping[str, Finder] = FINDERS) -> None:
        """Create the engine. `finders` search resources of interrupted creations, by package."""
        self._finders = finders

    def preview(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Report what `up` would do; take no lock and write nothing."""
        return self._run("preview", request, on_event, self._program_run)

    def up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Create and update resources as the program declares them; with policy packs, after a preview."""
        return up_after_preview(self.preview, self._up, request, on_event)

    def _up(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        return self._run("up", request, on_event, self._program_run)

    def refresh(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Update the state from the cloud."""
        return self._run("refresh", request, on_event, _refresh)

    def destroy(self, request: StackRequest, on_event: OnEvent) -> RunResult:
        """Delete everything in the state, in reverse dependency order."""
        return self._run("destroy", request, on_event, _destroy)

    def outputs(self, request: StackRequest) -> Mapping[str, Any]:
        """Return the stack's outputs in the state; secrets need the passphrase only if shown."""
        for data in load_state(request.state_file).replayed.resources:
            if data["type"] == ROOT_STACK_TYPE:
                if not request.show_secrets:
                    return dict(present(from_json(data, _MaskingCipher()).outputs))
                store = _open_state(request, "outputs", dry_run=True)
                with store:
                    stack = store.by_urn[data["urn"]]
                    return dict(present(stack.outputs, show_secrets=True))
        return {}

    def export(self, request: StackRequest) -> dict[str, Any] | None:
        """Return the state as `pulumi stack export` prints it; None if there was never a run."""
        return export_state(request.state_file)

    def is_complete(self, request: StackRequest) -> bool:
        """Return whether an `up` of the stack ever completed."""
        return first_run.is_over(request.state_file)

    # -- one run

    def _run(
        self, verb: Verb, request: StackRequest, on_event: OnEvent, action: Callable[[Run], None]
    ) -> RunResult:
        started = time.monotonic()
        if verb in ("preview", "up") and not (request.program_dir / "__main__.py").is_file():
            raise InputError(
                f"{request.program_dir}: there is no Pulumi program here (no __main__.py)",
                remedy="run from the checkout, or set `main:` in Pulumi.yaml",
            )
        packs = load_packs(request) if verb in ("preview", "up") else ()
        dry_run = verb == "preview"
        reporter = Reporter(on_event, dry_run=dry_run, show_secrets=request.show_secrets)
        store = _open_state(request, verb, dry_run=dry_run)
        with contextlib.ExitStack() as opened:
            if request.state_ready is None:
                opened.enter_context(store)
            run = Run(verb, request, reporter, store, packs)
            if verb == "up" and not store.olds:
                first_run.begin(request.state_file)
            try:
                with run:
                    if request.state_ready is not None:
                        run.start_program()
                        request.state_ready.result()
                        opened.enter_context(store)
                    run.open()
                    run.recover(self._finders)
                    action(run)
            except PluginError:
                # After an interruption no new process starts.
                if not run.context.cancelled.is_set():
                    raise
        if store.manager.notice:
            reporter.log("warning", store.manager.notice)
        interrupted = run.context.cancelled.is_set()
        if run.deployment.refusal is not None and not interrupted:
            raise run.deployment.refusal
        ok = run.ok and not reporter.failures and not reporter.violated
        if verb == "up" and ok:
            first_run.end(request.state_file)
        return RunResult(
            engine="embedded",
            verb=verb,
            ok=ok,
            changes=reporter.changes,
            duration_s=time.monotonic() - started,
            outputs=present(run.outputs, show_secrets=request.show_secrets),
            resources=reporter.planned,
            failures=tuple(reporter.failures),
            diagnostics=tuple(reporter.diagnostics),
            violations=tuple(reporter.violations),
            remediations=tuple(reporter.remediations),
            interrupted=interrupted,
        )

    def _program_run(self, run: Run) -> None:
        code = run.run_program()
        deployment, reporter = run.deployment, run.context.reporter
        run.registrar.finish()
        complete = code == 0 and not deployment.has_failures and not run.context.cancelled.is_set()
        if complete:
            try:
                passed = deployment.check_stack()
            except GpufleetError as error:
                if error is not deployment.refusal:
                    reporter.log("error", error.message)
                complete = passed = False
            # A preview continues, to show everything that would be done.
            complete = complete and (passed or deployment.dry_run)
        if complete:
            complete = deployment.removal.delete_all(deployment.unregistered())
            deployment.forget_deleted()
        elif code == 0 and not run.context.cancelled.is_set() and deployment.unregistered():
            # Resources may be unregistered because another one failed: they must not be deleted.
            reporter.log(
                "warning",
                "nothing was deleted because a step failed: the next run deletes what is left to delete",
            )
        run.outputs = deployment.settle_stack_outputs(complete=complete)
        run.ok = complete and code == 0


def _open_state(request: StackRequest, verb: str, *, dry_run: bool) -> StateStore:
    rounds = 1 if request.random_passphrase else ROUNDS
    return StateStore(request.state_file, verb, dry_run=dry_run, env=request.env, rounds=rounds)


def _refresh(run: Run) -> None:
    run.ok = refresh_all(run.deployment) and not run.deployment.blocked
    run.outputs = _stack_outputs(run)


def _destroy(run: Run) -> None:
    deployment = run.deployment
    deletions: PlannedDeletions = [
        (state, Op.DELETE_REPLACED if state.delete else Op.DELETE)
        for state in run.context.store.olds
        if not state.pending_replacement and _is_destroyed(run, state.urn)
    ]
    for state in run.context.store.olds:
        if state.pending_replacement and _is_destroyed(run, state.urn):
            run.context.store.drop_old(state)
    _require_dependents(run, deletions)
    run.ok = deployment.removal.delete_all(deletions) and not deployment.blocked


def _is_destroyed(run: Run, urn: str) -> bool:
    targets = run.context.request.targets
    return not targets or any(matches(target, urn) for target in targets)


def _require_dependents(run: Run, deletions: PlannedDeletions) -> None:
    """Raise if a target would be deleted while a resource outside the targets needs it."""
    if not run.context.request.targets:
        return
    urns = {state.urn for state, _ in deletions}
    for state in run.context.store.olds:
        needed = sorted(state.needs() & urns)
        if state.urn not in urns and needed:
            raise InputError(
                f"{needed[0]} would be deleted, but {state.urn} needs it and is not a target",
                remedy=f"add {state.urn} to the targets",
            )


def _stack_outputs(run: Run) -> Mapping[str, Any]:
    for state in run.context.store.olds:
        if state.type == ROOT_STACK_TYPE:
            return state.outputs
    return {}


class _MaskingCipher:
    """Reads a state without its passphrase: every secret is null, and shown as a secret."""

    def encrypt(self, plaintext: str) -> str:
        raise AssertionError("this cipher only reads")

    def decrypt(self, ciphertext: str) -> str:
        return "null"
