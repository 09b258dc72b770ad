"""The gate of a run whose program starts before its state exists."""

from __future__ import annotations

import threading
from typing import Any

import grpc

from gpufleet.engine.embedded.monitor import Monitor

_AT_ONCE = frozenset({"SupportsFeature", "GetDeploymentInfo"})
"""Calls that need no state."""


class Gate:
    """A monitor whose calls wait until the gate is opened. Closed, it cancels them."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._decided = threading.Event()
        self._is_open = False

    def open(self) -> None:
        """Let all calls through."""
        self._is_open = True
        self._decided.set()

    def close(self) -> None:
        """Cancel the calls that still wait."""
        self._decided.set()

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self._monitor, name)
        if name in _AT_ONCE or not callable(answer):
            return answer

        def wait(request: Any, context: grpc.ServicerContext) -> Any:
            self._decided.wait()
            if not self._is_open:
                context.abort(grpc.StatusCode.CANCELLED, "the run was abandoned")
            return answer(request, context)

        return wait
