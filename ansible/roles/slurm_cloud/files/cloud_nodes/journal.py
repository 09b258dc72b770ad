"""The journal of the program: what it did, one line of JSON each."""

from __future__ import annotations

import json
import sys
import syslog
from typing import Any


def log(what: str, **details: Any) -> None:
    """Write one line of JSON to the journal. Slurm starts its programs without standard error."""
    line = json.dumps({"did": what, **details}, sort_keys=True)
    if sys.stderr is None:
        syslog.syslog(line)
    else:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
