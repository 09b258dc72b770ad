"""What verification says: one check of one role on one host."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Status = Literal["pass", "warn", "fail"]


class Result(Struct, frozen=True):
    """`measured` and `expected` are short texts with units; `message` and `remedy` are empty for a pass."""

    host: str
    role: str
    check: str
    status: Status
    measured: str
    expected: str = ""
    message: str = ""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)
