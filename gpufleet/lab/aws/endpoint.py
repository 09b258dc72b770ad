"""Where an emulated AWS answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """Where the emulated AWS answers, and the process that does.

    `late_s` is for how long it was told not to find what it has just made.
    """

    url: str
    pid: int
    late_s: float = 0.0
