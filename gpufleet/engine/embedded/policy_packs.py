"""The policy packs of a run as its policy gate.

The packs start at once, each in a thread, while the program starts; the first resource waits for all
of them. A pack that does not start, stops or answers an error ends the run: what was not judged does
not pass. Order and meaning of the calls: pkg/resource/deploy/step_generator.go of Pulumi.
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
    """All packs of one run. `refuse` ends the run, `former_urn` tells a resource's old URN."""

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
    def _judging(self) -> Iterator[list[Analyzer]]:
        """The packs, once all of them have started; what fails on them ends the run."""
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
        """Each pack in turn replaces the inputs, so that the next one sees what it made of them."""
        warnings: list[PolicyEvent] = []
        for before, done in self._remediations(state, goal):
            if done.diagnostic:
                warnings.append(_warning(done, state.urn))
            else:
                self._remediated.add(state.urn)
                self._context.reporter.remediated(_event(done, state.urn, before))
        return warnings

    def remediate_again(self, state: ResourceState, goal: Goal) -> None:
        """A replacement has computed the inputs anew, and would lose what was remediated."""
        if state.urn in self._remediated:
            list(self._remediations(state, goal))

    def _remediations(self, state: ResourceState, goal: Goal) -> Iterator[tuple[Properties, Remediation]]:
        with self._judging() as analyzers:
            for analyzer in analyzers:
                for done in analyzer.remediate(self._request(state, goal, internal=True)):
                    before = state.inputs
                    if not done.diagnostic:
                        _keep_secrets(done.inputs, before)
                        state.inputs = done.inputs
                    yield before, done

    def judge_resource(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """The packs judge at the same time; their violations come in the order of the packs."""
        self._delete_first[state.urn] = goal.delete_before_replace
        with self._judging() as analyzers:
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

    def judge_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        """A violation of no resource in particular, or of one that is not there, is the stack's own."""
        asked = self._context.request
        name = f"{asked.project}-{asked.stack}"
        root = make_urn(asked.stack, asked.project, "", ROOT_STACK_TYPE, name)
        known = {state.urn for state in states}
        with self._judging() as analyzers:
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

    # -- the end

    def cancel(self) -> None:
        """Ask the packs that have started to give up what they are doing."""
        for analyzer in self._started():
            analyzer.cancel()

    def close(self) -> None:
        """Close the connections; the processes end with their group, also those just starting."""
        self._closing.set()
        for analyzer in self._started():
            analyzer.disconnect()

    def _started(self) -> list[Analyzer]:
        return [start.result() for start in self._starts if start.done() and start.exception() is None]


def _keep_secrets(inputs: Properties, before: Properties) -> None:
    """Mark what was secret before: in the SDK a rule that copies its properties drops the marks."""
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
