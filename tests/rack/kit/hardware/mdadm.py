"""mdadm and nvme on the disks of this host: what of them roles and administrators call."""

import json
import sys
import time
import uuid
from pathlib import Path

import disks
import state as hardware

LEVELS = {"0": "raid0", "raid0": "raid0", "stripe": "raid0", "1": "raid1", "raid1": "raid1", "10": "raid10"}
VERSION = "mdadm - v4.2 - 2021-12-30 - Debian 4.2-5"


def fail(text, code=1):
    print(f"mdadm: {text}", file=sys.stderr)
    sys.exit(code)


def find_disk(state, device):
    name = Path(device).resolve().name
    for disk in state["nvmes"]:
        if disk["name"] == name and disk["present"]:
            return disk
    fail(f"cannot open {device}: No such file or directory")
    return None


def find_array(state, device):
    name = Path(device).resolve().name
    for array in state["arrays"]:
        if name == array["device"] or Path(device).name == array["name"].rpartition(":")[2]:
            return array
    return None


def short_uuid(array):
    digits = array["uuid"].replace("-", "")
    return ":".join(digits[index : index + 8] for index in range(0, 32, 8))


def line(array, prefix="/dev/"):
    """What `--scan` prints: the arrays that run by their device, superblocks by the array's name."""
    if prefix == "examine":
        name = array["name"].rpartition(":")[2]
        return f"ARRAY /dev/md/{name}  metadata=1.2 UUID={short_uuid(array)} name={array['name']}"
    return f"ARRAY /dev/{array['device']} metadata=1.2 name={array['name']} UUID={short_uuid(array)}"


def create(words):
    options, devices, level, count, name = {}, [], None, None, None
    todo = iter(words)
    for word in todo:
        key, equals, value = word.partition("=")
        if key in ("-l", "--level"):
            level = value if equals else next(todo)
        elif key in ("-n", "--raid-devices"):
            count = int(value if equals else next(todo))
        elif key in ("-N", "--name"):
            name = value if equals else next(todo)
        elif key in ("-c", "--chunk", "-e", "--metadata", "--homehost", "--bitmap"):
            options[key] = value if equals else next(todo)
        elif not word.startswith("-"):
            devices.append(word)
    target, members = devices[0], devices[1:]
    if level not in LEVELS:
        fail(f"invalid raid level: {level}", 2)
    if len(members) != count:
        fail(f"You haven't given enough devices (real or missing): {len(members)} of {count}", 2)
    with hardware.changing() as state:
        found = [find_disk(state, member) for member in members]
        for disk in found:
            if disk.get("array"):
                fail(f"/dev/{disk['name']} appears to be part of a raid array: use --zero-superblock first")
        device = Path(target).name
        if not device.startswith("md") or target.startswith("/dev/md/"):
            name, device = name or device, f"md{127 - len(state['arrays'])}"
        host = Path("/etc/hostname").read_text().strip()
        array = {
            "uuid": str(uuid.uuid4()),
            "device": device,
            "name": f"{host}:{name or device.removeprefix('md')}",
            "level": LEVELS[level],
            "devices": count,
            "chunk": options.get("--chunk", options.get("-c", "512K")),
            "made": time.time(),
        }
        for disk in found:
            disk["array"] = array["uuid"]
        state["arrays"].append(array)
    disks.ask(do="assemble")
    print("mdadm: Defaulting to version 1.2 metadata", file=sys.stderr)
    print(f"mdadm: array {target} started.", file=sys.stderr)


def detail(words):
    state = hardware.load()
    if "--scan" in words or "-s" in words:
        for array in running(state):
            print(line(array))
        return
    devices = [word for word in words if not word.startswith("-")]
    array = find_array(state, devices[0]) if devices else None
    if array is None or array not in running(state):
        fail(f"cannot open {devices[0] if devices else ''}: No such file or directory", 4)
    members = [disk["name"] for disk in state["nvmes"] if disk.get("array") == array["uuid"]]
    if "--export" in words or "-Y" in words:
        print(f"MD_LEVEL={array['level']}\nMD_DEVICES={array['devices']}\nMD_METADATA=1.2")
        print(f"MD_UUID={short_uuid(array)}\nMD_NAME={array['name']}")
        for index, name in enumerate(members):
            print(f"MD_DEVICE_dev_{name}_ROLE={index}\nMD_DEVICE_dev_{name}_DEV=/dev/{name}")
        return
    size = disks.array_size(state, array)
    print(f"/dev/{array['device']}:")
    for key, value in {
        "Version": "1.2",
        "Creation Time": time.ctime(array["made"]),
        "Raid Level": array["level"],
        "Array Size": f"{size // 1024} ({size / 2**30:.2f} GiB {size / 1e9:.2f} GB)",
        "Raid Devices": array["devices"],
        "Total Devices": len(members),
        "Persistence": "Superblock is persistent",
        "State": "clean",
        "Active Devices": len(members),
        "Working Devices": len(members),
        "Failed Devices": 0,
        "Chunk Size": array["chunk"],
        "Name": array["name"],
        "UUID": short_uuid(array),
    }.items():
        print(f"{key:>18} : {value}")
    print("\n    Number   Major   Minor   RaidDevice State")
    for index, name in enumerate(members):
        print(f"       {index}     259        {index}        {index}      active sync   /dev/{name}")


def running(state):
    held = disks.ask(do="list")
    return [array for array in state["arrays"] if array["device"] in held]


def examine(words):
    state = hardware.load()
    if "--scan" in words or "-s" in words:
        for array in state["arrays"]:
            print(line(array, "examine"))
        return
    for device in [word for word in words if not word.startswith("-")]:
        disk = find_disk(state, device)
        array = next((item for item in state["arrays"] if item["uuid"] == disk.get("array")), None)
        if array is None:
            fail(f"No md superblock detected on {device}.")
        print(f"{device}:\n          Magic : a92b4efc\n        Version : 1.2")
        print(f"     Array UUID : {short_uuid(array)}\n           Name : {array['name']}")
        print(f"     Raid Level : {array['level']}\n   Raid Devices : {array['devices']}")


def stop(words):
    state = hardware.load()
    for device in [word for word in words if not word.startswith("-")]:
        array = find_array(state, device)
        if array is None:
            fail(f"error opening {device}: No such file or directory")
        disks.ask(do="stop", device=array["device"])
        print(f"mdadm: stopped {device}", file=sys.stderr)


def zero(words):
    with hardware.changing() as state:
        for device in [word for word in words if not word.startswith("-")]:
            disk = find_disk(state, device)
            gone = disk.pop("array", None)
            left = {item.get("array") for item in state["nvmes"]}
            state["arrays"] = [item for item in state["arrays"] if item["uuid"] != gone or gone in left]


def assemble(_words):
    disks.ask(do="assemble")


MODES = {
    ("--create", "-C"): create,
    ("--detail", "-D"): detail,
    ("--examine", "-E"): examine,
    ("--assemble", "-A"): assemble,
    ("--stop", "-S"): stop,
    ("--zero-superblock",): zero,
}


def mdadm(arguments):
    if "--version" in arguments or "-V" in arguments:
        print(VERSION, file=sys.stderr)
        return 0
    for names, mode in MODES.items():
        for name in names:
            if name in arguments:
                mode([word for word in arguments if word != name])
                return 0
    fail("An option must be given to set the mode before a second device", 2)
    return 2


def nvme(arguments):
    found = [disk for disk in hardware.load()["nvmes"] if disk["present"]]
    if arguments[:1] != ["list"]:
        print(f"Error: Invalid sub-command '{' '.join(arguments[:1])}'", file=sys.stderr)
        return 1
    if "json" in arguments:
        listed = [
            {
                "DevicePath": f"/dev/{disk['name']}",
                "ModelNumber": disk["model"],
                "SerialNumber": disk["serial"],
                "PhysicalSize": disk["size"],
                "SectorSize": 512,
                "Firmware": "EPK9CB5Q",
            }
            for disk in found
        ]
        print(json.dumps({"Devices": listed}, indent=2))
        return 0
    print(f"{'Node':<22}{'SN':<21}{'Model':<41}Namespace Usage")
    for disk in found:
        print(f"/dev/{disk['name']:<17}{disk['serial']:<21}{disk['model']:<41}1         {disk['size']} B")
    return 0


if __name__ == "__main__":
    called = Path(sys.argv[1]).name
    sys.exit({"mdadm": mdadm, "nvme": nvme}[called](sys.argv[2:]))
