"""Ctrl-C and SIGTERM while a run is under way."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

TERMINATION_GRACE_S = 10.0
"""How long steps under way may take after a SIGTERM before they are given up: their operations then stay
pending, since nobody knows how they ended. Who sends it kills in the end."""


@contextlib.contextmanager
def interruptible(interrupt: Callable[[int], None]) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into `interrupt` while a run is under way (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM)}
    for sign in before:
        signal.signal(sign, lambda signum, _frame: interrupt(signum))
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
