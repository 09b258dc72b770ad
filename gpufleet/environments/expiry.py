"""The last day of a new environment whose name a rule takes for that of a temporary one."""

from __future__ import annotations

import datetime as dt
from fnmatch import fnmatchcase
from pathlib import Path

from gpufleet.errors import InputError
from gpufleet.policy.pack import load_rules

RULE = "temporary-environments-expire"

_BEFORE_THE_LIMIT = 2
"""Days: `check` runs later than `init`, and elsewhere on the globe."""


def last_day(root: Path, environment: str, today: dt.date) -> dt.date | None:
    """The day to write as `expires`; None for a name that is not temporary, and without the rule."""
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
