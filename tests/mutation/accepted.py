"""Mutants that nothing kills, each with the reason why nothing needs to.

A pattern that fits no surviving mutant any more is out of date, and `make mutate` says so.
"""

from __future__ import annotations

import re

ACCEPTED: dict[str, str] = {}
"""Pattern of a mutant's name without its line (`components.bucket drop ...`) -> reason."""


def reason(name: str) -> str:
    """Why a mutant may survive; nothing where no reason is on record."""
    return next((why for pattern, why in ACCEPTED.items() if re.fullmatch(pattern, name)), "")
