"""The objects of one run: services, processes, signals, and the deployment."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

from gpufleet.engine import forks
from gpufleet.engine.api import StackRequest, Verb
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.engine_service import EngineService
from gpufleet.engine.embedded.gate import Gate
from gpufleet.engine.embedded.monitor import Monitor
from gpufleet.engine.embedded.policy_packs import PolicyPacks
from gpufleet.engine.embedded.policy_project import PackProject
from gpufleet.engine.embedded.program import Program, Services
from gpufleet.engine.embedded.recovery import Recovery
from gpufleet.engine.embedded.recovery.search import Finder
from gpufleet.engine.embedded.registrar import Registrar
from gpufleet.engine.embedded.reporter import Reporter
from gpufleet.engine.embedded.store import StateStore
from gpufleet.engine.plugins import ProcessGroup
from gpufleet.interruption import TERMINATION_GRACE_S, interruptible, notify_in_thread
from gpufleet.loopback import require_loopback


class Run:
    """The objects of one run; leaving the context ends every process that was started."""

    def __init__(
        self,
        verb: Verb,
        request: StackRequest,
        reporter: Reporter,
        store: StateStore,
        packs: Sequence[PackProject] = (),
    ) -> None:
        self.ok = True
        self._packs = packs
        self.outputs: Mapping[str, Any] = {}
        self._services = Services(request.parallel)
        self._killer: threading.Timer | None = None
        self._silent = threading.Event()
        env = {**os.environ, **request.env}
        server = forks.prepare(env, request.preload)
        self.context = RunContext(
            request=request,
            dry_run=verb == "preview",
            env=env,
            reporter=reporter,
            store=store,
            processes=ProcessGroup(store.lock_descriptors, server),
            slots=threading.Semaphore(max(1, request.parallel)),
            engine_address=self._services.address,
        )
        self.deployment = Deployment(self.context)
        self.registrar = Registrar(self.deployment)
        self._gate = Gate(Monitor(self.context, self.deployment, self.registrar))
        self._program: Program | None = None
        self._signals = contextlib.ExitStack()

    def __enter__(self) -> Run:
        try:
            self._start()
        except BaseException:
            # The warden holds the state's lock: it must not outlive a run that failed to start.
            self.context.processes.close()
            self._services.stop()
            raise
        return self

    def _start(self) -> None:
        require_loopback()
        engine = EngineService(self.context.reporter)
        self._silent = engine.silent
        self.deployment.on_refusal = engine.silent.set
        self._services.start(engine, cast("Monitor", self._gate))
        if self._packs:
            deployment = self.deployment
            deployment.policies = PolicyPacks(
                self._packs, self.context, deployment.refuse, deployment.former_urn
            )
        self._tell = self._signals.enter_context(
            notify_in_thread(lambda forced: self.context.reporter.interrupted(forced=forced))
        )
        self._signals.enter_context(interruptible(self.interrupt))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._gate.close()
            self.registrar.finish()
        finally:
            self.ok = self.ok and not self.context.cancelled.is_set()
            if self._killer is not None:
                self._killer.cancel()
            self.deployment.policies.close()
            self.deployment.providers.close()
            self.context.processes.close()
            # Last, since providers log until they end.
            self._services.stop()
            self._signals.close()

    def start_program(self) -> None:
        """Start the program, once."""
        if self._program is None:
            self._program = Program(self.context)

    def run_program(self) -> int:
        """Run the program to its end, unless it runs already; return its exit code."""
        self.start_program()
        if self._program is None:
            raise AssertionError("the program has started")
        return self._program.wait()

    def open(self) -> None:
        """Let the program's calls through: the state can be read."""
        self._gate.open()

    def interrupt(self, signum: int) -> None:
        """Start no new step and complete running ones; kill them on a second signal.

        After a SIGTERM they have a few seconds. A preview has nothing to complete.
        """
        again = self.context.cancelled.is_set()
        self.context.cancelled.set()
        # The output of a program that is being ended is not useful.
        self._silent.set()
        if signum == signal.SIGTERM and not again:
            self._killer = threading.Timer(TERMINATION_GRACE_S, self.context.processes.close)
            self._killer.daemon = True
            self._killer.start()
        self._tell(again)
        # In another thread: a signal handler must not wait.
        threading.Thread(target=self._wind_down, args=(signum, again), name="interrupt", daemon=True).start()

    def _wind_down(self, signum: int, again: bool) -> None:
        if again or self.context.dry_run:
            self.context.processes.close()
            return
        if signum == signal.SIGTERM:
            self.deployment.providers.cancel()
        self.deployment.policies.cancel()

    def recover(self, finders: Mapping[str, Finder]) -> None:
        """Settle and report the operations of an interrupted run."""
        recovery = Recovery(self.context, self.deployment.operations_of, finders)
        recovery.run()
        self.deployment.blocked = recovery.blocked
