"""Traces of a spot market: prices and capacity over time, read from CSV files.

A file has a header and two columns: `time` (ISO 8601 with a zone) and `price` (USD per instance-hour) or
`nodes` (instances that can be had). Columns of `aws ec2 describe-spot-price-history` are accepted as well.
A value holds until the next time; the last row ends the trace, and its value does not count.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from gpufleet.errors import InputError

Column = Literal["price", "nodes"]

_TIMES = ("time", "timestamp")
_VALUES: dict[Column, tuple[str, ...]] = {"price": ("price", "spotprice"), "nodes": ("nodes", "capacity")}
_ZONES = ("zone", "availabilityzone")
_EXAMPLE = "2026-01-31T12:00:00Z"


class StepTrace(Struct, frozen=True):
    """Values that hold from each time to the next. `times_s` are seconds from `start`, the first is 0.

    There is one time more than there are values: the last one is the end.
    """

    start: datetime
    times_s: tuple[float, ...]
    values: tuple[float, ...]
    source: str

    @property
    def length_s(self) -> float:
        """The seconds from start to end."""
        return self.times_s[-1]

    @property
    def mean(self) -> float:
        """The mean over time."""
        spans = [after - before for before, after in zip(self.times_s, self.times_s[1:], strict=False)]
        pairs = zip(spans, self.values, strict=True)
        return math.fsum(span * value for span, value in pairs) / self.length_s

    def between(self, start: datetime, end: datetime) -> StepTrace:
        """Return the part from `start` to `end`, which must be within the trace."""
        first, last = ((moment - self.start).total_seconds() for moment in (start, end))
        times, values = [0.0], []
        for before, after, value in zip(self.times_s, self.times_s[1:], self.values, strict=False):
            if after > first and before < last:
                times.append(min(after, last) - first)
                values.append(value)
        return StepTrace(start, tuple(times), tuple(values), self.source)


def read_trace(path: Path, column: Column, *, zone: str | None = None) -> StepTrace:
    """Return the trace of a CSV file. Rows may be in any order.

    Raises InputError for a missing column, a value that cannot be read, fewer than two times, and several
    zones without `zone`: a price of one zone cannot be had in another.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = {(name or "").strip().casefold(): name for name in rows.fieldnames or ()}
            time_name = _column(names, _TIMES, path)
            value_name = _column(names, _VALUES[column], path)
            zone_name = next((names[name] for name in _ZONES if name in names), None)
            found = [
                (
                    _moment(row[time_name], path, rows.line_num),
                    _number(row[value_name], path, rows.line_num),
                    row[zone_name] if zone_name else None,
                )
                for row in rows
            ]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", remedy="check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file: {error}", remedy="write a header and rows") from None
    zones = sorted({name for _, _, name in found if name})
    if zone is not None and zone not in zones:
        raise InputError(
            f"{path} has no rows of zone {zone!r}", remedy=f"write one of {', '.join(zones) or '(none)'}"
        )
    if zone is None and len(zones) > 1:
        raise InputError(
            f"{path} has prices of {len(zones)} zones", remedy=f"choose one with --zone: {', '.join(zones)}"
        )
    kept = [(moment, value) for moment, value, name in found if zone is None or name == zone]
    return make_trace(kept, str(path))


def make_trace(points: Iterable[tuple[datetime, float]], source: str) -> StepTrace:
    """Return the trace of times and values in any order. Raises InputError for fewer than two times."""
    ordered = dict(sorted(points))
    if len(ordered) < 2:
        raise InputError(
            f"{source} has {len(ordered)} times: a trace needs at least two",
            remedy="add a row that ends the trace",
        )
    times = list(ordered)
    return StepTrace(
        start=times[0],
        times_s=tuple((moment - times[0]).total_seconds() for moment in times),
        values=tuple(ordered.values())[:-1],
        source=source,
    )


def common_part(traces: Sequence[StepTrace]) -> tuple[StepTrace, ...]:
    """Return the traces cut to the time that all of them cover. Raises InputError if there is none."""
    start = max(trace.start for trace in traces)
    ends = [trace.start.timestamp() + trace.length_s for trace in traces]
    end = datetime.fromtimestamp(min(ends), UTC)
    if end <= start:
        names = " and ".join(trace.source for trace in traces)
        raise InputError(f"{names} have no time in common", remedy="use traces of the same days")
    return tuple(trace.between(start, end) for trace in traces)


def _column(names: dict[str, str], wanted: Sequence[str], path: Path) -> str:
    for name in wanted:
        if name in names:
            return names[name]
    raise InputError(
        f"{path} has no column '{wanted[0]}'; it has {', '.join(sorted(names.values())) or 'no header'}",
        remedy=f"write a header with 'time' and '{wanted[0]}'",
    )


def _moment(text: str | None, path: Path, line: int) -> datetime:
    try:
        found = datetime.fromisoformat((text or "").strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InputError(
            f"{path}:{line}: '{text}' is not a time with a zone", remedy=f"write it as {_EXAMPLE}"
        )
    return found.astimezone(UTC)


def _number(text: str | None, path: Path, line: int) -> float:
    try:
        found = float((text or "").strip())
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found >= 0):
        raise InputError(
            f"{path}:{line}: '{text}' is not a number of at least 0",
            remedy="leave out times without a known value, and never write 0 for an unknown price",
        )
    return found
