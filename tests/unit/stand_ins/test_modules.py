"""Modules of a host's kernel, which services and commands load and unload at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.stand_ins.conftest import KIT

# Whatever is written or removed, others see a module whole or not at all.
PROGRAM = """
import pathlib, shutil, sys
sys.path.insert(0, sys.argv[1])
import modules, state
seen = set()
def looking(real):
    def call(*given, **named):
        seen.add(state.loaded_module("nvidia"))
        done = real(*given, **named)
        seen.add(state.loaded_module("nvidia"))
        return done
    return call
for name in ("mkdir", "write_text", "unlink", "rmdir", "rename"):
    setattr(pathlib.Path, name, looking(getattr(pathlib.Path, name)))
shutil.rmtree = looking(shutil.rmtree)
state.load_module("nvidia", "580.1")
state.load_module("nvidia", "580.1")
print(state.loaded_module("nvidia"), sorted(map(str, seen)))
modules._unload("nvidia")
modules._unload("nvidia")
print(state.loaded_module("nvidia"), sorted(map(str, seen)), len(list(state.KERNEL.iterdir())))
"""


def test_module_is_loaded_and_unloaded_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(KIT / "hardware")],
        env={**os.environ, "RACK_HARDWARE": str(tmp_path), "RACK_KERNEL": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["580.1 ['580.1', 'None']", "None ['580.1', 'None'] 1"]
