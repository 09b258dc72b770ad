"""The stand-ins on a real host: output as of the vendors' tools, and faults visible everywhere."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.catalog import load_catalog
from tests.rack.lab import Lab

RAILS = load_catalog().system("dgx-h100").rails
DRIVER = "580.159.03"
PARTS = (
    *("nvidia-open", "nvidia-driver", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "nvidia-smi"),
    *("libnvidia-ml1", "libcuda1", "nvidia-persistenced", "nvidia-modprobe"),
)
APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -qq install -y --allow-downgrades"


def driver(version: str) -> str:
    """Every package of the driver in one version, as a pin would have it."""
    return " ".join(f"{part}={version}-1" for part in PARTS)


@pytest.fixture(scope="module")
def gpu_host(rack: Lab) -> Iterator[Lab]:
    """dgx01 with the driver, Fabric Manager, DCGM and DOCA-OFED of the lock."""
    rack.add_vendor_repository("dgx01")
    rack.sh(
        "dgx01",
        f"{APT} {driver(DRIVER)} nvidia-fabricmanager={DRIVER}-1 datacenter-gpu-manager-4-cuda13 doca-ofed "
        "pciutils infiniband-diags >/dev/null; systemctl start nvidia-fabricmanager nvidia-dcgm",
    )
    yield rack
    rack.reset("dgx01")


@pytest.fixture
def host(gpu_host: Lab) -> Iterator[Lab]:
    """The same; its hardware is repaired after the test."""
    yield gpu_host
    gpu_host.hardware("dgx01").restore(gpu_host.healthy["dgx01"])


def smi(host: Lab, fields: str, code: int | None = 0) -> list[list[str]]:
    reported = host.sh("dgx01", f"nvidia-smi --query-gpu={fields} --format=csv,noheader,nounits", code=code)
    return [line.split(", ") for line in reported.splitlines()]


def test_healthy_node_matches_the_catalog_entry_of_its_system(host: Lab) -> None:
    rows = smi(host, "index,name,memory.total,driver_version,pcie.link.width.current,ecc.mode.current")
    assert rows == [[str(i), "NVIDIA H100 80GB HBM3", "81559", DRIVER, "16", "Enabled"] for i in range(8)]

    listed = host.sh("dgx01", "nvidia-smi -L").splitlines()
    assert len(listed) == 8
    assert listed[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    # Debian's own tools, on the host's /sys.
    devices = host.sh("dgx01", "lspci -Dn -d 10de:").splitlines()
    assert sum("0302: 10de:2330" in line for line in devices) == 8
    assert sum("0680: 10de:22a3" in line for line in devices) == 4
    assert host.sh("dgx01", "ibstat -l").split() == sorted(RAILS)
    assert host.sh("dgx01", "ibstat mlx5_0 1").count("Rate: 400") == 1
    assert "ls: " not in host.sh("dgx01", "ls /dev/nvidia[0-7] /dev/nvidiactl /dev/nvidia-uvm")


def test_units_and_headers_match_the_real_tool(host: Lab) -> None:
    reported = host.sh("dgx01", "nvidia-smi -i 0 --query-gpu=name,memory.total,power.draw --format=csv")
    assert reported == "name, memory.total [MiB], power.draw [W]\nNVIDIA H100 80GB HBM3, 81559 MiB, 72.50 W\n"
    wrong = host.sh("dgx01", "nvidia-smi --query-gpu=colour --format=csv || echo code $?")
    assert 'Field "colour" is not a valid field to query.' in wrong
    assert wrong.endswith("code 2\n")


def test_xml_log_has_the_elements_that_parsers_read(host: Lab) -> None:
    host.hardware("dgx01").ecc(2, kind="sram_uncorrected", count=3)
    log = ElementTree.fromstring(host.sh("dgx01", "nvidia-smi -q -x"))
    assert log.findtext("attached_gpus") == "8"
    assert log.findtext("driver_version") == DRIVER
    gpus = log.findall("gpu")
    assert [gpu.findtext("ecc_errors/volatile/sram_uncorrectable_secded") for gpu in gpus[1:4]] == [
        "0",
        "3",
        "0",
    ]
    assert {gpu.findtext("fabric/state") for gpu in gpus} == {"Completed"}
    assert {gpu.findtext("remapped_rows/remapped_row_failure") for gpu in gpus} == {"No"}


def test_missing_gpu_is_missing_from_the_bus_and_the_driver(host: Lab) -> None:
    host.hardware("dgx01").remove_gpu(3)
    assert len(smi(host, "index")) == 7
    assert len(host.sh("dgx01", "lspci -d 10de:2330").splitlines()) == 7


def test_xid_79_is_logged_and_the_gpu_does_not_answer(host: Lab) -> None:
    assert "Xid" not in host.sh("dgx01", "dmesg")
    host.hardware("dgx01").xid(79, gpu=5)

    assert "NVRM: Xid (PCI:0000:c3:00): 79" in host.sh("dgx01", "dmesg")
    reported = host.sh("dgx01", "nvidia-smi --query-gpu=index --format=csv || echo code $?")
    assert (
        reported
        == "Unable to determine the device handle for GPU5: 00000000:C3:00.0: Unknown Error\ncode 15\n"
    )
    assert host.sh("dgx01", "nvidia-smi -L").count("GPU-") == 7


def test_degraded_links_clocks_and_memory_are_visible_to_checks(host: Lab) -> None:
    hardware = host.hardware("dgx01")
    hardware.pcie_width(0, 8)
    hardware.throttle(1, "hw_thermal_slowdown")
    hardware.remap(2, pending=True, uncorrectable=1)
    hardware.nvlink(4, 17, active=False)

    rows = smi(host, "pcie.link.width.current,clocks_event_reasons.active,remapped_rows.pending,clocks.sm")
    assert rows[0] == ["8", "0x0000000000000000", "No", "1980"]
    assert rows[1] == ["16", "0x0000000000000040", "No", "990"]
    assert rows[2] == ["16", "0x0000000000000000", "Yes", "1980"]
    links = host.sh("dgx01", "nvidia-smi nvlink -s -i 4").splitlines()
    assert links[-1] == "\t Link 17: <inactive>"
    assert links[-2] == "\t Link 16: 26.562 GB/s"
    assert "LnkSta:\tSpeed 32GT/s, Width x8" in host.sh("dgx01", "lspci -vv -s 1b:00.0 2>/dev/null")
    unwatched = host.sh("dgx01", "dcgmi health -c || echo code $?")
    assert unwatched.startswith("Error: Health watches not enabled.")
    assert unwatched.endswith("code 253\n")
    host.sh("dgx01", "dcgmi health -s a")
    health = host.sh("dgx01", "dcgmi health -c")
    assert "Failure" in health
    assert "GPU 4's NvLink link 17 is currently down" in health
    assert "| Overall Health            | Failure " in health


def test_port_at_half_rate_and_its_errors_are_visible_in_debian_tools(host: Lab) -> None:
    hardware = host.hardware("dgx01")
    hardware.port(2, speed="HDR")
    hardware.port_counters(2, symbol_error=12)
    hardware.port(6, state="Down", physical_state="Polling")

    assert "Rate: 200" in host.sh("dgx01", "ibstat mlx5_4 1")
    assert "rate:\t\t 200 Gb/sec (4X HDR)" in host.sh("dgx01", "ibstatus mlx5_4:1")
    assert "State: Down\nPhysical state: Polling" in host.sh("dgx01", "ibstat mlx5_10 1").replace("\t", "")
    assert "SymbolErrorCounter:................12" in host.sh("dgx01", "perfquery -C mlx5_4 1")


def test_link_type_set_in_firmware_needs_a_reboot(host: Lab) -> None:
    query = "mlxconfig -d mlx5_11 q LINK_TYPE_P1"
    assert "IB(1)" in host.sh("dgx01", query)
    host.sh("dgx01", "mlxconfig -y -d mlx5_11 set LINK_TYPE_P1=2")
    assert "ETH(2)" in host.sh("dgx01", query)
    assert host.sh("dgx01", "cat /sys/class/infiniband/mlx5_11/ports/1/link_layer") == "InfiniBand\n"
    host.rack.stop("dgx01")
    host.rack.start("dgx01")
    assert host.sh("dgx01", "cat /sys/class/infiniband/mlx5_11/ports/1/link_layer") == "Ethernet\n"
    host.sh("dgx01", "systemctl start nvidia-fabricmanager nvidia-dcgm")


def test_upgraded_driver_needs_a_reboot_and_the_same_fabric_manager_version(host: Lab) -> None:
    host.sh("dgx01", f"{APT} {driver('580.126.20')} >/dev/null")
    reported = host.sh("dgx01", "nvidia-smi || echo code $?")
    assert reported.splitlines()[0] == "Failed to initialize NVML: Driver/library version mismatch"
    assert reported.endswith("code 18\n")
    assert (
        host.sh("dgx01", "cat /sys/module/nvidia/version; modinfo -F version nvidia")
        == f"{DRIVER}\n580.126.20\n"
    )

    host.rack.stop("dgx01")
    host.rack.start("dgx01")
    assert smi(host, "driver_version")[0] == ["580.126.20"]
    host.sh("dgx01", "systemctl start nvidia-fabricmanager; sleep 0.5")
    assert host.sh("dgx01", "systemctl is-active nvidia-fabricmanager || true") == "failed\n"
    assert "don't match with driver version 580.126.20" in host.sh("dgx01", "cat /var/log/fabricmanager.log")
    assert smi(host, "fabric.state")[0] == ["In Progress"]


def test_host_without_gpus_has_no_gpu_tools(rack: Lab) -> None:
    assert rack.sh("ctl01", "ls /sys/bus/pci/devices /sys/class/infiniband").split() == [
        "/sys/bus/pci/devices:",
        "/sys/class/infiniband:",
    ]
    assert "No such file" in rack.sh("ctl01", "ls /dev/nvidia0 2>&1 || true")
    assert json.loads(rack.sh("ctl01", "cat /srv/hardware/state.json"))["gpus"] == []


def test_kernel_settings_of_a_host_are_its_own(rack: Lab) -> None:
    machine = Path("/proc/sys/vm/swappiness").read_text()
    rack.sh("dgx02", "sysctl -qw vm.swappiness=3")
    assert rack.sh("dgx02", "sysctl -n vm.swappiness") == "3\n"
    assert rack.sh("dgx03", "sysctl -n vm.swappiness") == machine
    assert Path("/proc/sys/vm/swappiness").read_text() == machine


def test_disks_become_an_array_that_survives_a_reboot(clean_rack: Lab) -> None:
    disks = [f"/dev/nvme{index}n1" for index in range(2, 10)]
    listed = json.loads(clean_rack.sh("dgx04", "nvme list -o json"))["Devices"]
    assert [disk["DevicePath"] for disk in listed] == disks
    assert clean_rack.sh("dgx04", "ls /sys/block").split() == [Path(disk).name for disk in disks]
    members = " ".join(disks)
    assert "No md superblock" in clean_rack.sh("dgx04", f"mdadm --examine {disks[0]} 2>&1", code=None)
    clean_rack.sh(
        "dgx04",
        f"apt-get -qq update; {APT} mdadm xfsprogs >/dev/null 2>&1; "
        f"mdadm --create /dev/md0 --level=0 --raid-devices=8 {members}; mkfs.xfs -q /dev/md0; "
        "mkdir /scratch; "
        "echo '/dev/md0 /scratch xfs defaults,nofail 0 0' >>/etc/fstab; mount /scratch; "
        "echo kept >/scratch/file",
    )
    assert clean_rack.sh("dgx04", "df -B1G --output=size /scratch").split()[-1] == "8"
    assert "Raid Level : raid0" in clean_rack.sh("dgx04", "mdadm --detail /dev/md0")
    assert clean_rack.sh("dgx04", "mdadm --detail --scan").startswith(
        "ARRAY /dev/md0 metadata=1.2 name=dgx04:0"
    )

    clean_rack.rack.stop("dgx04")
    clean_rack.rack.start("dgx04")
    assert clean_rack.sh("dgx04", "cat /scratch/file; systemctl is-system-running") == "kept\nrunning\n"

    clean_rack.rack.stop("dgx04")
    with clean_rack.hardware("dgx04").changing() as state:
        state["nvmes"][3]["present"] = False
    clean_rack.rack.start("dgx04")
    assert "test" not in clean_rack.sh("dgx04", "test ! -e /dev/md0; test ! -e /dev/nvme5n1; ls /scratch")


def test_file_systems_of_servers_are_mounted_while_the_server_answers(clean_rack: Lab) -> None:
    clean_rack.sh("dgx04", f"apt-get -qq update; {APT} nfs-common >/dev/null 2>&1; mkdir /home2")
    clean_rack.sh(
        "dgx04", "mount -t nfs nas01:/export/home /home2 -o vers=4.2; echo x >/home2/x; umount /home2"
    )
    assert clean_rack.sh("dgx04", "mount -t nfs4 nas01:/export/home /home2; cat /home2/x") == "x\n"
    with clean_rack.hardware("dgx04").changing() as state:
        state["unreachable"] = ["nas01"]
    reported = clean_rack.sh(
        "dgx04", "umount /home2; mount -t nfs nas01:/export/home /home2 2>&1 || echo code $?"
    )
    assert reported == "mount.nfs: Connection timed out\ncode 32\n"


def test_munge_reports_a_wrong_clock(clean_rack: Lab) -> None:
    key = "0" * 64
    for host in ("dgx02", "dgx03"):
        clean_rack.sh(
            host,
            f"apt-get -qq update; {APT} munge libfaketime >/dev/null; printf {key} >/etc/munge/munge.key; "
            "systemctl restart munge",
        )
    credential = clean_rack.sh("dgx02", "munge -n").strip()
    assert "Success" in clean_rack.sh("dgx03", f"unmunge <<<'{credential}'")

    clean_rack.hardware("dgx03").clock_offset(3600)
    clean_rack.sh("dgx03", "systemctl restart munge")
    credential = clean_rack.sh("dgx02", "munge -n").strip()
    assert "Expired credential" in clean_rack.sh("dgx03", f"unmunge <<<'{credential}' 2>&1", code=None)
