"""The stack program: load, check and plan the fleet file, build its cloud half, export."""

from __future__ import annotations

from pathlib import Path

from gpufleet.stacks.program import run

run(Path(__file__).resolve().parent.parent)
