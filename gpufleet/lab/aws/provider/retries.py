"""Retries for all types: throttling, late visibility, and server errors.

botocore stops retrying when its attempts or its retry quota are used up; a stack of hundreds of resources
meets buckets that refill once in three seconds. New resources may not be found at first, because AWS is
eventually consistent. Both are retried.

After a server error it is unknown whether the request was performed. A creation is not sent again then, since
it could create a second resource or conflict with the first. The engine searches the resource in its next
run.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import HTTPClientError

MOST_ATTEMPTS = 25
"""Maximum attempts of a throttled request: the real provider's default (`maxRetries`)."""

TRANSIENT = frozenset({500, 502, 503, 504})
"""Statuses of answers that leave the result of the request unknown."""

_MOST_SENT = 4
"""Maximum attempts of a request after server errors."""

LONGEST_PAUSE_S = 20.0
SETTLED_AFTER_S = 60.0
"""How long a created resource that was never found counts as not visible yet."""

_THROTTLED = frozenset(
    {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException", "SlowDown"}
)
_MISSING = re.compile(r"NotFound|NoSuchEntity")
_MAKES = ("Create", "Allocate", "Authorize", "Run")
_MAKES_ONCE = (*_MAKES, "Add", "Associate", "Attach", "Purchase", "Request")
_UNMAKES = ("Delete", "Disassociate", "Detach", "Release", "Remove", "Revoke", "Terminate")
_ID = re.compile(r"[a-z]+-[0-9a-f]{8,17}")
_IAM_NAMES = {"CreateRole": "RoleName", "CreateInstanceProfile": "InstanceProfileName"}


class RetryPolicy:
    """The created resources of one account that were not found yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, float] = {}

    def watch(self, client: Any) -> None:
        """Enable retries for a client's requests."""
        events, service = client.meta.events, client.meta.service_model.service_id.hyphenize()
        events.register_first(f"before-parameter-build.{service}", self._before)
        events.register_last(f"after-call.{service}", self._after)
        events.register_last(f"needs-retry.{service}", self._pause)

    def _before(self, params: Any, model: Any, context: dict[str, Any], **_: Any) -> None:
        texts = {text for text in _texts(params) if text}
        context["gpufleet_texts"] = texts
        if model.name.startswith(_UNMAKES):
            self._forget(texts)

    def _after(self, http_response: Any, parsed: Any, model: Any, context: dict[str, Any], **_: Any) -> None:
        texts = context.get("gpufleet_texts", set())
        if http_response.status_code >= 300:
            return
        if model.name in _IAM_NAMES:
            name = parsed.get(_IAM_NAMES[model.name].removesuffix("Name"), {}).get(_IAM_NAMES[model.name], "")
            self._remember({name})
        elif model.service_model.service_name == "ec2" and model.name.startswith(_MAKES):
            self._remember({text for text in _texts(parsed) if _ID.fullmatch(text)} - texts)
        elif model.name.startswith(("Describe", "Get")):
            # It has been found: if it is missing later, it was deleted.
            self._forget(texts)

    def _pause(
        self, response: Any, attempts: int, operation: Any = None, caught_exception: Any = None, **_: Any
    ) -> float | None:
        """Return the seconds until the next attempt; None if a retry would not help."""
        broken = isinstance(caught_exception, HTTPClientError)
        answer = response[1] if response is not None else {}
        status, error = answer.get("ResponseMetadata", {}).get("HTTPStatusCode"), answer.get("Error", {})
        code = str(error.get("Code", ""))
        throttled = code in _THROTTLED and attempts < MOST_ATTEMPTS
        if not throttled and (broken or status in TRANSIENT):
            made_twice = operation is not None and operation.name.startswith(_MAKES_ONCE)
            again = attempts < _MOST_SENT and not made_twice
            return random.random() * 2.0 ** (attempts - 1) if again else None  # noqa: S311 - no secret
        if not throttled and not (_MISSING.search(code) and self._awaited(str(error.get("Message", "")))):
            return None
        least = 1.0 if throttled else 0.1
        pause = min(least * 2.0 ** (attempts - 1), LONGEST_PAUSE_S if throttled else 2.0)
        # Half of it random: requests that were rejected together must not return together.
        return pause * (0.5 + random.random() / 2)  # noqa: S311 - no secret

    def _awaited(self, message: str) -> bool:
        now = time.monotonic()
        with self._lock:
            return any(name in message and now - made < SETTLED_AFTER_S for name, made in self._made.items())

    def _remember(self, names: set[str]) -> None:
        now = time.monotonic()
        with self._lock:
            self._made |= dict.fromkeys(filter(None, names), now)

    def _forget(self, names: set[str]) -> None:
        with self._lock:
            for name in names:
                self._made.pop(name, None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
