#!/usr/bin/python
"""Ansible module: load the wanted driver, never while jobs run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.device_processes import (
    GPU,
    NVSM,
    SERVICES,
    device_processes,
    text,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.node_guard import take_out_of_service
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import run

DOCUMENTATION = r"""
---
module: nvidia_driver_state
short_description: Replaces the loaded NVIDIA driver with the wanted one
description:
  - C(before) checks whether the driver must change. It then drains the node, and fails while work runs on it
    (see M(gpufleet.rack.node_guard)).
  - C(load) loads the installed modules. It unloads older ones if no process uses a GPU; otherwise it reports
    that a reboot is needed.
  - C(after) checks that the wanted driver is loaded. The node stays drained until
    M(gpufleet.rack.node_guard) returns it.
  - All steps read the state of the host, so the next run completes a killed one.
options:
  stage:
    description: Step.
    type: str
    choices: [before, load, after]
    required: true
  version:
    description: Full version of the driver.
    type: str
    required: true
  branch:
    description: Required branch of the version; 0 for any.
    type: int
    default: 0
  open_modules:
    description: Whether the open kernel modules are wanted.
    type: bool
    required: true
  gpus:
    description: Expected GPUs of the host; fewer raise a warning, none is an error. 0 checks nothing.
    type: int
    default: 0
  drain_timeout_s:
    description: Seconds that C(before) waits for running work after draining the node.
    type: int
    default: 0
  blacklisted:
    description: Whether the run wrote the blacklist of nouveau, for check mode.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Load the driver
  gpufleet.rack.nvidia_driver_state:
    stage: load
    version: 580.159.03
    open_modules: true
"""

RETURN = r"""
settled:
  description: Whether the wanted driver is installed and loaded, and nothing else is needed.
  type: bool
  returned: stage is before
drained:
  description: Whether the guard drained the node, also in check mode.
  type: bool
  returned: stage is before
loaded:
  description: Loaded version, empty without one.
  type: str
  returned: always
reboot_required:
  description: Whether a reboot is needed to load the wanted driver.
  type: bool
  returned: stage is load
reason:
  description: Reason.
  type: str
  returned: stage is load
"""

BLACKLIST = "/etc/modprobe.d/gpufleet-nouveau.conf"
# Dependent modules first: the order for unloading.
MODULES = ("nvidia_fs", "gdrdrv", "nvidia_peermem", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia")
MONITOR = f"{NVSM[0]}.service"
GPU_CLASSES = ("0x0300", "0x0302")


class DriverError(Exception):
    """Value, rule and remedy in one text."""


class DriverHost:
    """Host access of this module."""

    def __init__(self, root="/"):
        self.root = Path(root)

    def loaded(self, module="nvidia"):
        """Whether a module is loaded, and its version if it has one."""
        folder = self.root / "sys/module" / module
        return folder.is_dir(), text(folder / "version")

    def loaded_driver(self):
        """Version and type (open or not) of the loaded driver; empty and None without one."""
        there, version = self.loaded()
        if not there:
            return "", None
        return version, "Open Kernel Module" in text(self.root / "proc/driver/nvidia/version")

    def installed_driver(self):
        """Version and type of the installed module; empty and None without one."""
        code, version = run("modinfo", "-F", "version", "nvidia")
        if code:
            return "", None
        return version, "MIT" in run("modinfo", "-F", "license", "nvidia")[1]

    def gpus(self):
        """Number of GPUs on the PCI bus."""
        found = 0
        for device in self.root.glob("sys/bus/pci/devices/*"):
            if text(device / "vendor") == "0x10de" and text(device / "class")[:6] in GPU_CLASSES:
                found += not (device / "physfn").exists()
        return found

    def initramfs(self):
        """The initramfs of the running kernel."""
        return self.root / f"boot/initrd.img-{os.uname().release}"

    def initramfs_old(self):
        """Whether the initramfs is older than the blacklist, and may load nouveau."""
        blacklist = self.root / BLACKLIST.lstrip("/")
        try:
            return self.initramfs().stat().st_mtime < blacklist.stat().st_mtime
        except OSError:
            return False


def of_branch(version, branch):
    """Refuse a version of another branch: package names and pins depend on it."""
    if branch and version.split(".")[0] != str(branch):
        raise DriverError(
            f"nvidia_driver_version is {version} and nvidia_driver_branch {branch}: the branch is the first "
            "number of the version. Correct the software channel of the fleet file; nothing was changed."
        )


def before(host, wanted, drain_timeout_s, check):
    """Whether the driver must change; if so, no work runs here afterwards."""
    loaded, installed = host.loaded_driver(), host.installed_driver()
    there = loaded[0] or installed[0]
    right = loaded == wanted == installed and host.loaded("nvidia_uvm")[0]
    result = {
        "changed": False,
        "loaded": loaded[0],
        "settled": right and not host.initramfs_old(),
        "drained": False,
    }
    if right or not there:
        return result
    change = f"the driver changes from {there} to {wanted[0]}"
    taken = take_out_of_service(change, check=check, wait_s=drain_timeout_s)
    return result | {"changed": bool(taken.diff), "drained": taken.drained, "diff": taken.diff}


def named(driver):
    """A driver in readable form."""
    version, is_open = driver
    return f"{version} ({'open' if is_open else 'closed'})" if version else "none"


def load(host, wanted, expected_gpus, blacklisted, check, warn):
    """Load the wanted driver, or report that a reboot is needed."""
    gpus = host.gpus()
    if not gpus:
        raise DriverError(
            "No NVIDIA GPU is on the PCI bus of this host: no driver can be loaded. See `lspci -d 10de:`; "
            "check the power and seating of the GPUs, or take the host out of the fleet file's GPU nodes."
        )
    if gpus < expected_gpus:
        warn(f"{gpus} of {expected_gpus} GPUs are on the PCI bus; the health check judges that")
    loaded, installed = host.loaded_driver(), host.installed_driver()
    if not check and installed != wanted:
        raise DriverError(
            f"The kernel {os.uname().release} would load the NVIDIA module {named(installed)} and not "
            f"{named(wanted)}: DKMS did not build it. See `dkms status` and "
            f"/var/lib/dkms/nvidia/{wanted[0]}/build/make.log on the host."
        )
    answer = {"changed": False, "loaded": loaded[0], "reboot_required": False, "reason": ""}
    answer["diff"] = {"before": f"{named(loaded)}\n", "after": f"{named(wanted)}\n"}
    old_image = host.initramfs_old() or (check and blacklisted and host.initramfs().exists())
    if old_image and not check:
        code, output = run("update-initramfs", "-u", "-k", os.uname().release)
        if code:
            raise DriverError(f"update-initramfs failed: {output[-300:]}. Fix the cause and run again.")
    if loaded == wanted and host.loaded("nvidia_uvm")[0]:
        return answer | {"changed": old_image}
    answer["changed"] = True
    if host.loaded("nouveau")[0]:
        return answer | {
            "reboot_required": True,
            "reason": "the kernel has loaded nouveau, which holds the GPUs",
        }
    if loaded[0] and loaded != wanted:
        holders = device_processes(GPU, root=host.root)
        if holders:
            why = f"the driver {loaded[0]} is loaded and in use by {', '.join(holders[:5])}"
            return answer | {"reboot_required": True, "reason": why}
        if not check:
            # Roles start the driver's own services again; no role has this one.
            monitored = run("systemctl", "is-active", "--quiet", MONITOR)[0] == 0
            why = unload(host)
            if why:
                return answer | {"reboot_required": True, "reason": why}
            insert(host)
            if monitored:
                run("systemctl", "start", MONITOR)
            return answer
    if not check:
        insert(host)
    return answer


def unload(host):
    """Unload the driver; the reason on failure."""
    for unit in (MONITOR, *(f"{service}.service" for service in SERVICES)):
        run("systemctl", "stop", unit)
    for module in MODULES:
        if host.loaded(module)[0]:
            code, output = run("modprobe", "-r", module)
            if code and host.loaded(module)[0]:
                return f"{module} cannot be unloaded: {output}"
    return ""


def insert(host):
    """Load the driver."""
    for module in ("nvidia", "nvidia_uvm"):
        code, output = run("modprobe", module)
        if code:
            hint = (
                "Secure Boot refuses unsigned modules: enrol DKMS' key (mokutil --import "
                "/var/lib/dkms/mok.pub) or turn Secure Boot off."
                if "rejected" in output
                else "See `dmesg | grep -e NVRM -e nvidia` on the host."
            )
            raise DriverError(f"The kernel did not load {module}: {output}. {hint}")


def after(host, wanted, check):
    """Check that the wanted driver is loaded."""
    loaded = host.loaded_driver()
    if not check and loaded != wanted:
        raise DriverError(
            f"The driver {named(loaded)} is loaded and {named(wanted)} is wanted, after all was done. "
            "See `dmesg | grep -e NVRM -e nvidia` on the host."
        )
    return {"changed": False, "loaded": loaded[0]}


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "stage": {"type": "str", "choices": ["before", "load", "after"], "required": True},
            "version": {"type": "str", "required": True},
            "branch": {"type": "int", "default": 0},
            "open_modules": {"type": "bool", "required": True},
            "gpus": {"type": "int", "default": 0},
            "drain_timeout_s": {"type": "int", "default": 0},
            "blacklisted": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given, check, host = module.params, module.check_mode, DriverHost()
    wanted = (given["version"], given["open_modules"])
    try:
        of_branch(given["version"], given["branch"])
        if given["stage"] == "before":
            result = before(host, wanted, given["drain_timeout_s"], check)
        elif given["stage"] == "load":
            result = load(host, wanted, given["gpus"], given["blacklisted"], check, module.warn)
        else:
            result = after(host, wanted, check)
    except (DriverError, RefusalError, OSError, subprocess.SubprocessError) as error:
        module.fail_json(msg=str(error))
    if result.get("reason"):
        result["diff"]["after"] += f"after a reboot: {result['reason']}\n"
    module.exit_json(**result)


if __name__ == "__main__":
    main()
