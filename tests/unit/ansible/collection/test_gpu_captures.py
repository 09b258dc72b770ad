"""Modules for GPUs, compared with what nvidia-smi printed on real GPUs."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import mig

from tests.captures import read_capture
from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
WHOLE, DIVIDED = (
    "nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt",
    "nvidia-smi/multi_h100-mig_590.48.01.txt",
)


def rows(name: str, fields: str, units: tuple[str, ...] = ()) -> str:
    """The rows that a query of these fields printed, without units."""
    _, _, text = read_capture(name).partition("nvidia-smi --query-gpu=")
    known = text.partition(" ")[0].split(",")
    lines = text.split("####\n", 1)[1].partition("\n\n")[0].splitlines()[1:]
    found = []
    for row in csv.reader(lines, skipinitialspace=True):
        values = dict(zip(known, row, strict=True))
        cells = [values[field] for field in fields.split(",")]
        for unit in units:
            cells = [cell.removesuffix(unit) for cell in cells]
        found.append(", ".join(cells))
    return "\n".join(found)


@pytest.mark.parametrize("name", [WHOLE, DIVIDED])
def test_power_limits_of_a_real_gpu_are_read(programs: Programs, name: str) -> None:
    module = load("power_cap")
    (programs.folder / "rows").write_text(rows(name, module.FIELDS, (" W",)) + "\n")
    programs.add("nvidia-smi", f"cat {programs.folder}/rows")
    (gpu,) = module.read()
    assert gpu.name == "NVIDIA H100 80GB HBM3"
    assert 0 < gpu.least < gpu.default <= gpu.most


@pytest.mark.parametrize(("name", "enabled"), [(WHOLE, False), (DIVIDED, True)])
def test_mig_mode_of_a_real_gpu_is_read(programs: Programs, name: str, enabled: bool) -> None:
    fields = "index,uuid,mig.mode.current,mig.mode.pending"
    (programs.folder / "rows").write_text(rows(name, fields) + "\n")
    programs.add("nvidia-smi", f"cat {programs.folder}/rows")
    (gpu,) = mig.gpus()
    assert (gpu["able"], gpu["enabled"]) == (True, enabled)
