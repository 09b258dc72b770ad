"""Ctrl-C and SIGTERM: recorded on arrival, so that code which swallows `KeyboardInterrupt` loses none.

Python raises `KeyboardInterrupt` wherever the main thread is: in a `__del__`, in a callback of the import
system, in a library with a bare `except`. The exception can end there, and the command would continue.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

TERMINATION_GRACE_S = 10.0
"""How long running steps may take after a SIGTERM before they are abandoned. Their operations then stay
pending, since their result is unknown. The sender kills the process in the end."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CLEANING_UP_S = 2.0
"""A second signal within this time (a key pressed twice) does not interrupt the cleanup after the first."""
_AGAIN_S = 0.05

_received: list[float] = []
_elsewhere: list[Callable[[int], None]] = []


def is_recorded() -> bool:
    """Return whether a signal has interrupted the command, even if its exception was swallowed."""
    return bool(_received)


@contextlib.contextmanager
def handle_interruptions() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for SIGINT and SIGTERM, and record it (main thread only).

    An exception that Python drops, because it was raised in a `__del__` or a callback, is raised again. A
    SIGINT that the caller ignores (`nohup`, `&` in a script) stays ignored.
    """
    _received.clear()
    if not _is_main_thread():
        yield
        return
    report = sys.unraisablehook

    def dropped(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            # Not here: Python drops whatever this function raises as well.
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            report(unraisable)

    sys.unraisablehook = dropped
    try:
        with _handled(_raise), _handling({signal.SIGALRM: _raise_again}):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = report


@contextlib.contextmanager
def interruptible(interrupt: Callable[[int], None]) -> Iterator[None]:
    """Call `interrupt` with the signal for SIGINT and SIGTERM, instead of raising anything.

    In other threads than the main one `interrupt` is called in addition to the main thread's handling.
    """
    if not _is_main_thread():
        _elsewhere.append(interrupt)
        try:
            yield
        finally:
            _elsewhere.remove(interrupt)
        return

    def handler(signum: int, _frame: Any) -> None:
        _received.append(time.monotonic())
        interrupt(signum)

    with _handling(dict.fromkeys(_SIGNALS, handler)):
        yield


@contextlib.contextmanager
def notify_in_thread(notify: Callable[[bool], None]) -> Iterator[Callable[[bool], None]]:
    """Return a form of `notify` for signal handlers, which must not wait: another thread calls it in order.

    All calls have ended when the block ends.
    """
    calls: queue.SimpleQueue[bool | None] = queue.SimpleQueue()

    def work() -> None:
        while (call := calls.get()) is not None:
            notify(call)

    thread = threading.Thread(target=work, name="interrupted", daemon=True)
    thread.start()
    try:
        yield calls.put
    finally:
        calls.put(None)
        thread.join()


@contextlib.contextmanager
def defer_interruption() -> Iterator[None]:
    """Let the final steps of a command, a few files and lines, complete before the interruption is raised."""
    if not _is_main_thread():
        yield
        return
    with _handled(lambda _signum, _frame: None):
        yield


def _raise(signum: int, _frame: Any) -> None:
    now = time.monotonic()
    if _received and now - _received[-1] < _CLEANING_UP_S:
        return
    _received.append(now)
    for interrupt in list(_elsewhere):
        interrupt(signum)
    raise KeyboardInterrupt


def _raise_again(_signum: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handled(handler: Callable[[int, Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Handle the signals of an interruption, unless the parent process ignores them."""
    return _handling({sign: handler for sign in _SIGNALS if signal.getsignal(sign) is not signal.SIG_IGN})


@contextlib.contextmanager
def _handling(handlers: dict[signal.Signals, Callable[[int, Any], Any]]) -> Iterator[None]:
    before = {sign: signal.signal(sign, handler) for sign, handler in handlers.items()}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
