"""GitLab's Code Quality report of a verdict: `python3 -m gpufleet.comment.code_quality verdict.json`.

GitLab shows it in the merge request, at the line of the fleet file. The fields are those of its documentation
(description, check_name, fingerprint, severity, location). The verdict may be forged: texts are made visible
and bounded, names and places have a fixed form. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpufleet.errors import ExitCode, InputError
from gpufleet.visible import visible_line

SEVERITIES = {"mandatory": "critical", "advisory": "minor"}
"""Effect of a violation -> GitLab's severity. Exempted violations are not reported."""

MOST_BYTES = 16 * 1024 * 1024
MOST_ENTRIES = 5_000
_LONGEST = 1_000
_RULE = re.compile(r"[a-z0-9][a-z0-9-]{0,98}")
_PATH = re.compile(r"(?!/)(?!.*(?:^|/)\.\.(?:/|$))[^\x00-\x1f\x7f\\]{1,300}")


def code_quality(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the report of a verdict from `gpufleet check --json-file`; empty without violations.

    Raises InputError for a document that is not a verdict.
    """
    try:
        found = list(_entries(verdict))
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            "this is not the verdict of `gpufleet check --json-file`", remedy="pass the file of the check"
        ) from None
    if len(found) > MOST_ENTRIES:
        raise InputError(
            f"the verdict has {len(found):,} violations, more than {MOST_ENTRIES:,}", remedy="see its log"
        )
    return found


def _entries(verdict: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    environment = _text(verdict["environment"])
    for rule in verdict["rules"]:
        for number, violation in enumerate(rule["violations"]):
            severity = SEVERITIES.get(violation["effect"])
            if severity is None:
                continue
            name, line = rule["name"], violation["line"]
            if not _RULE.fullmatch(name):
                raise TypeError(name)
            # The fingerprint of a violation does not depend on lines and figures.
            same = [environment, name, violation["resource"], violation.get("property", ""), number]
            yield {
                "description": _text(f"{environment}: {violation['message']}"),
                "check_name": name,
                "fingerprint": hashlib.sha256(json.dumps(same).encode()).hexdigest(),
                "severity": severity,
                "location": {
                    "path": _place(violation["file"] or verdict["fleet_file"]),
                    "lines": {"begin": line if type(line) is int and line > 0 else 1},
                },
            }


def _text(text: str) -> str:
    return visible_line(text.strip())[:_LONGEST]


def _place(path: str) -> str:
    """Return a path in the repository; another one cannot be shown at its line."""
    if not _PATH.fullmatch(path):
        raise TypeError(path)
    return path


def main(arguments: list[str]) -> int:
    """Print the report of the file. Return the exit code of `gpufleet.errors.ExitCode`."""
    try:
        with Path(arguments[0]).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{arguments[0]} has more than {MOST_BYTES:,} bytes")
        report = code_quality(json.loads(content))
    except (OSError, ValueError, RecursionError) as error:
        sys.stderr.write(f"error: {arguments[0]}: {error}\n")
        return int(ExitCode.BAD_INPUT)
    except InputError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return int(error.exit_code)
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
