"""Writes the hardware of every host of a site: `describe.py OUT`, the site as JSON on standard input.

How many GPUs, adapters and switches a GPU node has is the catalog's word. Everything is healthy;
serial numbers, GUIDs and UUIDs follow from the host's name, so that they are the same every time.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

from gpufleet.catalog import System, load_catalog
from gpufleet.catalog.mig import mig_of

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "hardware"))

# Product name and memory (MiB) as nvidia-smi has them, PCI device, compute capability, NVLinks,
# GB/s of a link, W, MHz (SM, memory), generation of PCI Express.
MODELS = {
    "A100": ("NVIDIA A100-SXM4-80GB", 81920, "20b2", "8.0", "Ampere", 12, "25", 400, (1410, 1593), 4),
    "H100": ("NVIDIA H100 80GB HBM3", 81559, "2330", "9.0", "Hopper", 18, "26.562", 700, (1980, 2619), 5),
    "H200": ("NVIDIA H200", 143771, "2335", "9.0", "Hopper", 18, "26.562", 700, (1980, 3201), 5),
    "B200": ("NVIDIA B200", 183359, "2901", "10.0", "Blackwell", 18, "53.125", 1000, (1965, 3996), 5),
    "B300": ("NVIDIA B300 SXM6 AC", 275040, "3182", "10.3", "Blackwell", 18, "53.125", 1100, (2032, 3996), 6),
}
GPU_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
HCA_BUSES = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
SPEED_OF = {200: "HDR", 400: "NDR", 800: "XDR"}
ECC = ("dram_corrected", "dram_uncorrected", "sram_corrected", "sram_uncorrected")
NVLINK_5 = (
    *("Malformed packet Errors", "Buffer overrun Errors", "Rx Errors", "Rx remote Errors"),
    *("Rx General Errors", "Local link integrity Errors", "Tx discards"),
    *("Link recovery successful events", "Link recovery failed events", "Total link recovery events"),
)
COUNTERS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "VL15_dropped"),
    *("port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards"),
    *("port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors"),
    *("excessive_buffer_overrun_errors", "port_xmit_data", "port_rcv_data", "port_xmit_packets"),
    *("port_rcv_packets", "port_xmit_wait"),
)
HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "np_cnp_sent",
)


def main(out: Path) -> None:
    import state as hardware
    import sysfs

    site = json.load(sys.stdin)
    # Servers of a Slurm in the cloud have no system.
    system = load_catalog().system(site["system"]) if site["system"] else None
    for host in site["hosts"]:
        folder = out / host["name"]
        folder.mkdir(parents=True)
        described = describe(host, system, ethernet=site.get("fabric") == "roce")
        hardware.store(described, folder)
        sysfs.render(described, folder / "sys")


def describe(host, system, *, ethernet=False):
    """A host's hardware; controllers and login hosts have neither GPUs nor adapters."""
    gpus = range(system.gpus if host["role"] == "gpu" else 0)
    adapters = range(system.compute_nics or 0) if gpus else ()
    switches = (system.nvswitches or 0) if gpus else 0
    return {
        "board": {
            "sys_vendor": "NVIDIA",
            "product_name": _product(system.name) if gpus else "Server",
            "product_serial": host["name"],
            "bios_version": "1.4.5",
            "chassis_type": "23",
        },
        # Of controllers and login hosts nothing is known: they have the machine's.
        "processors": {"sockets": system.cpu_sockets if gpus else None},
        "memory": {"kib": system.memory_gb * 10**9 // 1024 if gpus and system.memory_gb else None},
        "gpus": [gpu(host["name"], index, system.gpu) for index in gpus],
        "nvswitches": switches,
        "nvswitch_bus_ids": [f"0000:{5 + index:02x}:00.0" for index in range(switches)],
        "hcas": [
            *[hca(host["name"], index, system, ethernet) for index in adapters],
            *[
                bridge(host["name"], number, name)
                for number, name in enumerate(system.bridges if gpus else ())
            ],
        ],
        # The first two hold the operating system.
        "nvmes": [nvme(host["name"], index) for index in range(2, 10)] if gpus else [],
        "arrays": [],
        "kernel_log": [],
    }


def _product(name: str) -> str:
    return name.replace("-", "").upper()


def nvme(host: str, index: int) -> dict:
    """One NVMe disk. Those of real systems are thousands of times as large."""
    number = uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}.nvme{index}").int % 10**10
    return {
        "name": f"nvme{index}n1",
        "present": True,
        "model": "SAMSUNG MZWLO3T8HCLS-00A07",
        "serial": f"S795NC{number:010d}",
        "size": 2**30,
    }


def gpu(host: str, index: int, model: str) -> dict:
    """One healthy GPU."""
    name, memory, device, capability, architecture, links, speed, watts, clocks, gen = MODELS[model]
    sm, memory_clock = clocks
    each = {"graphics": sm, "sm": sm, "memory": memory_clock, "video": 1545}
    return {
        "name": name,
        "minor": index,
        "present": True,
        "lost": False,
        "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{host}.gpu{index}')}",
        "serial": str(1650000000000 + uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}{index}").int % 10**9),
        "bus_id": f"0000:{GPU_BUSES[index % 8]}:{index // 8:02x}.0",
        "device_id": device,
        "architecture": architecture,
        "compute_capability": capability,
        "vbios": "96.00.89.00.01",
        "numa_node": index // 4,
        "memory_mib": memory,
        "memory_used_mib": 0,
        "memory_temperature": 40,
        "temperature": 32,
        "utilization": 0,
        "mig": False,
        "mig_held": False,
        "mig_profiles": mig_profiles(model, memory),
        "retires_pages": False,
        "recovery_action": "None",
        "last_xid": 0,
        "nvlink_gb_s": speed,
        "nvlinks": [{"active": True, "errors": nvlink_errors(architecture)} for _ in range(links)],
        "pcie": {"gen": gen, "gen_max": gen, "width": 16, "width_max": 16, "replays": 0},
        "clocks": each,
        "clocks_max": dict(each),
        "throttle": [],
        "power": {"draw": 72.5, "limit": float(watts)},
        "ecc": {
            "mode": "Enabled",
            "mode_next": "Enabled",
            "volatile": dict.fromkeys(ECC, 0),
            "aggregate": dict.fromkeys(ECC, 0),
        },
        "retired_pages": {"single_bit": 0, "double_bit": 0, "pending": False},
        "remapped_rows": {
            "correctable": 0,
            "uncorrectable": 0,
            "pending": False,
            "failure": False,
            "banks_full": 2560,
        },
    }


def nvlink_errors(architecture: str) -> dict[str, int | str]:
    """The error counters of a healthy link, as `nvidia-smi nvlink -e` prints them."""
    if architecture != "Blackwell":
        return dict.fromkeys(("Replay Errors", "Recovery Errors", "CRC Errors"), 0)
    # NVLink 5, driver 595.91.07 on p6-b300.48xlarge: bit error rates are as printed, and neither the first
    # bin of forward error correction nor the raw values of a lane are zero on a healthy link.
    return {
        **dict.fromkeys(NVLINK_5, 0),
        "Effective Errors": 0,
        "Effective BER": "15e-255",
        "Symbol Errors": 0,
        "Symbol BER": "15e-255",
        **{f"FEC Errors - {bin_}": 36_140_749_276 if bin_ == 0 else 0 for bin_ in range(16)},
        "Raw BER Lane 0": 2061,
        "Raw BER Lane 1": 1038,
        "Raw BER Total": 1037,
        "Raw Errors Lane 0": 82,
        "Raw Errors Lane 1": 4,
    }


def mig_profiles(model: str, memory_mib: int) -> list[dict]:
    """How the GPU can be divided, by the catalog's figures for its memory."""
    sizes = sorted(mig_of(model), key=lambda item: abs(item.memory_gb * 1000 - memory_mib))
    return [profile.model_dump(mode="json") for profile in sizes[0].profiles] if sizes else []


def hca(host: str, index: int, system: System, ethernet: bool) -> dict:
    """The adapter of a rail with its port up, at the system's rate, named as the catalog has it."""
    layer = "Ethernet" if ethernet else "InfiniBand"
    name = system.rails[index] if system.rails else f"mlx5_{index}"
    slot = int(HCA_BUSES[index % 8], 16)
    guid = 0xA088C20300000000 | uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}.hca{index}").int & 0xFFFFFFF0
    return {
        "name": name,
        "present": True,
        "bus_id": f"0000:{HCA_BUSES[index % 8]}:{index // 8:02x}.0",
        "netdev": f"ens{slot}f0np0" if ethernet else f"ibp{slot}s0",
        "guid": f"0x{guid:016x}",
        "description": f"{host} {name}",
        "device_id": "1021",
        "type": "MT4129",
        "bridge": False,
        "board": "MT_0000000838",
        "firmware": "28.39.1002",
        "numa_node": index // 4,
        "link_layer": layer,
        "link_type_next": layer,
        "firmware_settings": {
            "SRIOV_EN": "False(0)",
            "ATS_ENABLED": "False(0)",
            "ROCE_CC_PRIO_MASK_P1": "255",
        },
        "port": {
            "state": "Active",
            "physical_state": "LinkUp",
            "speed": SPEED_OF.get(system.fabric_gbps or 400, "NDR"),
            "lanes": 4,
            "lid": 0 if ethernet else 16 + uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}{index}lid").int % 40000,
            "sm_lid": 0 if ethernet else 1,
            "counters": dict.fromkeys(COUNTERS, 0),
            "hw_counters": dict.fromkeys(HW_COUNTERS, 0),
        },
    }


def bridge(host: str, number: int, name: str) -> dict:
    """An adapter that manages an NVSwitch (B200, B300): rate 100, in the subnet of NVLSM, one system GUID."""
    system = 0xCC40F30300000000 | uuid.uuid5(uuid.NAMESPACE_DNS, f"{host}.bridge").int & 0xFFFFFFF0
    return {
        "name": name,
        "present": True,
        "bus_id": f"0000:{0x06 + number:02x}:00.0",
        "netdev": f"ibp{0x06 + number}s0",
        "guid": f"0x{system + number:016x}",
        "system_guid": f"0x{system:016x}",
        "description": f"{host} {name}",
        "device_id": "1021",
        "type": "MT4129",
        "bridge": True,
        "board": "MT_0000000838",
        "firmware": "28.39.1002",
        "numa_node": 0,
        "link_layer": "InfiniBand",
        "link_type_next": "InfiniBand",
        "firmware_settings": {},
        "port": {
            "state": "Active",
            "physical_state": "LinkUp",
            "speed": "EDR",
            "lanes": 4,
            "lid": 1 + number,
            "sm_lid": 1,
            "counters": dict.fromkeys(COUNTERS, 0),
            "hw_counters": dict.fromkeys(HW_COUNTERS, 0),
        },
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
