"""Run early at boot: the kernel finds the hardware, and loads the drivers that are installed.

/sys gets layers of the host's own above the machine's. What changes while the host runs (PCI
functions, InfiniBand ports, loaded modules) is mounted in from where it is written.
"""

import subprocess
from pathlib import Path

import modules
import state as hardware
import sysfs

FROM_HARDWARE = ("bus/pci/devices", "class/infiniband", "class/infiniband_mad", "class/infiniband_verbs")
# Settings that belong to the whole machine: a host reads and writes copies of its own.
PROC_SYS = ("vm", "kernel", "fs")


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def layer_sys(here):
    """/sys/class and /sys/bus with directories to mount the hardware on, and /sys/module."""
    for part in ("class", "bus"):
        top = here / "sys-top" / part
        for name in (*FROM_HARDWARE, "class/dmi/id"):
            if name.startswith(part):
                (here / "sys-top" / name).mkdir(parents=True, exist_ok=True)
        mount("-t", "overlay", "-o", f"ro,lowerdir={top}:/sys/{part}", "sys", f"/sys/{part}")
    topologies = (hardware.HARDWARE / "sys" / sysfs.CPUS).glob("cpu[0-9]*/topology")
    processors = [f"{sysfs.CPUS}/{path.parent.name}/topology" for path in topologies]
    for name in (*FROM_HARDWARE, "class/dmi/id", "block", *processors):
        if (hardware.HARDWARE / "sys" / name).is_dir():
            mount("--bind", hardware.HARDWARE / "sys" / name, f"/sys/{name}")
    # A container's /sys has no modules at all. It must not stay writable: systemd would take that for
    # a machine with udev, and wait for it to find the network's interfaces.
    mount("-o", "remount,bind,rw", "/sys")
    Path("/sys/module").mkdir(exist_ok=True)
    mount("-o", "remount,bind,ro", "/sys")
    mount("--bind", here / "module", "/sys/module")


def layer_proc(here):
    """Copies of the machine's kernel settings, the memory, and the drivers' part of /proc."""
    mount("--bind", hardware.HARDWARE / "proc/meminfo", "/proc/meminfo")
    for name in PROC_SYS:
        copy = here / "proc-sys" / name
        copy.parent.mkdir(exist_ok=True)
        # Some cannot be read, and files that vanish meanwhile are no fault.
        subprocess.run(["cp", "-r", f"/proc/sys/{name}", copy], stderr=subprocess.DEVNULL, check=False)
        if name == "kernel":
            mount("--rbind", "/proc/sys/kernel/random", copy / "random")
        mount("--rbind", copy, f"/proc/sys/{name}")
    (here / "proc-driver").mkdir()
    mount("--bind", here / "proc-driver", "/proc/driver")


def add_interfaces(found):
    """Network interfaces of Ethernet adapters; bridges without ports have what interfaces have."""
    for hca in found["hcas"]:
        if hca["present"] and hca["link_layer"] == "Ethernet":
            subprocess.run(["ip", "link", "add", hca["netdev"], "type", "bridge"], check=False)
            subprocess.run(["ip", "link", "set", hca["netdev"], "up"], check=False)


def apply_firmware(found):
    """What was set in an adapter's firmware takes effect with a reboot."""
    for hca in found["hcas"]:
        if hca["link_type_next"] != hca["link_layer"]:
            hca["link_layer"] = hca["link_type_next"]


def main():
    here = hardware.KERNEL
    here.mkdir(exist_ok=True)
    # As with nvidia-modprobe, anybody may make the kernel load what is installed.
    here.chmod(0o777)
    (here / "module").mkdir(exist_ok=True)
    with hardware.changing() as found:
        apply_firmware(found)
        found["kernel_log"] = [line for line in found["kernel_log"] if line.get("kept")]
        sysfs.render(found, hardware.HARDWARE / "sys")
    layer_sys(here)
    layer_proc(here)
    add_interfaces(found)
    hardware.load_driver(found)
    if any(hca["present"] for hca in found["hcas"]):
        for name in ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs"):
            hardware.load_module(name, (hardware.installed_module(name) or {}).get("version", ""))
    # systemd-modules-load does nothing where it may not load modules.
    for folder in ("/usr/lib/modules-load.d", "/etc/modules-load.d"):
        for path in sorted(Path(folder).glob("*.conf")):
            for line in path.read_text().splitlines():
                if line.strip() and line[0] not in "#;":
                    modules.modprobe(["-q", line.strip()])


if __name__ == "__main__":
    main()
