"""Packages that every host of a rack has from the start."""

from __future__ import annotations

import re
from pathlib import Path

from gpufleet.lab.rack import base

ROLES = Path(__file__).resolve().parents[4] / "ansible" / "roles"


def test_no_role_lists_a_package_that_is_installed_before_it_runs() -> None:
    """Its installation would be proven by nothing."""
    files = [path for part in ("defaults", "tasks", "vars") for path in ROLES.glob(f"*/{part}/**/*.yml")]
    words = {word for path in files for word in re.findall(r"[a-z0-9][a-z0-9.+-]+", path.read_text())}
    assert {"mariadb-server", "mdadm", "slurmd"} <= words
    assert set(base._LIBRARIES.split()) & words == set()
