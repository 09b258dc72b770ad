"""End dates of Amazon EKS's support for Kubernetes versions.

Sources: Amazon EKS User Guide, "Understand the Kubernetes version lifecycle on EKS", as copied by
endoflife.date/amazon-eks in February 2026 and by aws-samples' cluster-lifecycle guide in April 2026;
for 1.36, which has no dates yet, the change log of awslabs/amazon-eks-ami (release v20260714).
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from msgspec import Struct


class Support(Struct, frozen=True):
    """The last days of standard and of extended support; None if no source has them yet."""

    standard: dt.date | None
    extended: dt.date | None


READ_ON: Final = dt.date(2026, 7, 14)
"""The rules use this day, not today, for the list of versions: a list that is out of date must not
make an unchanged fleet fail."""

CALENDAR: Final = {
    (1, 29): Support(dt.date(2025, 3, 23), dt.date(2026, 3, 23)),
    (1, 30): Support(dt.date(2025, 7, 23), dt.date(2026, 7, 23)),
    (1, 31): Support(dt.date(2025, 11, 26), dt.date(2026, 11, 26)),
    (1, 32): Support(dt.date(2026, 3, 23), dt.date(2027, 3, 23)),
    (1, 33): Support(dt.date(2026, 7, 29), dt.date(2027, 7, 29)),
    (1, 34): Support(dt.date(2026, 12, 2), dt.date(2027, 12, 2)),
    (1, 35): Support(dt.date(2027, 3, 27), dt.date(2028, 3, 27)),
    (1, 36): Support(None, None),
}


def version_of(value: object) -> tuple[int, int] | None:
    """Parse major and minor of `1.35`; None for anything else."""
    parts = value.strip().split(".") if isinstance(value, str) else []
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 and "".join(parts).isdigit() else None


def offered() -> tuple[str, ...]:
    """Return the versions that EKS offered on `READ_ON`, oldest first."""
    return tuple(
        f"{major}.{minor}"
        for (major, minor), support in CALENDAR.items()
        if support.extended is None or support.extended >= READ_ON
    )
