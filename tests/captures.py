"""Output that real tools printed on real hardware: parsers and stand-ins are compared with it.

Those that were made with the programs of `tests/gpu` are in `tests/captured`. The others stay where they lie,
`../shared/captures` or the folder that GPUFLEET_TEST_CAPTURES names. An INDEX.md names the source, hardware
and version of each. A test that needs one of the others is skipped where their folder is missing; a file that
neither folder has fails the test.

>>> read_capture("kernel/kmsg_boot.log")[:20]
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "GPUFLEET_TEST_CAPTURES"
ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "tests" / "captured"
H100, H200 = "h100-vm_580.159.04", "h200-vm_580.159.04"


def captures_folder() -> Path:
    """Return the folder of captures. Skip the test where there is none."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else ROOT.parent / "shared" / "captures"
    if not (folder / "INDEX.md").is_file():
        pytest.skip(f"no captures of real tools: {VARIABLE} or ../shared/captures")
    return folder


def find_capture(name: str) -> Path:
    """Return the path of a capture, `kernel/fabricmanager.log`. Fail the test where there is none."""
    own = OWN / name
    if own.is_file():
        return own
    path = captures_folder() / name
    assert path.is_file(), f"{path.parent} has no {path.name}"
    return path


def read_capture(name: str) -> str:
    """Return the text of a capture; bytes that are not UTF-8 are replaced."""
    return find_capture(name).read_text(encoding="utf-8", errors="replace")


def load_capture(name: str) -> Any:
    """Return the value of a capture that is JSON."""
    return json.loads(read_capture(name))


def section(text: str, command: str) -> str:
    """Return what one command printed, from a capture of many: its section begins with `# $ <command>`."""
    rest = text.partition(f"\n# $ {command}\n")[2].partition("\n")[2]
    return rest.partition("\n####")[0]
