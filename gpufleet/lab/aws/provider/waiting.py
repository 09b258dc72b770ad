"""Waiting for AWS: polls with increasing intervals, and retries of temporary errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from botocore.exceptions import ClientError

from gpufleet.lab.aws.provider.errors import code_of, is_missing, message_of

T = TypeVar("T")
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
_GROWTH = 1.6


def until(probe: Callable[[], T | None], *, timeout_s: float, what: str) -> T:
    """Return the first value of `probe` that is not None; TimeoutError after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        value = probe()
        if value is not None:
            return value
        if time.monotonic() + pause > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:g} s")
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_S)


def until_gone(read: Callable[[], object], *, timeout_s: float, what: str) -> None:
    """Wait until `read` returns None or an error that the resource does not exist."""

    def probe() -> bool | None:
        try:
            return True if read() is None else None
        except ClientError as error:
            if is_missing(error):
                return True
            raise

    until(probe, timeout_s=timeout_s, what=what)


def settle(call: Callable[[], T], *, codes: str, message: str = "", timeout_s: float = 10.0) -> T:
    """Repeat a call that fails because AWS is not up to date yet, for at most `timeout_s` seconds.

    `codes` is a regular expression for temporary error codes, `message` one that the message must match too.
    """
    deadline = time.monotonic() + timeout_s
    pause = _FIRST_PAUSE_S * 5
    while True:
        try:
            return call()
        except ClientError as error:
            passing = re.search(codes, code_of(error)) and re.search(message, message_of(error))
            if not passing or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE_S)
