"""Copies of backups on the remote target."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

from gpufleet.racks.verify.measurements import Reading, RoleMeasurements, again
from gpufleet.racks.verify.result import Result

_OLDEST = dt.timedelta(days=3)
_STAMP = "%Y%m%dT%H%M%SZ"


def backup_target(found: RoleMeasurements) -> Iterator[Result]:
    """The target answers, has a copy of each source that is not too old, and only root can read its keys."""
    sources = {str(item["name"]): str(item["remote"]) for item in found.value("sources", [])}

    def copies(text: str) -> Reading:
        names = [str(item["name"]) for item in json.loads(text)]
        newest, late = [], []
        for source, remote in sources.items():
            stamps = [name.rpartition("-")[2] for name in names if name.rpartition("-")[0] == remote]
            newest.append(f"{source} {max(stamps, default='none yet')}")
            # On a new host none has been made; an alert reports copies that are never made.
            if stamps:
                age = dt.datetime.now(dt.UTC) - dt.datetime.strptime(f"{max(stamps)}+0000", f"{_STAMP}%z")
                late += [source] if age > _OLDEST else []
        return Reading(", ".join(newest), f"the newest copy of {', '.join(late)} is too old" if late else "")

    yield found.expect(
        "copies",
        "copies",
        copies,
        expected="none older than three days",
        remedy="journalctl -u 'gpufleet-backup-remote@*'",
    )

    def modes(text: str) -> Reading:
        entries = [line.split(maxsplit=2) for line in text.splitlines()]
        loose = [
            entry[2] if len(entry) > 2 else "."
            for entry in entries
            if entry[:2] not in (["0", "600"], ["0", "700"])
        ]
        return Reading(f"{len(entries)} entries", f"others can read {', '.join(loose)}" if loose else "")

    yield found.expect("keys", "modes", modes, expected="only root reads them", remedy=again(found))
