"""`nvidia-smi nvlink` of the rack's hardware prints what real nvidia-smi prints."""

from __future__ import annotations

import re

import pytest

from tests.captures import read_capture, section

from .conftest import Host


def shapes(text: str) -> set[str]:
    """The kinds of lines, without names, numbers and white space."""
    without_names = re.sub(r"^GPU (\d+): .*$", r"GPU \1: NAME", text, flags=re.MULTILINE)
    return {
        re.sub(r"[\d.]+", "N", line.strip()).lower() for line in without_names.splitlines() if line.strip()
    }


@pytest.mark.parametrize("host", ["dgx-a100", "dgx-h100"], indirect=True)
def test_healthy_links_are_printed_as_by_the_real_tool(host: Host) -> None:
    real = read_capture("nvidia-smi/nvlink-s_a100_8gpu.txt")
    assert shapes(host.run("nvidia_smi", "nvlink", "-s").stdout) == shapes(real)
    h100 = section(read_capture("nvidia-smi/multi_h100-80gb-hbm3_590.48.01.txt"), "nvidia-smi nvlink -s")
    assert shapes(h100) == shapes(real)


def test_a_gpu_without_links_and_single_dead_ones_are_printed_as_by_the_real_tool(host: Host) -> None:
    for link in host.hardware["gpus"][6]["nvlinks"]:
        link["active"] = False
    dead = host.run("nvidia_smi", "nvlink", "-s", "-i", "6").stdout
    assert shapes(dead) == shapes(read_capture("nvidia-smi/nvlink-s_a100_all-inactive.txt"))
    host.hardware["gpus"][3]["nvlinks"][2]["active"] = False
    single = host.run("nvidia_smi", "nvlink", "-s", "-i", "3").stdout
    assert shapes(single) == shapes(read_capture("nvidia-smi/nvlink-s_v100_single-links-inactive.txt"))


def test_a_gpu_in_mig_mode_is_printed_as_by_the_real_tool(host: Host) -> None:
    host.hardware["gpus"][0]["mig"] = True
    real = section(read_capture("nvidia-smi/multi_h100-mig_590.48.01.txt"), "nvidia-smi nvlink -s")
    assert shapes(host.run("nvidia_smi", "nvlink", "-s", "-i", "0").stdout) == shapes(real)


@pytest.mark.parametrize("host", ["dgx-b200", "dgx-b300"], indirect=True)
def test_the_fifth_generation_has_its_own_counters_and_bit_error_rates(host: Host) -> None:
    text = host.run("nvidia_smi", "nvlink", "-e", "-i", "0").stdout
    assert "\t Link 17: Effective BER: 15e-255\n" in text
    assert "Total link recovery events: 0\n" in text and "Replay Errors" not in text
