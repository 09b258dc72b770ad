"""NVMe disks and arrays of this host, as loop devices of the machine over files in /srv/hardware.

Started early at boot, and kept: the machine's kernel takes a loop device back as soon as nothing has
it open, so that none is left behind by a host that ends, however it ends. Arrays are files of their
own, as large as their members together: the kernel here need not know RAID.
"""

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import state as hardware

SOCKET = hardware.KERNEL / "disks"
LOOP_CTL_ADD = 0x4C80
LOOP_CONFIGURE = 0x4C0A
AUTOCLEAR = 4
LOOP_MAJOR = 7


def attach(file, name):
    """Makes /dev/<name> the contents of `file`; the descriptor that keeps it so.

    The loop device is made for it, with a number that nobody uses, and that is written down: who
    takes the rack down removes those devices and no others.
    """
    number = _new_loop()
    loop = _node(f"loop{number}", 0o060660, LOOP_MAJOR, number)
    device = os.open(loop, os.O_RDWR)
    # struct loop_config: descriptor, block size, loop_info64 with its flags, reserved words.
    info = struct.pack("<5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0, AUTOCLEAR, b"", b"", b"", 0, 0)
    with file.open("r+b", buffering=0) as backing:
        fcntl.ioctl(device, LOOP_CONFIGURE, struct.pack("<II", backing.fileno(), 512) + info + bytes(64))
    path = Path("/dev") / name
    path.unlink(missing_ok=True)
    os.mknod(path, 0o060660, os.makedev(LOOP_MAJOR, number))
    return device


def _new_loop():
    with _node("loop-control", 0o020600, 10, 237).open("r+b", buffering=0) as control:
        while True:
            number = random.randrange(1000, 2**19)
            try:
                fcntl.ioctl(control, LOOP_CTL_ADD, number)
            except FileExistsError:
                continue
            with (hardware.HARDWARE / "loops").open("a") as made:
                made.write(f"{number}\n")
            return number


def _node(name, mode, major, minor):
    path = Path("/dev") / name
    with contextlib.suppress(FileExistsError):
        os.mknod(path, mode, os.makedev(major, minor))
    return path


def image(name, size):
    """The file of a disk or array, empty when it is new; it takes no room until it is written."""
    path = hardware.HARDWARE / "disks" / name
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.touch()
        os.truncate(path, size)
    return path


def array_size(state, array):
    return sum(disk["size"] for disk in state["nvmes"] if disk.get("array") == array["uuid"])


def assemble(state, held):
    """Attaches every array whose members are all there; the others stay down, as RAID 0 does."""
    for array in state["arrays"]:
        members = [disk for disk in state["nvmes"] if disk.get("array") == array["uuid"] and disk["present"]]
        if len(members) == array["devices"] and array["device"] not in held:
            file = image(f"array-{array['uuid']}", array_size(state, array))
            held[array["device"]] = attach(file, array["device"])
            folder = Path("/dev/md")
            folder.mkdir(exist_ok=True)
            link = folder / array["name"].rpartition(":")[2]
            link.unlink(missing_ok=True)
            link.symlink_to(f"../{array['device']}")


def serve(held):
    """Assembles and stops arrays for mdadm."""
    SOCKET.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(SOCKET))
        listener.listen()
        notify("READY=1")
        while True:
            connection, _ = listener.accept()
            with connection:
                request = json.loads(connection.makefile("r").readline())
                if request["do"] == "stop" and request["device"] in held:
                    os.close(held.pop(request["device"]))
                    (Path("/dev") / request["device"]).unlink(missing_ok=True)
                else:
                    assemble(hardware.load(), held)
                connection.sendall(json.dumps(sorted(held)).encode() + b"\n")


def ask(**request):
    """A request to the process that holds the devices; the names of those it holds then."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(SOCKET))
        connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(connection.makefile("r").readline())


def notify(text):
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send(text.encode())


def mount_all():
    """Mounts what /etc/fstab says is on a disk: a container's systemd leaves such lines to its host."""
    for line in Path("/etc/fstab").read_text().splitlines() if Path("/etc/fstab").exists() else []:
        words = line.split("#")[0].split()
        if len(words) < 4 or words[2] in ("swap", "nfs", "nfs4", "lustre", "tmpfs") or "noauto" in words[3]:
            continue
        device = find_device(words[0])
        if device is not None and not os.path.ismount(words[1]):
            # As systemd does it: the place is made, and a line that fails holds nothing else up.
            Path(words[1]).mkdir(parents=True, exist_ok=True)
            # The machine's one kernel has the disks of all racks: a rack that is a copy of another has disks
            # of the same UUID, which XFS would not mount beside the first.
            options = f"{words[3]},nouuid" if words[2] == "xfs" else words[3]
            subprocess.run(["mount", "-t", words[2], "-o", options, device, words[1]], check=False)


def find_device(name):
    """The device that a line of /etc/fstab means, by path, UUID or label; None when it is not there."""
    key, equals, value = name.partition("=")
    if not equals:
        return name if name.startswith("/dev/") and Path(name).exists() else None
    for device in [*Path("/dev").glob("md[0-9]*"), *Path("/dev").glob("nvme*n1")]:
        command = ["blkid", "-p", "-o", "value", "-s", key, device]
        reported = subprocess.run(command, capture_output=True, text=True, check=False)
        if reported.stdout.strip() == value.strip('"'):
            return device
    return None


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    state = hardware.load()
    held = {}
    for disk in state["nvmes"]:
        if disk["present"]:
            held[disk["name"]] = attach(image(disk["serial"], disk["size"]), disk["name"])
    assemble(state, held)
    mount_all()
    serve(held)


if __name__ == "__main__":
    main()
