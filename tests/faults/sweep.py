"""The sweep: each fault at each call of a first `up`; the next `up` finishes as if there had been no fault.

Resources are created in parallel, so the third `CreateSubnet` is another subnet in another run: a call is the
number of an action, and every number of every action must have had the fault.
"""

from __future__ import annotations

import os
import random
import signal
import time
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpufleet.lab.aws.faults.inject import Refusal
from tests.faults.world import Call, Contents, Image, World, deaths

MOST_RUNS = 60
"""Limit of interrupted runs of one creation."""

WHOLE = {
    "throttle": '{"throttle": true}',
    "late": '{"late_s": 1.5}',
    "slow": '{"slow": [{"action": "ec2:*", "seconds": 0.02}, {"action": "eks:*", "seconds": 0.1}]}',
}
"""Faults that hold during a whole run."""

TOGETHER = 3
"""Number of attempts for a call along with others; then it has its own run."""


@dataclass(frozen=True)
class SweepResult:
    """Result of one case: the fault, its place, and the errors afterwards (empty: none)."""

    kind: str
    at: tuple[str, ...]
    wrong: tuple[str, ...]
    seconds: float


@dataclass
class Sweep:
    """One environment in one world. `part` of `parts` is the share of this process."""

    world: World
    environment: str
    part: int = 0
    parts: int = 1
    expected: Contents = field(init=False)
    calls: list[Call] = field(init=False)
    unreached: list[str] = field(init=False, default_factory=list)
    """Calls that did not happen again, even in their own run, with the fault."""

    def __post_init__(self) -> None:
        self.world.clear()
        code, reported = self.up()
        assert code == 0, reported
        # In their order, and before `contents_of` queries everything.
        self.calls = list(dict.fromkeys(self.world.watch.calls))
        self.expected = self.world.contents_of(self.environment)

    def up(self, *options: str) -> tuple[int, dict[str, object]]:
        """`gpufleet up`, with policies by default."""
        return self.world.gpufleet(
            "up", self.environment, "--cloud", "sandbox", "--engine", "embedded", "--yes", *options
        )

    def finished(self, kind: str, at: Sequence[str], started: float) -> SweepResult:
        """Run `up` without a fault and without options, and compare."""
        watch = self.world.watch
        watch.before_call = watch.after_call = lambda call: None
        self.world.faults("")
        code, reported = self.up()
        wrong = []
        if code:
            violations = reported.get("violations") or []
            failures = reported.get("failures") or []
            wrong.append(f"exit code {code}: {reported.get('error') or violations or failures}"[:2000])
        else:
            wrong = self.world.contents_of(self.environment).differences(self.expected)
        return SweepResult(kind, tuple(at), tuple(wrong), time.monotonic() - started)

    def is_mine(self, name: str) -> bool:
        """Whether a call or a URN belongs to this process: by its name."""
        return zlib.crc32(name.encode()) % self.parts == self.part

    def share(self, calls: Sequence[Call]) -> list[Call]:
        """The share of this process."""
        return [call for call in calls if self.is_mine(str(call))]

    # -- kinds

    def deaths(self, calls: Sequence[Call], *, journal: bool = True) -> Iterator[SweepResult]:
        """gpufleet is killed after a call (or when a resource outside AWS starts)."""
        wanted = set(self.share([call for call in calls if not call.is_read]))

        def begins(urn: str) -> bool:
            return journal and self.is_mine(urn)

        images: dict[str, Image] = {}
        for _ in range(TOGETHER):
            if images and not wanted:
                break
            self.world.clear()
            with deaths(self.world, frozenset(wanted).__contains__, begins, images):
                self.up("--skip-policies")
            journal = False
            wanted = {call for call in wanted if str(call) not in images}
        self.unreached += [f"death {call}" for call in sorted(wanted, key=str)]
        while images:
            at, image = images.popitem()
            started = time.monotonic()
            self.world.restore(image)
            yield self.finished("death", [at], started)

    def refusals(self, calls: Sequence[Call], together: int) -> Iterator[SweepResult]:
        """A call is refused, several in one run; those that do not happen wait for another run."""
        yield from self._batches("refused", calls, together, before=Refusal("UnauthorizedOperation", "no"))

    def lost(self, calls: Sequence[Call], together: int) -> Iterator[SweepResult]:
        """A call is performed, and its response is lost."""
        writes = [call for call in calls if not call.is_read]
        yield from self._batches("answer lost", writes, together, after=Refusal("InternalError", "no", 500))

    def broken(self, calls: Sequence[Call], together: int) -> Iterator[SweepResult]:
        """A call fails once with a server error."""
        yield from self._batches("500", calls, together, before=Refusal("InternalError", "no", 500))

    def _batches(
        self,
        kind: str,
        calls: Sequence[Call],
        together: int,
        *,
        before: Refusal | None = None,
        after: Refusal | None = None,
    ) -> Iterator[SweepResult]:
        waiting = deque(self.share(calls))
        misses: Counter[Call] = Counter()
        while waiting:
            batch = {waiting.popleft()}
            while waiting and len(batch) < together and all(misses[call] < TOGETHER for call in batch):
                batch.add(waiting.popleft())
            met: list[Call] = []

            def hit(
                refusal: Refusal | None, call: Call, batch: set[Call] = batch, met: list[Call] = met
            ) -> Refusal | None:
                if refusal is None or call not in batch:
                    return None
                met.append(call)
                return refusal

            started = time.monotonic()
            self.world.clear()
            self.world.watch.before_call = lambda call, hit=hit: hit(before, call)  # type: ignore[misc]
            self.world.watch.after_call = lambda call, hit=hit: hit(after, call)  # type: ignore[misc]
            self.up("--skip-policies")
            missed = sorted(batch - set(met), key=self.calls.index)
            misses.update(missed)
            # Calls that wait for a refused one come in a later run, at the end in their own.
            waiting.extend(call for call in missed if misses[call] <= TOGETHER)
            self.unreached += [f"{kind} {call}" for call in missed if misses[call] > TOGETHER]
            if met:
                yield self.finished(kind, [str(call) for call in met], started)

    def kinds(self) -> Iterator[SweepResult]:
        """The first call of every action is refused, as many per run as happen, until all were."""
        started = time.monotonic()
        met: dict[str, None] = {}

        def refuse(call: Call) -> Refusal | None:
            action = f"{call.service}:{call.action}"
            if action in met:
                return None
            met[action] = None
            return Refusal("UnauthorizedOperation", "no")

        self.world.clear()
        self.world.watch.before_call = refuse
        for _ in range(MOST_RUNS):
            code, reported = self.up()
            if code == 0:
                break
            if code != 4:
                wrong = f"exit code {code}: {reported}"[:2000]
                yield SweepResult(
                    "every action", (next(reversed(met)),), (wrong,), time.monotonic() - started
                )
                return
        yield self.finished("every action", list(met), started)

    def interrupts(self, seed: int, gap: int) -> Iterator[SweepResult]:
        """Ctrl-C after every few calls, until the creation is complete."""
        dice = random.Random(seed)
        started, at = time.monotonic(), []
        self.world.clear()
        for _ in range(MOST_RUNS):
            left = [dice.randint(1, gap)]

            def press(call: Call, left: list[int] = left) -> None:
                left[0] -= not call.is_read
                if left[0] == 0 and not call.is_read:
                    at.append(str(call))
                    os.kill(os.getpid(), signal.SIGINT)

            self.world.watch.after_call = press
            code, reported = self.up()
            if code not in (0, 130):
                wrong = f"exit code {code}: {reported}"[:2000]
                yield SweepResult("interrupted", tuple(at[-1:]), (wrong,), time.monotonic() - started)
                return
            if code == 0:
                break
        yield self.finished("interrupted", at, started)

    def whole(self, kinds: Sequence[str]) -> Iterator[SweepResult]:
        """Faults during a whole run."""
        for kind in kinds:
            started = time.monotonic()
            self.world.clear()
            self.world.faults(WHOLE[kind])
            self.up("--skip-policies")
            yield self.finished(kind, ["all calls"], started)

    def shortages(self, types: Sequence[str]) -> Iterator[SweepResult]:
        """No capacity for an instance type."""
        for kind in types:
            started = time.monotonic()
            self.world.clear()
            self.world.faults(f'{{"shortages": [{{"type": "{kind}"}}]}}')
            self.up("--skip-policies")
            yield self.finished("no capacity", [kind], started)
