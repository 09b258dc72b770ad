"""Programs that the stack program asks for before it builds clusters of a real account."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of PATH with Session Manager's plugin, the AWS CLI and gpufleet."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("session-manager-plugin", "aws", "gpufleet"):
        (folder / name).write_text("#!/bin/sh\necho 1.2.650.0\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), "/usr/bin", "/bin"]))
    return folder
