"""Modules for GPUs, compared with what nvidia-smi printed on real GPUs."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils import mig

from gpufleet.catalog.mig import mig_of
from tests.captures import H100, H200, find_capture, read_capture
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


@pytest.mark.parametrize("name", [H100, H200])
def test_power_limits_and_mig_mode_of_driver_580_are_read(programs: Programs, name: str) -> None:
    folder = find_capture(f"{name}/L.txt").parent
    programs.add("nvidia-smi", f"case $1 in *power*) cat {folder}/query-power_cap.csv;; "
                 f"*) cat {folder}/query-mig.csv;; esac")  # fmt: skip
    (gpu,) = load("power_cap").read()
    assert (gpu.least, gpu.limit, gpu.most) == (200.0, 700.0, 700.0)
    (found,) = mig.gpus()
    assert (found["able"], found["enabled"], found["pending"]) == (True, False, False)


@pytest.mark.parametrize(("name", "gpu", "memory_gb"), [(H100, "H100", 80), (H200, "H200", 141)])
def test_the_catalog_has_the_profiles_and_places_of_the_real_gpu(
    programs: Programs, name: str, gpu: str, memory_gb: int
) -> None:
    programs.add("nvidia-smi", f"cat {find_capture(f'{name}/mig-lgip.txt')}")
    (known,) = (each.profiles for each in mig_of(gpu) if each.memory_gb == memory_gb)
    assert mig.profiles("0") == {each.name: each.id for each in known}
    lines = read_capture(f"{name}/mig-lgipp.txt").splitlines()
    places = {}
    for line in lines:
        found = re.fullmatch(r"GPU +0 Profile ID +(\d+) Placements? ?: \{([\d,]+)\}:(\d+)", line)
        assert found, line
        places[int(found[1])] = (tuple(map(int, found[2].split(","))), int(found[3]))
    assert places == {each.id: (tuple(each.starts), each.memory_slices) for each in known}
    most = re.findall(r"MIG (\S+) .* \d+/(\d+) ", read_capture(f"{name}/mig-lgip.txt"))
    assert dict(most) == {each.name: str(each.most) for each in known}


@pytest.mark.parametrize("name", [H100, H200])
def test_a_gpu_outside_mig_mode_has_no_instances(programs: Programs, name: str) -> None:
    folder = find_capture(f"{name}/L.txt").parent
    programs.add(
        "nvidia-smi", f'case "$*" in *-lci) cat {folder}/mig-lci.txt;; *) cat {folder}/mig-lgi.txt;; esac'
    )
    assert mig.instances("0") == []
