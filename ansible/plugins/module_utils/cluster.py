"""kubectl and helm for modules: input over standard input, output as text, errors with a remedy."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any, NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

# Temporary errors: the API server or a webhook is starting, or a kind was defined a moment ago.
PASSING = (
    "connection refused",
    "failed calling webhook",
    "no matches for kind",
    "ensure CRDs are installed first",
    "the server is currently unable to handle the request",
    "etcdserver: request timed out",
    "i/o timeout",
    "TLS handshake timeout",
)
# The connection ended before the response: nobody knows whether the request was executed. haproxy ends the
# connections of a member that is down, and an API server those that it has when it stops.
LOST = (
    ": EOF",
    "unexpected EOF",
    "connection reset by peer",
    "http2: client connection lost",
    "etcdserver: leader changed",
)
TRIES, REPEAT_S, PAUSE_S = 3, 60.0, 2.0
"""A request whose response was lost is tried as often, and for as many seconds; seconds between two."""
# No API server, or it does not authenticate the client yet.
SILENT = (
    "connection refused",
    "no such host",
    "no such file or directory",
    "i/o timeout",
    "no route to host",
)


class Answer(NamedTuple):
    """The result of a command."""

    rc: int
    stdout: str
    stderr: str

    def passing(self) -> bool:
        """Whether the failure may be temporary."""
        return self.rc != 0 and any(text in self.stderr for text in PASSING)

    def lost(self) -> bool:
        """Whether the response was lost on its way."""
        return self.rc != 0 and any(text in self.stderr for text in LOST)

    def silent(self) -> bool:
        """Whether no API server answered."""
        return self.rc != 0 and any(text in self.stderr for text in SILENT)

    def error(self) -> str:
        """The error message, shortened."""
        return (self.stderr.strip() or self.stdout.strip())[-1500:]


class Program:
    """Run kubectl or helm on one cluster."""

    def __init__(self, name: str, kubeconfig: str, timeout_s: int) -> None:
        self.name, self.timeout_s = name, timeout_s
        self._environment = os.environ | {"KUBECONFIG": kubeconfig, "LC_ALL": "C.UTF-8"}
        self._environment["PATH"] = os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/bin"
        self._environment.setdefault("HOME", "/root")

    def __call__(self, *words: str, text: str = "") -> Answer:
        """Run a command that may run twice: again while its response is lost."""
        deadline, tried = time.monotonic() + REPEAT_S, 1
        while (answer := self.once(*words, text=text)).lost():
            if tried >= TRIES and time.monotonic() >= deadline:
                break
            time.sleep(PAUSE_S)
            tried += 1
        return answer

    def once(self, *words: str, text: str = "") -> Answer:
        """Run the command; raises only if it hangs."""
        try:
            done = subprocess.run(
                [self.name, *words],
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=self.timeout_s,
                env=self._environment,
            )
        except FileNotFoundError:
            return Answer(127, "", f"{self.name} is not installed: no such file or directory")
        except subprocess.TimeoutExpired as late:
            raise RefusalError(
                f"{self.name} {words[0]} took longer than {self.timeout_s} s. See whether the API server "
                "answers (`kubectl get --raw /readyz`) and run again; completed changes stay."
            ) from late
        return Answer(done.returncode, done.stdout, done.stderr)


def name_of(item: dict[str, Any]) -> str:
    """`Kind namespace/name`, for messages."""
    metadata = item["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{item['kind']} {place}{metadata['name']}"
