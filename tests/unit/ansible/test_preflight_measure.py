"""The role's module on copies of a host's /proc, /sys and /etc."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.captures import H100, H200, load_capture
from tests.loading import load_source

ROOT = Path(__file__).resolve().parents[3]
MODULE = ROOT / "ansible" / "plugins" / "modules" / "preflight_measure.py"
EFI = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load_source(MODULE, "preflight_measure")


def write(root: Path, **files: str) -> None:
    for name, value in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")


def pci(root: Path, address: str, vendor: str, device: str, kind: str, **more: str) -> Path:
    folder = root / "sys/bus/pci/devices" / address
    values = {"vendor": vendor, "device": device, "class": kind} | more
    write(folder, **values)
    return folder


@pytest.fixture
def host(tmp_path: Path) -> Path:
    write(
        tmp_path,
        **{
            "etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nID=ubuntu\nVERSION_ID="22.04"\n# comment=1',
            "etc/dgx-release": 'DGX_NAME="DGX Server"\nDGX_SWBUILD_VERSION="6.3.2"',
            "proc/meminfo": "MemTotal:  2113000000 kB\nHugePages_Total:  16\nHugepagesize:  2048 kB",
            "proc/cmdline": "BOOT_IMAGE=/vmlinuz intel_iommu=on iommu=pt quiet",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
            "sys/devices/system/cpu/online": "0-111,224-335",
            "sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
            "sys/devices/system/cpu/cpu1/topology/physical_package_id": "1",
        },
    )
    (tmp_path / "sys/class/iommu/dmar0").mkdir(parents=True)
    for path in ("var", "tmp"):
        (tmp_path / path).mkdir()
    return tmp_path


def measure(module: ModuleType, root: Path) -> dict:
    return module.measure(root, {"/": 20, "/var": "10.5", "/tmp": 1}, "10de", "15b3")


def test_healthy_host_is_measured_completely(module, host):
    pci(
        host,
        "0000:1b:00.0",
        "0x10de",
        "0x2330",
        "0x030200",
        current_link_width="16",
        max_link_width="16",
        numa_node="0",
    )
    found = measure(module, host)
    assert found["errors"] == {}
    assert found["os"] == {
        "id": "ubuntu",
        "version": "22.04",
        "name": "Ubuntu 22.04.5 LTS",
        "dgx_os": "6.3.2",
    }
    assert found["cpu"] == {"logical": 224, "sockets": 2}
    assert found["memory"] == {"total_kib": 2113000000}
    assert found["hugepages"] == {"total": 16, "size_kib": 2048, "transparent": "madvise"}
    assert found["iommu"] == {"units": 1, "arguments": ["intel_iommu=on", "iommu=pt"]}
    assert found["secure_boot"] == {"efi": False, "enabled": False}
    assert {path: disk["needed_gib"] for path, disk in found["disks"].items()} == {
        "/": 20.0,
        "/var": 10.5,
        "/tmp": 1.0,
    }
    assert all(disk["total_bytes"] >= disk["free_bytes"] > 0 for disk in found["disks"].values())
    assert isinstance(found["clock"]["synchronized"], bool)


def test_gpus_and_adapters_are_recognized(module, host):
    pci(host, "0000:1b:00.0", "0x10de", "0x2330", "0x030200", current_link_width="8", max_link_width="16")
    pci(host, "0000:1c:00.0", "0x10de", "0x22a3", "0x068000")
    pci(host, "0000:1d:00.0", "0x15b3", "0x1021", "0x020700")
    pci(host, "0000:1e:00.0", "0x15b3", "0x1021", "0x020000")
    pci(host, "0000:1f:00.0", "0x8086", "0x1592", "0x020000")
    virtual = pci(host, "0000:1d:00.2", "0x15b3", "0x101e", "0x020700")
    (virtual / "physfn").mkdir()
    found = measure(module, host)
    assert [(item["address"], item["device"]) for item in found["gpus"]] == [("0000:1b:00.0", "2330")]
    assert (found["gpus"][0]["link_width"], found["gpus"][0]["max_link_width"]) == (8, 16)
    assert [item["address"] for item in found["nics"]] == ["0000:1d:00.0", "0000:1e:00.0"]


def test_iommu_mode_of_a_gpu_comes_from_its_group(module, host):
    folder = pci(host, "0000:1b:00.0", "0x10de", "0x2330", "0x030200")
    write(folder, **{"iommu_group/type": "identity"})
    assert measure(module, host)["gpus"][0]["iommu"] == "identity"


@pytest.mark.parametrize(("value", "enabled"), [(1, True), (0, False)])
def test_secure_boot_is_the_byte_after_the_attributes(module, host, value, enabled):
    path = host / EFI
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes((6, 0, 0, 0, value)))
    assert measure(module, host)["secure_boot"] == {"efi": True, "enabled": enabled}


def test_unmounted_firmware_variables_are_a_missing_measurement(module, host):
    (host / "sys/firmware/efi/efivars").mkdir(parents=True)
    found = measure(module, host)
    assert "secure_boot" not in found
    assert "not mounted" in found["errors"]["secure_boot"]


def test_failed_probe_does_not_affect_the_others(module, host):
    (host / "etc/os-release").unlink()
    (host / "proc/meminfo").write_text("garbage")
    found = measure(module, host)
    assert set(found["errors"]) == {"os", "memory", "hugepages", "gpus", "nics"}
    assert not set(found["errors"]) & set(found)
    assert "no PCI bus" in found["errors"]["gpus"]
    assert found["cpu"]["logical"] == 224


def test_measuring_changes_no_file(module, host):
    before = sorted((path, path.stat().st_mtime_ns) for path in host.rglob("*"))
    measure(module, host)
    assert sorted((path, path.stat().st_mtime_ns) for path in host.rglob("*")) == before


@pytest.mark.parametrize(("name", "device"), [(H100, "2330"), (H200, "2335")])
def test_a_real_virtual_machine_is_measured(module, tmp_path, name, device):
    # Its kernel has no IOMMU, its firmware is not EFI, and no NUMA node is known of the GPU.
    write(
        tmp_path, **{path.lstrip("/"): text for path, text in load_capture(f"{name}/host_files.json").items()}
    )
    write(tmp_path, **{"proc/cmdline": "console=ttyS0"})
    found = measure(module, tmp_path)
    assert found["gpus"] == [
        {
            **{"address": "0000:00:06.0", "device": device, "class": "0x0302", "iommu": None},
            **{"link_width": 16, "max_link_width": 16, "numa_node": -1},
        }
    ]
    assert (found["os"]["id"], found["os"]["version"], found["os"]["dgx_os"]) == ("ubuntu", "24.04", None)
    assert (found["cpu"]["logical"], found["nics"], found["secure_boot"]["efi"]) == (16, [], False)
    assert found["memory"]["total_kib"] > 2**20 and found["iommu"]["units"] == 0
    assert set(found["errors"]) <= {"clock", "disks"}
