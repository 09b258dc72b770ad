"""Errors of providers, with the provider's own messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from gpufleet.engine.embedded import values
from gpufleet.engine.errors import ProviderError


class InitFailedError(ProviderError):
    """The resource exists but failed to initialize: it has an id, a state and reasons."""

    def __init__(self, message: str, detail: provider_pb2.ErrorResourceInitFailed) -> None:
        super().__init__(message)
        self.id = detail.id
        self.reasons = list(detail.reasons)
        self.properties = values.decode(detail.properties)
        self.inputs = values.decode(detail.inputs) if detail.HasField("inputs") else None


class UnknownOutcomeError(ProviderError):
    """It is unknown whether the operation was done."""


class ProviderStoppedError(UnknownOutcomeError):
    """The plugin ended during a call."""


def details_of(error: grpc.RpcError) -> Sequence[Any]:
    """Return the structured details of a gRPC error, as protobuf Any messages."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return list(status_pb2.Status.FromString(value).details)
    return []


_WRAPPED = re.compile(
    r"^(?:Unexpected <class '[^']*'>: |Exception (?:calling application|iterating responses): )"
)
_STACK = re.compile(
    r":?\s*\n?(?:Traceback \(most recent call last\):\n)?(?:\s*File \"[^\"]+\", line \d+.*)", re.S
)
_LAST_LINE = re.compile(r"^(?:[\w.]+(?:Error|Exception|Warning|Exit)|[\w.]*Exception): ", re.M)


def clean_message(text: str) -> str:
    """Return a provider's message without the stack trace that Python providers add."""
    text = _WRAPPED.sub("", text.strip())
    if text.startswith("Traceback (most recent call last):"):
        lines = text.splitlines()
        frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
        after = range(frames[-1] + 1 if frames else 1, len(lines))
        start = next((place for place in after if not lines[place].startswith(" ")), len(lines) - 1)
        text = "\n".join(lines[start:])
        return _LAST_LINE.sub("", text, count=1).strip() or text.strip()
    return _STACK.split(text, maxsplit=1)[0].strip() or text
