"""The hardware as /sys and /proc show it, as files below folders `sys` and `proc`.

The processors are the machine's, in as many sockets as the hardware has. Files are written in place,
since hosts have the folders mounted while they run.
"""

import shutil
import struct
from pathlib import Path

RATES = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
STATES = {"Down": "1: DOWN", "Initializing": "2: INIT", "Armed": "3: ARMED", "Active": "4: ACTIVE"}
CPUS = "devices/system/cpu"
PHYSICAL = {"LinkUp": "5: LinkUp", "Polling": "2: Polling", "Disabled": "3: Disabled"}
SPEEDS = {
    1: "2.5 GT/s PCIe",
    2: "5.0 GT/s PCIe",
    3: "8.0 GT/s PCIe",
    4: "16.0 GT/s PCIe",
    5: "32.0 GT/s PCIe",
}


def render(state, folder):
    """Writes the tree of `state` into `folder`; what is no longer plugged in goes."""
    _devices(folder / "bus/pci/devices", state)
    _infiniband(folder / "class/infiniband", state)
    _write(folder / "class/infiniband_mad/abi_version", "5")
    _write(folder / "class/infiniband_verbs/abi_version", "6")
    _blocks(folder / "block", state)
    _processors(folder / CPUS, state["processors"]["sockets"])
    _memory(folder.parent / "proc/meminfo", state["memory"]["kib"])
    board = folder / "class/dmi/id"
    for name, value in state["board"].items():
        _write(board / name, value)


def _processors(folder, sockets):
    """The machine's processors, whole cores in each socket: with fewer cores there are fewer sockets."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for topology in sorted(Path("/sys", CPUS).glob("cpu[0-9]*/topology")):
        files = {path.name: path.read_text().strip() for path in topology.iterdir()}
        found[int(topology.parent.name.removeprefix("cpu"))] = files
    if not sockets:
        return
    cores = list(dict.fromkeys(found[number]["thread_siblings"] for number in sorted(found)))
    place = {core: index * min(sockets, len(cores)) // len(cores) for index, core in enumerate(cores)}
    socket_of = {number: place[files["thread_siblings"]] for number, files in found.items()}
    for number, files in found.items():
        near = [other for other in sorted(found) if socket_of[other] == socket_of[number]]
        files["physical_package_id"] = str(socket_of[number])
        for name in ("core_siblings", "package_cpus", "die_cpus"):
            if name in files:
                files[name] = _mask(near, files[name])
                files[f"{name}_list"] = ",".join(map(str, near))
        for name, value in files.items():
            _write(folder / f"cpu{number}" / "topology" / name, value)


def _mask(numbers, like):
    """Numbers as the kernel writes a mask: as many groups of 32 bits as in `like`."""
    value = sum(1 << number for number in numbers)
    groups = [value >> 32 * index & 0xFFFFFFFF for index in reversed(range(like.count(",") + 1))]
    if len(groups) == 1:
        return f"{groups[0]:0{len(like)}x}"
    return ",".join(f"{group:08x}" for group in groups)


def _memory(path, kib):
    """The machine's /proc/meminfo with the hardware's memory; the difference is free."""
    lines = []
    found = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    more = kib - int(found[0][1]) if kib else 0
    for name, value, *unit in found:
        if name in ("MemTotal:", "MemFree:", "MemAvailable:"):
            value = max(int(value) + more, 0)
        lines.append(f"{name:<16}{value:>12}{' kB' if unit else ''}")
    _write(path, "\n".join(lines))


def _blocks(folder, state):
    disks = {disk["name"]: disk for disk in state["nvmes"] if disk["present"]}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in disks:
            shutil.rmtree(old)
    for name, disk in disks.items():
        values = {
            "size": str(disk["size"] // 512),
            "removable": "0",
            "ro": "0",
            "queue/rotational": "0",
            "queue/logical_block_size": "512",
            "queue/physical_block_size": "4096",
            "queue/scheduler": "[none] mq-deadline",
            "device/model": disk["model"],
            "device/serial": disk["serial"],
            "device/transport": "pcie",
        }
        for file, value in values.items():
            _write(folder / name / file, value)


def _devices(folder, state):
    functions = {gpu["bus_id"]: _gpu(gpu) for gpu in state["gpus"] if gpu["present"]}
    functions |= {hca["bus_id"]: _hca(hca) for hca in state["hcas"] if hca["present"]}
    functions |= {bus: _function("0x10de", "0x22a3", "0x068000", 2, 2) for bus in state["nvswitch_bus_ids"]}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in functions:
            shutil.rmtree(old)
    for bus_id, files in functions.items():
        for name, value in files.items():
            _write(folder / bus_id / name, value)
        (folder / bus_id / "config").write_bytes(_config(files))
    for hca in state["hcas"]:
        if hca["present"] and hca.get("bridge"):
            # Of its vital product data only the field that says what it is for.
            (folder / hca["bus_id"] / "vpd").write_bytes(b"\x90\x0e\x00V3\x0bSMDL=SW_MNG")


def _gpu(gpu):
    pcie = gpu["pcie"]
    return _function("0x10de", f"0x{gpu['device_id']}", "0x030200", pcie["gen"], pcie["gen_max"]) | {
        "current_link_width": str(pcie["width"]),
        "max_link_width": str(pcie["width_max"]),
        "numa_node": str(gpu["numa_node"]),
    }


def _hca(hca):
    kind = "0x020700" if hca["link_layer"] == "InfiniBand" else "0x020000"
    files = _function("0x15b3", f"0x{hca['device_id']}", kind, 5, 5) | {"numa_node": str(hca["numa_node"])}
    if hca["link_layer"] == "Ethernet":
        files[f"net/{hca['netdev']}/dev_port"] = "0"
    return files


def _function(vendor, device, kind, gen, gen_max):
    return {
        "vendor": vendor,
        "device": device,
        "subsystem_vendor": vendor,
        "subsystem_device": "0x0000",
        "class": kind,
        "revision": "0xa1",
        "irq": "0",
        "enable": "1",
        "current_link_speed": SPEEDS[gen],
        "max_link_speed": SPEEDS[gen_max],
        "current_link_width": "16",
        "max_link_width": "16",
        "numa_node": "0",
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7),
    }


def _config(files):
    """The first 256 bytes of a function's configuration space, with a PCI Express capability."""
    space = bytearray(256)
    kind = int(files["class"], 16)
    struct.pack_into("<HHHH", space, 0, int(files["vendor"], 16), int(files["device"], 16), 0x0406, 0x0010)
    struct.pack_into("<BBBB", space, 8, int(files["revision"], 16), kind & 0xFF, kind >> 8 & 0xFF, kind >> 16)
    space[0x34] = 0x60
    speeds = {text: number for number, text in SPEEDS.items()}
    link_can = speeds[files["max_link_speed"]] | int(files["max_link_width"]) << 4
    link_does = speeds[files["current_link_speed"]] | int(files["current_link_width"]) << 4
    # Capability 0x10 (PCI Express), endpoint, version 2; then device and link capabilities.
    struct.pack_into("<BBHIHH", space, 0x60, 0x10, 0, 0x0002, 0, 0, 0)
    struct.pack_into("<IHH", space, 0x60 + 0x0C, link_can, 0, link_does)
    return bytes(space)


def _infiniband(folder, state):
    present = {hca["name"]: hca for hca in state["hcas"] if hca["present"]}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in present:
            shutil.rmtree(old)
    for name, hca in present.items():
        here = folder / name
        guid = hca["guid"]
        _write(here / "node_type", "1: CA")
        _write(here / "node_desc", hca["description"])
        _write(here / "node_guid", _colons(guid))
        _write(here / "sys_image_guid", _colons(hca.get("system_guid", guid)))
        _write(here / "fw_ver", hca["firmware"])
        _write(here / "hca_type", hca["type"])
        _write(here / "board_id", hca["board"])
        _write(here / "hw_rev", "0")
        link = here / "device"
        if not link.is_symlink():
            link.symlink_to(f"/sys/bus/pci/devices/{hca['bus_id']}")
        _port(here / "ports/1", hca, guid)


def _port(folder, hca, guid):
    port = hca["port"]
    lanes, speed = port["lanes"], port["speed"]
    rate = lanes * RATES[speed]
    values = {
        "state": STATES[port["state"]],
        "phys_state": PHYSICAL[port["physical_state"]],
        "rate": f"{rate:g} Gb/sec ({lanes}X {speed})",
        "lid": f"0x{port['lid']:x}",
        "sm_lid": f"0x{port['sm_lid']:x}",
        "lid_mask_count": "0",
        "sm_sl": "0",
        "cap_mask": "0xa751e848" if hca["link_layer"] == "InfiniBand" else "0x00010000",
        "link_layer": hca["link_layer"],
        "has_smi": "1",
        "gids/0": "fe80:0000:0000:0000:" + _colons(guid),
        "pkeys/0": "0xffff",
    }
    for name, value in values.items():
        _write(folder / name, value)
    for name, value in port["counters"].items():
        _write(folder / "counters" / name, str(value))
    for name, value in port["hw_counters"].items():
        _write(folder / "hw_counters" / name, str(value))


def _colons(guid):
    digits = f"{int(guid, 16):016x}"
    return ":".join(digits[index : index + 4] for index in range(0, 16, 4))


def _write(path, text):
    text += "\n"
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
