"""The stand-ins of a rack's hardware, run on a folder: what they print is compared with captures."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import load_catalog

KIT = Path(__file__).resolve().parents[2] / "rack" / "kit"
sys.path.insert(0, str(KIT))

describe = importlib.import_module("describe")

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import state
state.load_driver = lambda _: "580.159.03"
state.library_version = lambda: "580.159.03"
module = __import__(sys.argv[2])
sys.exit(module.main(sys.argv[3:]))
"""

FIELDS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import smi_fields, state
state.loaded_module = lambda _: "580.159.03"
found = state.load()
print(json.dumps(smi_fields.fields(state.gpus(found)[0], 0, found)))
"""


class Host:
    """A GPU node of a system type. Tests change `hardware`; `run` calls a stand-in on it."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder = folder
        self.hardware: dict[str, Any] = describe.describe(
            {"name": "dgx01", "role": "gpu"}, load_catalog().system(system)
        )

    def fields(self) -> dict[str, tuple[str, str]]:
        """Each field that nvidia-smi knows of the first GPU: its value and unit."""
        return {name: tuple(each) for name, each in json.loads(self._python(FIELDS).stdout).items()}

    def run(self, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._python(RUN, module, *arguments)

    def _python(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "state.json").write_text(json.dumps(self.hardware))
        return subprocess.run(
            [sys.executable, "-c", program, str(KIT / "hardware"), *arguments],
            env={**os.environ, "RACK_HARDWARE": str(self.folder), "RACK_KERNEL": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Host:
    return Host(tmp_path, getattr(request, "param", "dgx-h100"))
