"""Waits are short where AWS is fast, and bounded where it is not."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError

from gpufleet.lab.aws.provider.waiting import settle, until, until_gone


def failure(code: str, message: str = "m") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


class Once:
    """Fails a number of times, then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.left, self.error, self.calls = failures, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


def test_what_is_ready_at_once_is_not_waited_for() -> None:
    begun = time.monotonic()
    assert until(lambda: 7, timeout_s=60, what="it") == 7
    assert time.monotonic() - begun < 0.05


def test_what_is_ready_soon_is_found_soon() -> None:
    begun = time.monotonic()
    assert until(lambda: time.monotonic() - begun > 0.1 or None, timeout_s=60, what="it")
    assert time.monotonic() - begun < 1


def test_a_wait_ends_with_what_did_not_happen() -> None:
    with pytest.raises(TimeoutError, match=r"vpc-1 becoming available did not happen within 0.05 s"):
        until(lambda: None, timeout_s=0.05, what="vpc-1 becoming available")


def test_gone_is_none_or_not_found() -> None:
    until_gone(lambda: None, timeout_s=1, what="it")
    until_gone(Once(9, failure("InvalidVpcID.NotFound")), timeout_s=1, what="it")
    with pytest.raises(ClientError, match="AuthFailure"):
        until_gone(Once(9, failure("AuthFailure")), timeout_s=1, what="it")


def test_a_passing_error_is_retried() -> None:
    call = Once(2, failure("NoSuchEntity"))
    assert settle(call, codes="NoSuchEntity", timeout_s=5) == "done"
    assert call.calls == 3


def test_any_other_error_is_not() -> None:
    call = Once(2, failure("AccessDenied"))
    with pytest.raises(ClientError):
        settle(call, codes="NoSuchEntity", timeout_s=5)
    assert call.calls == 1


def test_the_message_decides_where_the_code_says_too_little() -> None:
    call = Once(1, failure("InvalidParameterException", "role does not exist"))
    assert settle(call, codes="InvalidParameter", message="does not exist", timeout_s=5) == "done"
    other = Once(1, failure("InvalidParameterException", "bad version"))
    with pytest.raises(ClientError):
        settle(other, codes="InvalidParameter", message="does not exist", timeout_s=5)


def test_retries_are_bounded() -> None:
    with pytest.raises(ClientError):
        settle(Once(10**6, failure("NoSuchEntity")), codes="NoSuchEntity", timeout_s=0.3)
