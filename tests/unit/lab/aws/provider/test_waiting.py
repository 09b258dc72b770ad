"""Waits are short where AWS is fast, and bounded where it is not."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError

from gpufleet.lab.aws.provider.waiting import settle, until, until_gone


def failure(code: str, message: str = "m") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


class FlakyCall:
    """Fails a number of times, then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.left, self.error, self.calls = failures, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


def test_ready_resource_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    assert until(lambda: 7, timeout_s=60, what="it") == 7


def test_nearly_ready_resource_is_found_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert until(lambda: sum(slept) > 0.1 or None, timeout_s=60, what="it")
    assert sum(slept) < 1


def test_timeout_names_the_state_that_was_not_reached() -> None:
    with pytest.raises(TimeoutError, match=r"vpc-1 becoming available did not happen within 0.05 s"):
        until(lambda: None, timeout_s=0.05, what="vpc-1 becoming available")


def test_none_and_not_found_count_as_deleted() -> None:
    until_gone(lambda: None, timeout_s=1, what="it")
    until_gone(FlakyCall(9, failure("InvalidVpcID.NotFound")), timeout_s=1, what="it")
    with pytest.raises(ClientError, match="AuthFailure"):
        until_gone(FlakyCall(9, failure("AuthFailure")), timeout_s=1, what="it")


def test_transient_error_is_retried() -> None:
    call = FlakyCall(2, failure("NoSuchEntity"))
    assert settle(call, codes="NoSuchEntity", timeout_s=5) == "done"
    assert call.calls == 3


def test_other_errors_are_not_retried() -> None:
    call = FlakyCall(2, failure("AccessDenied"))
    with pytest.raises(ClientError):
        settle(call, codes="NoSuchEntity", timeout_s=5)
    assert call.calls == 1


def test_message_decides_if_the_code_is_ambiguous() -> None:
    call = FlakyCall(1, failure("InvalidParameterException", "role does not exist"))
    assert settle(call, codes="InvalidParameter", message="does not exist", timeout_s=5) == "done"
    other = FlakyCall(1, failure("InvalidParameterException", "bad version"))
    with pytest.raises(ClientError):
        settle(other, codes="InvalidParameter", message="does not exist", timeout_s=5)


def test_retries_are_limited() -> None:
    with pytest.raises(ClientError):
        settle(FlakyCall(10**6, failure("NoSuchEntity")), codes="NoSuchEntity", timeout_s=0.3)
