"""The notes of the handler on disk: the notices of each instance, and how far it is with them.

Every step is written before the next begins, so that a handler that is killed at any point goes on where it
was: SQLite commits survive the end of the process and of the machine (WAL, synchronous=FULL).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpufleet.notices.events import RANKS, Kind, NodeNotice
from gpufleet.notices.scheduler import DrainedNode, RunningJob

State = Literal["new", "found", "drained", "signalled", "moved", "done", "cordoned", "left", "withdrawn"]
"""new: to be identified; found: to be drained; drained: to be signalled at its time; signalled: waits for
acknowledgements; moved: to be replaced; done. cordoned: takes no new work, and goes on only with a more
urgent notice. withdrawn: to be given work again. left: not ours, already gone, or given work again."""

OPEN = ("new", "found", "drained", "signalled", "moved")
_KEPT_S = 30 * 24 * 3600

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, kind TEXT NOT NULL, received REAL NOT NULL);
CREATE TABLE IF NOT EXISTS cases (
    subject TEXT PRIMARY KEY, kind TEXT NOT NULL, node TEXT NOT NULL DEFAULT '', state TEXT NOT NULL,
    received REAL NOT NULL, deadline REAL, drained REAL, due REAL NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0, changed REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS cases_by_state ON cases (state, due);
CREATE TABLE IF NOT EXISTS event_cases (
    event TEXT NOT NULL, subject TEXT NOT NULL, PRIMARY KEY (event, subject)
);
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT NOT NULL, run TEXT NOT NULL, state TEXT NOT NULL, signalled REAL NOT NULL, deadline REAL NOT NULL,
    PRIMARY KEY (id, run)
);
CREATE TABLE IF NOT EXISTS case_jobs (
    subject TEXT NOT NULL, id TEXT NOT NULL, run TEXT NOT NULL, node TEXT NOT NULL,
    PRIMARY KEY (subject, id, run)
);
"""


@dataclass(frozen=True, slots=True)
class Case:
    """An instance with a notice. `received` is when the notice reached the queue; `due` when to go on."""

    subject: str
    kind: Kind
    node: str
    state: State
    received: float
    deadline: float | None
    drained: float | None
    due: float
    tries: int


@dataclass(frozen=True, slots=True)
class SignalledJob:
    """A job that was asked for a checkpoint, and until when it may take."""

    id: str
    run: str
    signalled: float
    deadline: float
    nodes: frozenset[str]

    @property
    def job(self) -> RunningJob:
        """The job with the interrupted nodes that it has."""
        return RunningJob(self.id, self.run, self.nodes)


class Notes:
    """The database of one handler. Safe for threads."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def forget(self, now: float) -> None:
        """Delete what ended more than 30 days ago: no message of SQS is that old."""
        before = now - _KEPT_S
        with self._transaction() as db:
            db.execute(
                "DELETE FROM cases WHERE changed < ? AND state IN ('done', 'cordoned', 'left')", (before,)
            )
            db.execute("DELETE FROM event_cases WHERE subject NOT IN (SELECT subject FROM cases)")
            db.execute("DELETE FROM case_jobs WHERE subject NOT IN (SELECT subject FROM cases)")
            db.execute("DELETE FROM jobs WHERE (id, run) NOT IN (SELECT id, run FROM case_jobs)")
            db.execute("DELETE FROM events WHERE received < ?", (before,))

    def accept(self, notices: Iterable[tuple[NodeNotice, float]], now: float) -> Mapping[str, str]:
        """Write notices with the time that each reached the queue. Return the outcome by event id:
        accepted, or duplicate."""
        outcomes: dict[str, str] = {}
        with self._transaction() as db:
            for notice, received in notices:
                new = db.execute(
                    "INSERT OR IGNORE INTO events VALUES (?, ?, ?)", (notice.id, notice.kind, received)
                ).rowcount
                outcomes.setdefault(notice.id, "accepted" if new else "duplicate")
                if not new:
                    continue
                for subject in notice.subjects:
                    db.execute("INSERT OR IGNORE INTO event_cases VALUES (?, ?)", (notice.id, subject))
                    if notice.withdrawn and notice.kind == "budget":
                        self._resume(db, subject, received, now)
                    elif notice.withdrawn:
                        self._withdraw(db, subject, now)
                    else:
                        self._open(db, subject, notice.kind, received, notice.deadline, now)
        return outcomes

    def restore(self, found: Iterable[DrainedNode], now: float, cordoned: Collection[Kind]) -> set[str]:
        """Write nodes that are drained and unknown here; return their instances. Those with a notice of a
        kind in `cordoned` only take no new work."""
        new = set()
        with self._transaction() as db:
            for each in found:
                if db.execute(
                    "INSERT OR IGNORE INTO cases (subject, kind, node, state, received, deadline, drained,"
                    " changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        each.instance,
                        each.kind,
                        each.node,
                        "cordoned" if each.kind in cordoned else "drained",
                        now,
                        each.deadline,
                        now,
                        now,
                    ),
                ).rowcount:
                    new.add(each.instance)
        return new

    def expand(self, case: Case, instances: Iterable[str], now: float) -> None:
        """Put the instances of a reservation in the place of the reservation."""
        with self._transaction() as db:
            for instance in instances:
                self._open(db, instance, case.kind, case.received, case.deadline, now)
            db.execute("UPDATE cases SET state = 'done', changed = ? WHERE subject = ?", (now, case.subject))

    def _open(
        self,
        db: sqlite3.Connection,
        subject: str,
        kind: Kind,
        received: float,
        deadline: float | None,
        now: float,
    ) -> None:
        row = db.execute(
            "SELECT kind, state, deadline, received FROM cases WHERE subject = ?", (subject,)
        ).fetchone()
        if row is None:
            db.execute(
                "INSERT INTO cases (subject, kind, state, received, deadline, changed)"
                " VALUES (?, ?, 'new', ?, ?, ?)",
                (subject, kind, received, deadline, now),
            )
            return
        had, state, until, last = row
        if kind == "budget" and state in ("withdrawn", "left") and received <= last:
            # Sent before the budget was resumed: SQS may give messages out in another order.
            return
        earlier = deadline is not None and (until is None or deadline < until)
        urgent = RANKS[kind] > RANKS[had] and state in ("cordoned", *OPEN)
        sooner = RANKS[kind] == RANKS[had] and earlier and state in OPEN
        if urgent or sooner or state in ("withdrawn", "left"):
            # A node that takes work again, or only no new work, starts over; the rest goes on sooner.
            again = state if state in OPEN else "new"
            db.execute(
                "UPDATE cases SET kind = ?, deadline = ?, state = ?, due = 0, changed = ?,"
                " received = CASE WHEN state = ? THEN received ELSE ? END WHERE subject = ?",
                (kind, deadline, again, now, again, received, subject),
            )
            if state == "signalled" and deadline is not None:
                db.execute(
                    "UPDATE jobs SET deadline = MIN(deadline, ?) WHERE state = 'signalled' AND (id, run) IN"
                    " (SELECT id, run FROM case_jobs WHERE subject = ?)",
                    (deadline, subject),
                )

    def _withdraw(self, db: sqlite3.Connection, subject: str, now: float) -> None:
        """Call a maintenance off whose jobs still run undisturbed."""
        db.execute(
            "UPDATE cases SET state = CASE WHEN state = 'new' THEN 'left' ELSE 'withdrawn' END,"
            " due = 0, changed = ? WHERE subject = ? AND kind = 'maintenance'"
            " AND state IN ('new', 'found', 'drained')",
            (now, subject),
        )

    def _resume(self, db: sqlite3.Connection, subject: str, received: float, now: float) -> None:
        """Call the drain of a spent budget off: the node takes work again, and its jobs are not moved."""
        db.execute(
            "INSERT OR IGNORE INTO cases (subject, kind, state, received, changed)"
            " VALUES (?, 'budget', 'left', ?, ?)",
            (subject, received, now),
        )
        called_off = db.execute(
            "UPDATE cases SET state = CASE WHEN state = 'new' THEN 'left' ELSE 'withdrawn' END, due = 0,"
            " received = ?, changed = ? WHERE subject = ? AND kind = 'budget'"
            " AND state IN ('new', 'found', 'drained', 'signalled', 'moved')",
            (received, now, subject),
        ).rowcount
        if called_off:
            db.execute("DELETE FROM case_jobs WHERE subject = ?", (subject,))
            db.execute("DELETE FROM jobs WHERE (id, run) NOT IN (SELECT id, run FROM case_jobs)")

    def due(self, state: State, now: float, limit: int = 500) -> list[Case]:
        """Return cases in a state whose time has come, the most urgent first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT subject, kind, node, state, received, deadline, drained, due, tries FROM cases"
                " WHERE state = ? AND due <= ? ORDER BY deadline IS NULL, deadline, subject LIMIT ?",
                (state, now, limit),
            ).fetchall()
        return [Case(*row) for row in rows]

    def move(
        self,
        cases: Iterable[Case],
        state: State,
        now: float,
        *,
        nodes: Mapping[str, str] | None = None,
        due: Mapping[str, float] | None = None,
    ) -> None:
        """Write a new state of cases that are still as they were read.

        A more urgent notice may have come since: its case takes the step again.
        """
        with self._transaction() as db:
            for case in cases:
                db.execute(
                    "UPDATE cases SET state = ?, changed = ?, tries = 0, due = ?,"
                    " node = COALESCE(?, node), drained = CASE WHEN ? THEN ? ELSE drained END"
                    " WHERE subject = ? AND state = ? AND kind = ? AND deadline IS ?",
                    (
                        state,
                        now,
                        (due or {}).get(case.subject, 0),
                        (nodes or {}).get(case.subject),
                        state in ("drained", "cordoned") and case.state == "found",
                        now,
                        case.subject,
                        case.state,
                        case.kind,
                        case.deadline,
                    ),
                )

    def postpone(self, subjects: Iterable[str], now: float) -> None:
        """Try cases again later: after 0.5 s, then twice as long each time, at most 15 s."""
        with self._transaction() as db:
            for subject in subjects:
                db.execute(
                    "UPDATE cases SET due = ? + MIN(15, 0.5 * (1 << MIN(tries, 5))), tries = tries + 1"
                    " WHERE subject = ?",
                    (now, subject),
                )

    def link(self, found: Iterable[tuple[str, RunningJob, str]]) -> None:
        """Write which jobs (subject, job, node) a case has, before they are signalled."""
        with self._transaction() as db:
            for subject, job, node in found:
                db.execute(
                    "INSERT OR IGNORE INTO case_jobs VALUES (?, ?, ?, ?)", (subject, job.id, job.run, node)
                )

    def signalled(self, jobs: Iterable[tuple[RunningJob, float]], now: float) -> None:
        """Write jobs that were signalled, and until when each may take."""
        with self._transaction() as db:
            for job, deadline in jobs:
                db.execute(
                    "INSERT INTO jobs VALUES (?, ?, 'signalled', ?, ?) ON CONFLICT (id, run)"
                    " DO UPDATE SET deadline = MIN(deadline, excluded.deadline)",
                    (job.id, job.run, now, deadline),
                )

    def known(self, jobs: Sequence[RunningJob]) -> set[tuple[str, str]]:
        """Return the jobs (id, run) that were signalled before."""
        with self._lock:
            found = self._db.execute("SELECT id, run FROM jobs").fetchall()
        return {(job.id, job.run) for job in jobs} & set(found)

    def waiting(self) -> list[SignalledJob]:
        """Return the jobs that were signalled and not moved, with their interrupted nodes."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, run, signalled, jobs.deadline, GROUP_CONCAT(DISTINCT case_jobs.node) FROM jobs"
                " JOIN case_jobs USING (id, run) WHERE jobs.state = 'signalled' GROUP BY id, run"
            ).fetchall()
        return [
            SignalledJob(job, run, signalled, deadline, frozenset(nodes.split(",")))
            for job, run, signalled, deadline, nodes in rows
        ]

    def close_job(self, job: SignalledJob, outcome: str) -> None:
        """Write how a job ended."""
        with self._transaction() as db:
            db.execute("UPDATE jobs SET state = ? WHERE id = ? AND run = ?", (outcome, job.id, job.run))

    def cases_without_open_jobs(self) -> list[Case]:
        """Return signalled cases all of whose jobs have moved."""
        with self._lock:
            rows = self._db.execute(
                "SELECT subject, kind, node, state, received, deadline, drained, due, tries FROM cases"
                " WHERE state = 'signalled' AND NOT EXISTS (SELECT 1 FROM case_jobs JOIN jobs USING (id, run)"
                " WHERE case_jobs.subject = cases.subject AND jobs.state = 'signalled')"
            ).fetchall()
        return [Case(*row) for row in rows]

    def undrained_events(self, events: Iterable[str]) -> set[str]:
        """Return those events whose nodes are not drained yet: their messages stay in the queue."""
        wanted = list(events)
        with self._lock:
            found = self._db.execute(
                "SELECT DISTINCT event FROM event_cases JOIN cases USING (subject)"
                " WHERE state IN ('new', 'found')"
            ).fetchall()
        return {row[0] for row in found} & set(wanted)

    def counts(self) -> dict[str, int]:
        """Return the number of cases by state."""
        with self._lock:
            return dict(self._db.execute("SELECT state, COUNT(*) FROM cases GROUP BY state").fetchall())

    def all_cases(self) -> list[Case]:
        """Return every case, by subject."""
        with self._lock:
            rows = self._db.execute(
                "SELECT subject, kind, node, state, received, deadline, drained, due, tries FROM cases"
                " ORDER BY subject"
            ).fetchall()
        return [Case(*row) for row in rows]
