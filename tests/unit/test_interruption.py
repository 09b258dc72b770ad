"""Signals are recorded, whatever becomes of the exception that they raise."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from gpufleet import interruption


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """As for a command at a terminal: background processes start with SIGINT ignored."""
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for sign, handler in before.items():
        signal.signal(sign, handler)


def send(sign: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), sign)
    signal.sigtimedwait([], 0.2)


class RaisesOnDelete:
    """Raises an exception in `__del__`, which Python drops."""

    def __del__(self) -> None:
        send()


def test_exception_dropped_by_python_is_raised_again(capfd: pytest.CaptureFixture[str]) -> None:
    came = threading.Event()
    with pytest.raises(KeyboardInterrupt), interruption.handle_interruptions():
        dropping = RaisesOnDelete()
        del dropping
        came.wait(60)
    assert interruption.is_recorded()
    assert capfd.readouterr().err == ""


def test_other_dropped_exceptions_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: reported.append(found.exc_type))

    class Broken:
        def __del__(self) -> None:
            raise ValueError("broken")

    with interruption.handle_interruptions():
        broken = Broken()
        del broken
    assert reported == [ValueError]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_swallowed_exception_is_recorded_until_the_next_command(sign: signal.Signals) -> None:
    with interruption.handle_interruptions():
        assert not interruption.is_recorded()
        with contextlib.suppress(BaseException):
            send(sign)
        assert interruption.is_recorded()
    with interruption.handle_interruptions():
        assert not interruption.is_recorded()


def test_second_ctrl_c_does_not_end_the_cleanup() -> None:
    cleaned = []
    with pytest.raises(KeyboardInterrupt), interruption.handle_interruptions():
        try:
            send()
        finally:
            send()
            cleaned.append("up")
    assert cleaned == ["up"]


def test_later_signal_raises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt), interruption.handle_interruptions():
        try:
            send()
        except KeyboardInterrupt:
            later = time.monotonic() + 60
            monkeypatch.setattr("time.monotonic", lambda: later)
        send()


def test_signal_ignored_by_the_caller_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruption.handle_interruptions():
        send()
        with interruption.defer_interruption():
            send()
    assert not interruption.is_recorded()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_completion_of_a_command_is_not_interrupted() -> None:
    with interruption.handle_interruptions():
        with interruption.defer_interruption():
            send()
        assert not interruption.is_recorded()
        with pytest.raises(KeyboardInterrupt):
            send()


def test_interruptible_section_gets_the_signal_and_it_is_recorded() -> None:
    got: list[int] = []
    with interruption.handle_interruptions(), interruption.interruptible(got.append):
        send(signal.SIGTERM)
        assert interruption.is_recorded()
    assert got == [signal.SIGTERM]


def test_interruptible_section_of_another_thread_gets_the_signal() -> None:
    got, ready, over = [], threading.Event(), threading.Event()

    def part() -> None:
        with interruption.interruptible(got.append):
            ready.set()
            over.wait(60)

    thread = threading.Thread(target=part)
    with interruption.handle_interruptions():
        thread.start()
        ready.wait(60)
        with pytest.raises(KeyboardInterrupt):
            send()
        over.set()
        thread.join()
    assert got == [signal.SIGINT]


def test_handler_messages_are_printed_in_order_and_completely() -> None:
    order: list[bool] = []
    first = threading.Event()

    def notify(forced: bool) -> None:
        if not order:
            first.wait(60)
        order.append(forced)

    with interruption.notify_in_thread(notify) as handler:
        handler(False)
        handler(True)
        first.set()
    assert order == [False, True]


def test_all_handlers_are_restored() -> None:
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(sign) for sign in signs], sys.unraisablehook
    with (
        interruption.handle_interruptions(),
        interruption.interruptible(lambda _: None),
        interruption.defer_interruption(),
    ):
        pass
    assert ([signal.getsignal(sign) for sign in signs], sys.unraisablehook) == before
