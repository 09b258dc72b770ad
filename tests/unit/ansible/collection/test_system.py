"""The system of a host: five supported ones, and all others refused by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

from tests.unit.ansible.collection.conftest import Programs, load

HARDWARE = importlib.import_module("ansible_collections.gpufleet.rack.plugins.module_utils.hardware")
Run = Callable[..., dict[str, Any]]
RELEASES = {
    ("debian", "12", False): "debian_12",
    ("ubuntu", "22.04", False): "ubuntu_22_04",
    ("ubuntu", "24.04", False): "ubuntu_24_04",
    ("ubuntu", "22.04", True): "dgx_os_6",
    ("ubuntu", "24.04", True): "dgx_os_7",
}


def host(root: Path, name: str, version: str, dgx: bool = False) -> Path:
    (root / "etc").mkdir()
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text("MemTotal:       24684132 kB\nMemFree:        20000000 kB\n")
    text = f'PRETTY_NAME="{name.title()} {version}"\nID={name}\nVERSION_ID="{version}"\n# ID=other\n'
    (root / "etc/os-release").write_text(text)
    if dgx:
        (root / "etc/dgx-release").write_text('DGX_NAME="DGX Server"\n')
    return root


@pytest.mark.parametrize(("release", "system"), RELEASES.items())
def test_supported_system_has_a_name(
    release: tuple[str, str, bool], system: str, tmp_path: Path, programs: Programs
) -> None:
    programs.add("systemd-detect-virt", "exit 1")
    found = load("system").facts(host(tmp_path, *release))
    assert found == HARDWARE.hardware(tmp_path) | {
        "gpufleet_system": system,
        "gpufleet_container": False,
        "gpufleet_slurm_site": None,
        "gpufleet_cgroup": 1,
        "gpufleet_kubelet_cgroup_v1": False,
        "gpufleet_numa_nodes": 1,
        "gpufleet_gpu_numa": [],
        "gpufleet_mig": [],
    }


@pytest.mark.parametrize(
    ("name", "version", "dgx"),
    [("debian", "13", False), ("debian", "11", False), ("ubuntu", "20.04", True), ("rocky", "9.4", False)],
)
def test_unsupported_system_is_refused_with_the_supported_ones(
    name: str, version: str, dgx: bool, tmp_path: Path
) -> None:
    with pytest.raises(RefusalError) as refused:
        load("system").facts(host(tmp_path, name, version, dgx))
    reported = str(refused.value)
    assert f"{name.title()} {version}" in reported
    assert ("DGX OS 6 and 7" in reported) and ("with DGX OS;" in reported) is dgx


def test_host_without_a_system_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match="an unknown system"):
        load("system").facts(tmp_path)


def test_containers_and_cgroup_version_are_facts(tmp_path: Path, programs: Programs) -> None:
    programs.add("systemd-detect-virt", "exit 0")
    root = host(tmp_path, "debian", "12")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cgroup.controllers").touch()
    found = load("system").facts(root)
    assert found["gpufleet_container"] is True and found["gpufleet_cgroup"] == 2


def test_kubelet_that_accepts_cgroup_v1_is_a_fact(tmp_path: Path, programs: Programs) -> None:
    programs.add("systemd-detect-virt", "exit 1")
    root = host(tmp_path, "debian", "12")
    folder = root / "etc/kubernetes/kubelet.conf.d"
    folder.mkdir(parents=True)
    (folder / "50-site.conf").write_text("kind: KubeletConfiguration\nfailCgroupV1: false\n")
    assert load("system").facts(root)["gpufleet_kubelet_cgroup_v1"] is True


def test_gpus_are_listed_with_numa_nodes_in_bus_order(tmp_path: Path, programs: Programs) -> None:
    programs.add("systemd-detect-virt", "exit 1")
    root = host(tmp_path, "ubuntu", "24.04")
    for number in range(2):
        (root / f"sys/devices/system/node/node{number}").mkdir(parents=True)
    for address, vendor, kind, numa in (
        ("0000:9d:00.0", "0x10de", "0x030200", "1"),
        ("0000:1b:00.0", "0x10de", "0x030200", "0"),
        ("0000:05:00.0", "0x10de", "0x068000", "0"),  # an NVSwitch
        ("0000:03:00.0", "0x1a03", "0x030000", "0"),  # the board's own display
    ):
        device = root / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("class", kind), ("numa_node", numa)):
            (device / name).write_text(f"{text}\n")
    found = load("system").facts(root)
    assert (found["gpufleet_numa_nodes"], found["gpufleet_gpu_numa"]) == (2, [0, 1])


def test_refusal_fails_the_host_before_any_change(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("system")

    def refuse() -> None:
        raise RefusalError("not served")

    monkeypatch.setattr(module, "facts", refuse)
    answer = run(module)
    assert answer["failed"] and answer["msg"] == "not served"
    assert "ansible_facts" not in answer
