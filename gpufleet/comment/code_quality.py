"""GitLab's Code Quality report of a verdict: `python3 -m gpufleet.comment.code_quality verdict.json`.

GitLab shows it in the merge request, at the line of the fleet file. The fields are those of its documentation
(description, check_name, fingerprint, severity, location). Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SEVERITIES = {"mandatory": "critical", "advisory": "minor"}
"""Effect of a violation -> GitLab's severity. Exempted violations are not reported."""


def code_quality(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the report of a verdict from `gpufleet check --json-file`; empty without violations."""
    return list(_entries(verdict))


def _entries(verdict: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    environment = verdict["environment"]
    for rule in verdict["rules"]:
        for number, violation in enumerate(rule["violations"]):
            severity = SEVERITIES.get(violation["effect"])
            if severity is None:
                continue
            # The fingerprint of a violation does not depend on lines and figures.
            same = [environment, rule["name"], violation["resource"], violation.get("property", ""), number]
            yield {
                "description": f"{environment}: {violation['message']}",
                "check_name": rule["name"],
                "fingerprint": hashlib.sha256(json.dumps(same).encode()).hexdigest(),
                "severity": severity,
                "location": {
                    "path": violation["file"] or verdict["fleet_file"],
                    "lines": {"begin": violation["line"] or 1},
                },
            }


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    json.dump(code_quality(json.loads(text)), sys.stdout, indent=1)
    sys.stdout.write("\n")
