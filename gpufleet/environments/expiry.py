"""The expiry date of a new environment whose name a rule considers temporary."""

from __future__ import annotations

import datetime as dt
from fnmatch import fnmatchcase
from pathlib import Path

from gpufleet.errors import InputError
from gpufleet.policy.pack import load_rules

RULE = "temporary-environments-expire"

_BEFORE_THE_LIMIT = 2
"""Margin in days: `check` runs later than `init`, and possibly in another time zone."""


def last_day(root: Path, environment: str, today: dt.date) -> dt.date | None:
    """Return the date for `expires`; None for a name that is not temporary, and without the rule."""
    try:
        rules = {rule.name: rule for rule in load_rules(root)}
    except InputError:
        return None
    if RULE not in rules:
        return None
    settings = rules[RULE].settings()
    if not any(fnmatchcase(environment, pattern) for pattern in settings.names):
        return None
    return today + dt.timedelta(days=max(1, settings.max_days - _BEFORE_THE_LIMIT))
