"""The policy gate of a run with policy packs.

The packs start in parallel, while the program starts; the first resource waits for all of them. A pack that
does not start, stops or returns an error ends the run, since unchecked resources must not pass. Order and
meaning of the calls: pkg/resource/deploy/step_generator.go of Pulumi.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from pulumi.runtime.proto import analyzer_pb2

from gpufleet.engine.api import PolicyEvent, RemediationEvent
from gpufleet.engine.embedded.analysis import resource_request, stack_resource
from gpufleet.engine.embedded.analyzer import Analyzer, Remediation
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.policy_project import PackProject
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.urns import ROOT_STACK_TYPE, make_urn, split_reference
from gpufleet.engine.embedded.values import Properties, as_secret, contains_secret


class PolicyPacks:
    """All packs of one run. `refuse` ends the run, `former_urn` returns a resource's old URN."""

    def __init__(
        self,
        packs: Sequence[PackProject],
        context: RunContext,
        refuse: Callable[[Exception], None],
        former_urn: Callable[[str], str],
    ) -> None:
        self._context = context
        self._refuse = refuse
        self._former_urn = former_urn
        self._closing = threading.Event()
        self._delete_first: dict[str, bool | None] = {}
        self._remediated: set[str] = set()
        self._starts: list[Future[Analyzer]] = [Future() for _ in packs]
        self._threads = [
            threading.Thread(target=self._start, args=start, name="policy-pack", daemon=True)
            for start in zip(packs, self._starts, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _start(self, pack: PackProject, start: Future[Analyzer]) -> None:
        try:
            start.set_result(Analyzer(pack, self._context))
        except Exception as error:
            self._fail(error)
            start.set_exception(error)

    @contextlib.contextmanager
    def _started_packs(self) -> Iterator[list[Analyzer]]:
        """Yield the packs once all have started; an error in the block ends the run."""
        try:
            yield [start.result() for start in self._starts]
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: Exception) -> None:
        if not self._closing.is_set() and not self._context.cancelled.is_set():
            self._refuse(error)

    # -- resources

    def remediate(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """Let each pack in turn replace the inputs, so that the next one sees the result."""
        warnings: list[PolicyEvent] = []
        for before, done in self._remediations(state, goal):
            if done.diagnostic:
                warnings.append(_warning(done, state.urn))
            else:
                self._remediated.add(state.urn)
                self._context.reporter.remediated(_event(done, state.urn, before))
        return warnings

    def remediate_again(self, state: ResourceState, goal: Goal) -> None:
        """Remediate after a replacement has computed the inputs again, without the earlier remediation."""
        if state.urn in self._remediated:
            list(self._remediations(state, goal))

    def _remediations(self, state: ResourceState, goal: Goal) -> Iterator[tuple[Properties, Remediation]]:
        with self._started_packs() as analyzers:
            for analyzer in analyzers:
                for done in analyzer.remediate(self._request(state, goal, internal=True)):
                    before = state.inputs
                    if not done.diagnostic:
                        _keep_secrets(done.inputs, before)
                        state.inputs = done.inputs
                    yield before, done

    def check_resource(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """Run the packs in parallel; return their violations in the order of the packs."""
        self._delete_first[state.urn] = goal.delete_before_replace
        with self._started_packs() as analyzers:
            request = self._request(state, goal, internal=False)
            waits = [analyzer.analyze(request) for analyzer in analyzers]
            return [event for wait in waits for event in wait()]

    def _request(self, state: ResourceState, goal: Goal, *, internal: bool) -> analyzer_pb2.AnalyzeRequest:
        return resource_request(
            state,
            self._provider_of(state),
            goal.ignore_changes,
            goal.delete_before_replace,
            self._aliases(state.urn),
            internal=internal,
        )

    def _provider_of(self, state: ResourceState) -> ResourceState | None:
        return self._context.store.find(split_reference(state.provider)[0]) if state.provider else None

    def _aliases(self, urn: str) -> list[str]:
        former = self._former_urn(urn)
        return [former] if former != urn else []

    # -- the stack

    def check_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        """Return violations; those without a known resource belong to the stack."""
        asked = self._context.request
        name = f"{asked.project}-{asked.stack}"
        root = make_urn(asked.stack, asked.project, "", ROOT_STACK_TYPE, name)
        known = {state.urn for state in states}
        with self._started_packs() as analyzers:
            request = analyzer_pb2.AnalyzeStackRequest(
                resources=[
                    stack_resource(
                        state,
                        self._provider_of(state),
                        self._delete_first.get(state.urn),
                        self._aliases(state.urn),
                    )
                    for state in states
                ]
            )
            waits = [
                analyzer.analyze_stack(request, lambda urn: urn if urn in known else root)
                for analyzer in analyzers
            ]
            return [event for wait in waits for event in wait()]

    # -- the end of the run

    def cancel(self) -> None:
        """Request the started packs to abandon what they are doing."""
        for analyzer in self._started():
            analyzer.cancel()

    def close(self) -> None:
        """Close the connections; the processes end with their group, also those that are starting."""
        self._closing.set()
        for analyzer in self._started():
            analyzer.disconnect()

    def _started(self) -> list[Analyzer]:
        return [start.result() for start in self._starts if start.done() and start.exception() is None]


def _keep_secrets(inputs: Properties, before: Properties) -> None:
    """Restore secret marks: a rule of the SDK that copies its properties drops them."""
    for key, given in before.items():
        now = inputs.get(key)
        if isinstance(given, dict) and isinstance(now, dict):
            _keep_secrets(now, given)
        elif key in inputs and contains_secret(given) and not contains_secret(now):
            inputs[key] = as_secret(now)


def _warning(done: Remediation, urn: str) -> PolicyEvent:
    return PolicyEvent(
        pack=done.pack,
        policy=done.policy,
        enforcement="advisory",
        message=done.diagnostic.strip(),
        urn=urn,
        version=done.version,
        description=done.description,
    )


def _event(done: Remediation, urn: str, before: Properties) -> RemediationEvent:
    keys = {*before, *done.inputs}
    changed = {key for key in keys if key not in before or before[key] != done.inputs.get(key)}
    return RemediationEvent(
        pack=done.pack,
        policy=done.policy,
        urn=urn,
        changed=tuple(sorted(changed)),
        version=done.version,
        description=done.description,
    )
