"""What is plugged into this host, and what the running kernel makes of it.

`/srv/hardware/state.json` is the hardware: it outlives reboots, and tests change it while the host
runs. `/run/hardware` is the kernel's memory: loaded modules and settings, gone with a reboot.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from pathlib import Path

HARDWARE = Path(os.environ.get("RACK_HARDWARE", "/srv/hardware"))
KERNEL = Path(os.environ.get("RACK_KERNEL", "/run/hardware"))
# What packages ship as kernel modules: a JSON file each, named as the module is.
MODULES = Path("/usr/lib/hardware-modules")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
# Bytes: 16 GPUs have about 2,000.
DRIVER_VIEW = 4096


def load():
    """The hardware of this host."""
    return json.loads((HARDWARE / "state.json").read_text())


def store(state, folder=HARDWARE):
    """Writes the hardware, whole or not at all for whoever reads."""
    temporary = folder / f".state.{os.getpid()}"
    temporary.write_text(json.dumps(state, indent=1) + "\n")
    temporary.replace(folder / "state.json")
    # In place and of one size: containers have the file mounted, and would keep one that is replaced.
    file = os.open(folder / "gpus", os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(file, driver_view(state).ljust(DRIVER_VIEW, "\n").encode(), 0)
    os.close(file)


def driver_view(state):
    """The lines that the kit's NVML (../cluster/nvml.c) reads: a GPU or an NVSwitch each."""
    lines = [f"nvswitch {bus}" for bus in state["nvswitch_bus_ids"]]
    for gpu in gpus(state):
        links = sum(link["active"] << number for number, link in enumerate(gpu["nvlinks"]))
        words = [gpu["minor"], int(gpu["lost"]), gpu["uuid"], gpu["bus_id"], gpu["device_id"]]
        words += [gpu["compute_capability"], gpu["memory_mib"], gpu["memory_used_mib"], gpu["numa_node"]]
        words += [f"{links:x}", gpu["last_xid"], gpu["architecture"], gpu["name"]]
        lines.append(f"gpu {' '.join(map(str, words))}")
    return "\n".join(lines)


@contextlib.contextmanager
def changing():
    """The hardware, to be changed and written back by one process at a time."""
    with (HARDWARE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = load()
        yield state
        store(state)


def gpus(state):
    """The GPUs that the driver finds: those on the bus. `lost` ones are listed and answer nothing."""
    return [gpu for gpu in state["gpus"] if gpu["present"]]


def setting(name, default=None):
    """A setting of the running kernel or of a driver."""
    try:
        return json.loads((KERNEL / "settings.json").read_text()).get(name, default)
    except FileNotFoundError:
        return default


def change_setting(name, value):
    """Changes a setting until the next reboot."""
    KERNEL.mkdir(exist_ok=True)
    with open(KERNEL / ".lock", "w", opener=_anybodys) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = KERNEL / "settings.json"
        values = json.loads(path.read_text()) if path.exists() else {}
        values[name] = value
        path.with_suffix(".new").write_text(json.dumps(values))
        path.with_suffix(".new").replace(path)


def _anybodys(path, flags):
    descriptor = os.open(path, flags, 0o666)
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, 0o666)
    return descriptor


def installed_module(name):
    """What the installed packages ship as module `name`, or None."""
    try:
        return json.loads((MODULES / f"{name}.json").read_text())
    except FileNotFoundError:
        return None


def loaded_module(name):
    """Version of the loaded module `name` ("" where it has none), or None when it is not loaded."""
    folder = KERNEL / "module" / name
    if not folder.is_dir():
        return None
    version = folder / "version"
    return version.read_text().strip() if version.exists() else ""


def load_module(name, version=""):
    """Makes the kernel have the module, with its version where it has one.

    At once: services and commands load the same driver, and would find a module without its version.
    """
    folder = KERNEL / "module" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = KERNEL / f".{name}.{os.getpid()}"
    new.mkdir()
    for file, text in (("refcnt", "0"), ("initstate", "live"), *([("version", version)] if version else [])):
        (new / file).write_text(f"{text}\n")
    try:
        new.rename(folder)
    except OSError:  # it is loaded: another process was first
        shutil.rmtree(new)


def library_version():
    """The version of the installed management library (NVML), or None."""
    found = sorted(LIBRARIES.glob("libnvidia-ml.so.*.*"))
    return found[-1].name.removeprefix("libnvidia-ml.so.") if found else None


def load_driver(state):
    """Loads the installed driver as udev and nvidia-modprobe do: module, device files, /proc.

    Returns the version that is loaded then, or None: without a package, or without a GPU for it.
    """
    version = loaded_module("nvidia")
    if version is not None:
        return version
    module = installed_module("nvidia")
    if module is None or not gpus(state):
        return None
    _proc_entry(module)
    _proc_gpus(state)
    make_devices(state)
    # Last: another process takes a loaded module for a driver that has all its files.
    for name in ("nvidia_modeset", "nvidia_uvm", "nvidia"):
        load_module(name, module["version"])
    return module["version"]


def _proc_entry(module):
    kind = " Open" if module["open"] else ""
    folder = KERNEL / "proc-driver" / "nvidia"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "version").write_text(
        f"NVRM version: NVIDIA UNIX{kind} Kernel Module for x86_64  {module['version']}  Release Build\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n"
    )
    # With 1, the default, a hook of NVIDIA's toolkit covers this file in containers, which do not have it.
    (folder / "params").write_text("ModifyDeviceFiles: 0\nDeviceFileUID: 0\nDeviceFileGID: 0\n")


def _proc_gpus(state):
    """The number of each GPU's device file, and those of every MIG instance that there could be."""
    lines = ["config 1", "monitor 2"]
    for gpu in gpus(state):
        folder = KERNEL / "proc-driver" / "nvidia" / "gpus" / gpu["bus_id"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "information").write_text(
            f"Model: \t\t {gpu['name']}\nGPU UUID: \t {gpu['uuid']}\nDevice Minor: \t {gpu['minor']}\n"
        )
        for instance in range(15):
            first = capability(gpu["minor"], instance)
            path = f"gpu{gpu['minor']}/gi{instance}"
            lines.append(f"{path}/access {first}")
            lines += [f"{path}/ci{compute}/access {first + 1 + compute}" for compute in range(8)]
    caps = KERNEL / "proc-driver" / "nvidia-caps"
    caps.mkdir(parents=True, exist_ok=True)
    (caps / "mig-minors").write_text("\n".join(lines) + "\n")


def capability(minor, instance):
    """The number of an instance's capability file, as the driver counts them."""
    return 3 + 135 * minor + 9 * instance


def make_devices(state):
    """The device files of the driver. They are /dev/null to whoever opens them."""
    names = [f"nvidia{gpu['minor']}" for gpu in gpus(state)]
    names += ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
    if state["nvswitches"]:
        names += ["nvidia-nvswitchctl", *(f"nvidia-nvswitch{i}" for i in range(state["nvswitches"]))]
    for name in names:
        path = Path("/dev") / name
        # Two processes may load the driver at the same time.
        with contextlib.suppress(FileExistsError):
            os.mknod(path, 0o020666, os.makedev(1, 3))
            path.chmod(0o666)


def log_kernel(state, text):
    """Appends a line to the kernel's log."""
    state["kernel_log"].append({"time": time.time(), "text": text})
