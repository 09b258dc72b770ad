"""From the queue to the notes: every message is read once, judged, and deleted when its nodes are drained."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from gpufleet.notices.audit import Audit
from gpufleet.notices.cloud import CloudErrors, Message
from gpufleet.notices.events import NodeNotice, UnusableError, read_notice
from gpufleet.notices.metrics import Metrics
from gpufleet.notices.notes import Notes
from gpufleet.notices.settings import HandlerSettings

PAUSE_S = 2.0
"""After a failed call of SQS."""


EMPTY_S = 0.5
"""After a read of an empty queue that does not wait."""


class Queue(Protocol):
    """What the intake needs of SQS."""

    def receive(self, wait_s: int) -> Sequence[Message]:
        """Return messages; waits for the first."""

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages."""


class Intake:
    """Receives messages in threads of its own. A message stays in the queue until its nodes are drained: so
    a notice outlives even the disk with the notes."""

    def __init__(
        self,
        settings: HandlerSettings,
        notes: Notes,
        queue: Queue,
        audit: Audit,
        metrics: Metrics,
        wake: threading.Event,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._notes, self._queue = settings, notes, queue
        self._audit, self._metrics, self._wake, self._clock = audit, metrics, wake, clock
        self._lock = threading.Lock()
        self._receipts: dict[str, list[str]] = {}

    def start(self, stop: threading.Event) -> list[threading.Thread]:
        """Start the receivers."""
        threads = [
            threading.Thread(target=self._receive, args=(stop,), name=f"receiver-{index}", daemon=True)
            for index in range(self._settings.receivers)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _receive(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                messages = self._queue.receive(wait_s=self._settings.poll_s)
                if messages:
                    self.take(messages)
                else:
                    self._metrics.received(self._clock())
                    if not self._settings.poll_s:
                        stop.wait(EMPTY_S)
            except CloudErrors as error:
                self._metrics.count("_errors", "step", "receive")
                self._audit.write("failed", step="receive", error=str(error)[:500])
                stop.wait(PAUSE_S)

    def take(self, messages: Sequence[Message]) -> None:
        """Write the notices of messages down; delete the other messages."""
        now = self._clock()
        self._metrics.received(now)
        notices: list[tuple[NodeNotice, float]] = []
        useless: list[str] = []
        for message in messages:
            notice = self._read(message, now)
            if notice is None:
                useless.append(message.receipt)
                continue
            notices.append((notice, message.sent))
            with self._lock:
                self._receipts.setdefault(notice.id, []).append(message.receipt)
        for event, outcome in (self._notes.accept(notices, now) if notices else {}).items():
            self._metrics.count("", "outcome", outcome)
            if outcome == "accepted":
                self._audit.write("accepted", id=event)
        if notices:
            self._wake.set()
        if useless:
            self._queue.delete(useless)

    def _read(self, message: Message, now: float) -> NodeNotice | None:
        try:
            return read_notice(
                message.body, account=self._settings.account, region=self._settings.region, now=now
            )
        except UnusableError as error:
            self._metrics.count("", "outcome", error.outcome)
            digest = hashlib.sha256(message.body.encode()).hexdigest()[:16]
            self._audit.write(error.outcome, reason=str(error), body_sha256=digest)
            return None

    def settle(self) -> None:
        """Delete the messages whose nodes are drained, or need not be."""
        with self._lock:
            known = dict(self._receipts)
        if not known:
            return
        done = known.keys() - self._notes.undrained_events(known)
        receipts = []
        with self._lock:
            for event in done:
                receipts += self._receipts.pop(event, [])
        try:
            if receipts:
                self._queue.delete(receipts)
        except CloudErrors as error:
            # They come again, as duplicates.
            self._metrics.count("_errors", "step", "delete")
            self._audit.write("failed", step="delete", error=str(error)[:500])
