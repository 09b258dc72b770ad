"""Carries out the registrations and reads of the program."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.operations import OperationOutcome
from gpufleet.engine.embedded.provider_choice import ProviderChoice
from gpufleet.engine.embedded.registration import Registration
from gpufleet.engine.errors import StepFailedError


class Registrar:
    """The registrations of one deployment. Thread-safe.

    `providers` has the default provider of each package, registered on first use.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.providers = ProviderChoice(deployment, self.register)
        self._idle = threading.Condition()
        self._active = 0
        self._finished = False

    def register(self, goal: Goal) -> OperationOutcome:
        """Register one resource. Its failures are in the outcome, never raised."""
        with self._under_way():
            return self._registration(goal).run()

    def read(self, goal: Goal, identifier: str) -> OperationOutcome:
        """Read a resource that the program does not own."""
        with self._under_way():
            return self._registration(goal).read(identifier)

    def finish(self) -> None:
        """Accept no more registrations, and wait for running ones, so that each step is recorded."""
        with self._idle:
            self._finished = True
            while self._active:
                self._idle.wait()

    def _registration(self, goal: Goal) -> Registration:
        urn = self._deployment.claim(goal)
        old = self._deployment.find_old(urn, goal)
        return Registration(self._deployment, goal, urn, old, self.providers)

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        with self._idle:
            if self._finished:
                raise StepFailedError("the program has ended: it cannot register more")
            self._active += 1
        try:
            yield
        finally:
            with self._idle:
                self._active -= 1
                self._idle.notify_all()
