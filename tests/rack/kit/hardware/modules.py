"""modprobe, rmmod, modinfo and lsmod, by the name they are called with, on the host's own modules."""

import os
import shutil
import sys
from pathlib import Path

import state as hardware

# What comes with the kernel, as far as anything asks for it.
IN_TREE = set(
    """
    ib_core ib_uverbs ib_umad ib_ipoib ib_cm iw_cm rdma_cm rdma_ucm mlx5_core mlx5_ib nvme nvme_core raid0
    md_mod overlay br_netfilter nf_tables tcp_bbr msr bonding 8021q nfs nfsv4 fuse squashfs ipmi_devintf
    ipmi_si acpi_cpufreq vfio_pci i2c_dev
    """.split()  # noqa: SIM905 - a list of words reads better than forty strings
)
NEEDS = {
    "nvidia_uvm": ["nvidia"],
    "nvidia_modeset": ["nvidia"],
    "nvidia_drm": ["nvidia_modeset"],
    "nvidia_peermem": ["nvidia", "ib_core"],
    "gdrdrv": ["nvidia"],
    "nvidia_fs": ["nvidia"],
    "ib_ipoib": ["ib_core"],
}


def names(arguments):
    return [word.replace("-", "_") for word in arguments if not word.startswith("-")]


def modprobe(arguments):
    flags = [word for word in arguments if word.startswith("-")]
    remove = any(flag in ("-r", "--remove") for flag in flags)
    dry = any(flag in ("-n", "--dry-run", "--show") for flag in flags)
    wanted = names(arguments)[:1] if not ("-a" in flags or remove) else names(arguments)
    for name in wanted:
        if remove:
            _unload(name)
        elif not _known(name):
            if "-q" not in flags and "--quiet" not in flags:
                print(_unknown("modprobe: FATAL", name), file=sys.stderr)
            return 1
        elif not dry and not _load(name):
            print(f"modprobe: ERROR: could not insert '{name}': No such device", file=sys.stderr)
            return 1
    return 0


def _known(name):
    return name in IN_TREE or hardware.installed_module(name) is not None


def _unknown(prefix, name):
    return f"{prefix}: Module {name} not found{' in directory ' + directory() if 'FATAL' in prefix else '.'}"


def directory():
    return f"/lib/modules/{os.uname().release}"


def _load(name):
    found = hardware.load()
    if name == "nvidia":
        return hardware.load_driver(found) is not None
    if not all(_load(need) for need in NEEDS.get(name, [])):
        return False
    if hardware.loaded_module(name) is None:
        hardware.load_module(name, (hardware.installed_module(name) or {}).get("version", ""))
    return True


def _unload(name):
    folder, gone = hardware.KERNEL / "module" / name, hardware.KERNEL / f".{name}.{os.getpid()}"
    if folder.is_dir():
        folder.rename(gone)  # at once, as it is loaded
        shutil.rmtree(gone)


def rmmod(arguments):
    for name in names(arguments):
        if hardware.loaded_module(name) is None:
            print(f"rmmod: ERROR: Module {name} is not currently loaded", file=sys.stderr)
            return 1
        _unload(name)
    return 0


def lsmod(_arguments):
    print("Module                  Size  Used by")
    folder = hardware.KERNEL / "module"
    for path in sorted(folder.iterdir(), reverse=True) if folder.is_dir() else []:
        users = [user for user, needs in NEEDS.items() if path.name in needs and (folder / user).is_dir()]
        print(f"{path.name:<22} {65536:>6}  {len(users)}{' ' + ','.join(users) if users else ''}")
    return 0


def modinfo(arguments):
    wanted = None
    rest = []
    words = iter(arguments)
    for word in words:
        if word in ("-F", "--field"):
            wanted = next(words, None)
        elif word.startswith("--field="):
            wanted = word.split("=", 1)[1]
        elif word in ("-k", "-b"):
            next(words, None)
        elif not word.startswith("-"):
            rest.append(word.replace("-", "_"))
    for name in rest:
        if not _known(name):
            print(_unknown("modinfo: ERROR", name), file=sys.stderr)
            return 1
        module = hardware.installed_module(name) or {}
        fields = {
            "filename": f"{directory()}/updates/dkms/{name}.ko"
            if module
            else f"{directory()}/kernel/{name}.ko",
            "version": module.get("version", ""),
            "license": module.get("license", "GPL"),
            "depends": ",".join(NEEDS.get(name, [])),
            "name": name,
            "vermagic": f"{os.uname().release} SMP preempt mod_unload modversions",
        }
        if wanted is not None:
            if fields.get(wanted):
                print(fields[wanted])
        else:
            for key, value in fields.items():
                if value:
                    print(f"{key + ':':<15} {value}")
    return 0


if __name__ == "__main__":
    called = Path(sys.argv[1]).name
    sys.exit({"modprobe": modprobe, "rmmod": rmmod, "lsmod": lsmod, "modinfo": modinfo}[called](sys.argv[2:]))
