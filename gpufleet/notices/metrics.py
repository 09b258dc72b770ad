"""Metrics in Prometheus' text format, and their HTTP server."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)

HELP: Mapping[str, tuple[str, str]] = {
    "gpufleet_notices_total": ("counter", "Messages received, by outcome."),
    "gpufleet_notices_jobs_total": ("counter", "Jobs on interrupted nodes, by outcome."),
    "gpufleet_notices_errors_total": ("counter", "Failed calls, which are repeated, by step."),
    "gpufleet_notices_cases": ("gauge", "Instances with a notice, by state."),
    "gpufleet_notices_last_receive_seconds": ("gauge", "When the queue was last read, in epoch seconds."),
}
_REACTION = "gpufleet_notices_reaction_seconds"


class Metrics:
    """Counters and one histogram; safe for threads. `cases` gives the number of cases by state."""

    def __init__(self, cases: Callable[[], Mapping[str, int]]) -> None:
        self._cases = cases
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._reactions = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0
        self._last_receive = 0.0

    def count(self, name: str, label: str, value: str, times: int = 1) -> None:
        """Add to the counter `gpufleet_notices<name>_total{label="value"}`."""
        with self._lock:
            self._counts[f"gpufleet_notices{name}_total", label, value] += times

    def react(self, seconds: float) -> None:
        """Add the time between a notice and the drain of its node."""
        with self._lock:
            self._reactions[bisect_left(BUCKETS, seconds)] += 1
            self._sum += max(seconds, 0.0)

    def received(self, now: float) -> None:
        """Note that the queue was read."""
        with self._lock:
            self._last_receive = now

    def text(self) -> str:
        """Return all metrics."""
        cases = self._cases()
        with self._lock:
            return "\n".join(self._lines(cases)) + "\n"

    def _lines(self, cases: Mapping[str, int]) -> Iterator[str]:
        for name, (kind, meaning) in HELP.items():
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
            for (found, label, value), count in sorted(self._counts.items()):
                if found == name:
                    yield f'{name}{{{label}="{value}"}} {count}'
            if name == "gpufleet_notices_cases":
                yield from (f'{name}{{state="{state}"}} {count}' for state, count in sorted(cases.items()))
            if name == "gpufleet_notices_last_receive_seconds":
                yield f"{name} {self._last_receive:.3f}"
        yield f"# HELP {_REACTION} From the notice's arrival in the queue to the drain of its node."
        yield f"# TYPE {_REACTION} histogram"
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._reactions, strict=True):
            total += count
            yield f'{_REACTION}_bucket{{le="{bound}"}} {total}'
        yield f"{_REACTION}_sum {self._sum:.3f}"
        yield f"{_REACTION}_count {total}"


def serve_metrics(metrics: Metrics, address: str, port: int) -> ThreadingHTTPServer:
    """Serve `/metrics` in a thread of its own; `server_port` of the result is the port."""

    class NoticeWorker(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = metrics.text().encode() if found else b"see /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer((address, port), NoticeWorker)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
