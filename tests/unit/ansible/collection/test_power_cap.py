"""Power limits: limits of GPUs, differences, and a check of all GPUs before the first change."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def module() -> ModuleType:
    return load("power_cap")


@pytest.fixture
def gpus(programs: Programs) -> Programs:
    """Two H100, of which the second was capped by hand."""
    for index, limit in (("0", "700.00"), ("1", "550.00")):
        (programs.folder / f"limit{index}").write_text(limit)
    programs.add(
        "nvidia-smi",
        f'case "$1" in -i) echo "$4.00" >{programs.folder}/limit$2;; *) for i in 0 1; do '
        f"echo $i, NVIDIA H100 80GB HBM3, $(cat {programs.folder}/limit$i), 700.00, 200.00, 700.00; "
        "done;; esac",
    )
    return programs


def sets(programs: Programs) -> list[str]:
    return [line for line in programs.called("nvidia-smi") if "-pl" in line]


def test_only_differing_gpus_are_set_and_a_second_run_changes_nothing(
    module: ModuleType, run: Run, gpus: Programs
) -> None:
    assert run(module, check=True, watts=550)["changed"] is True
    assert run(module, watts=550, only_check=True)["changed"] is False
    assert sets(gpus) == []
    assert run(module, watts=550)["limits"] == {"0": 550.0, "1": 550.0}
    assert sets(gpus) == ["nvidia-smi -i 0 -pl 550"]
    assert run(module, watts=550)["changed"] is False


def test_zero_restores_the_default(module: ModuleType, run: Run, gpus: Programs) -> None:
    assert run(module, watts=0)["changed"] is True
    assert sets(gpus) == ["nvidia-smi -i 1 -pl 700"]


@pytest.mark.parametrize("watts", [199, 701])
def test_value_outside_the_limits_of_a_gpu_is_refused_with_its_limits(
    module: ModuleType, run: Run, gpus: Programs, watts: int
) -> None:
    failed = run(module, watts=watts)
    assert f"{watts} W is not within what GPU 0 (NVIDIA H100 80GB HBM3) allows: 200 to 700 W" in failed["msg"]
    assert sets(gpus) == []


def test_gpu_without_limits_or_that_ignores_them_is_an_error(
    module: ModuleType, run: Run, programs: Programs
) -> None:
    programs.add("nvidia-smi", "echo 0, GPU, '[N/A], [N/A], [N/A], [N/A]'")
    assert "does not tell its power limits" in run(module, watts=500)["msg"]
    programs.add("nvidia-smi", '[ "$1" = -i ] || echo 0, GPU, 700.00, 700.00, 200.00, 700.00')
    assert "has a limit of 700 W after it was set to 500 W" in run(module, watts=500)["msg"]
    programs.add("nvidia-smi", "echo NVIDIA-SMI has failed; exit 9")
    assert "ended with code 9" in run(module, watts=500)["msg"]


def test_a_corrupt_inforom_does_not_keep_gpus_from_being_capped(
    module: ModuleType, run: Run, gpus: Programs
) -> None:
    program = gpus.folder / "nvidia-smi"
    warning = "echo 'WARNING: infoROM is corrupted at gpu 0000:3B:00.0'; exit 14"
    program.write_text(f"{program.read_text().rstrip()}\n{warning}\n")
    assert run(module, watts=550)["limits"] == {"0": 550.0, "1": 550.0}
    assert sets(gpus) == ["nvidia-smi -i 0 -pl 550"]
