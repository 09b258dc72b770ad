"""The endpoint of an emulated AWS."""

from __future__ import annotations

from msgspec import Struct


class Endpoint(Struct, frozen=True):
    """The address and the process of an emulated AWS.

    `late_s` is how long it does not find new resources.
    """

    url: str
    pid: int
    late_s: float = 0.0
