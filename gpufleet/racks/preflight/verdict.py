"""A verdict: one check of one host, what was measured, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Status = Literal["pass", "warn", "fail", "not-judged"]
"""`not-judged`: measured, but no expected value is published."""


class PreflightVerdict(Struct, frozen=True):
    """`measured` and `expected` are short texts with units; `message` is empty for a pass."""

    host: str
    check: str
    status: Status
    measured: str
    expected: str = ""
    message: str = ""
    remedy: str = ""


def failed(verdicts: Iterable[PreflightVerdict]) -> tuple[PreflightVerdict, ...]:
    """Those that stop a rollout."""
    return tuple(verdict for verdict in verdicts if verdict.status == "fail")


def verdict_to_json(verdict: PreflightVerdict) -> dict[str, Any]:
    """The verdict as plain JSON values."""
    return asdict(verdict)
