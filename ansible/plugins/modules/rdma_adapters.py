#!/usr/bin/python
"""RDMA adapters: kernel modules, port types in firmware, and persistent names."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_adapters
short_description: Configures RDMA adapters for a fabric
description:
  - Loads missing kernel modules, unless the installed driver differs from the loaded one; its
    modules do not match then, and the next boot loads them.
  - Sets LINK_TYPE in the firmware of adapters whose ports would start with the other type. It takes effect
    at the next reboot, which this module only reports, from the state of the host
    and not from the changes of this run.
  - Writes udev rules that bind device names to bus addresses. While a device is missing the rules
    do not change, so that other devices keep their names.
  - Changes only named adapters; without names, all, if their number matches that of the fabric. Others
    may belong to the host network.
options:
  link_layer:
    description: Port type.
    type: str
    choices: [InfiniBand, Ethernet]
    required: true
  devices:
    description: RDMA devices of the fabric by rail, as C(mlx5_0); empty for no binding.
    type: list
    elements: str
    default: []
  count:
    description: Number of fabric adapters of the host; 0 if unknown.
    type: int
    default: 0
  load:
    description: Kernel modules to load.
    type: list
    elements: str
    default: []
  driver_changes:
    description: Whether the run installs or removes a driver before this task, for check mode.
    type: bool
    default: false
  rules:
    description: Path of the udev rules.
    type: path
    default: /etc/udev/rules.d/60-rdma-persistent-naming.rules
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Configure the adapters
  gpufleet.rack.rdma_adapters:
    link_layer: InfiniBand
    devices: [mlx5_0, mlx5_1]
    load: [ib_umad]
"""

RETURN = r"""
ports:
  description: For each adapter its device, bus address, port type now and after a reboot, and
    whether it belongs to the fabric.
  type: list
  returned: always
reboot_reasons:
  description: Reason for a reboot; empty if none is needed.
  type: list
  returned: always
notes:
  description: Adapters that were not changed, with the reason.
  type: list
  returned: always
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.rdma_hardware import (
    ETHERNET,
    INFINIBAND,
    NUMBERS,
    Adapter,
    firmware_tool,
    query_next,
    read_adapters,
    run,
    set_kind,
    text_of,
)


def ours(adapters: list[Adapter], devices: list[str], count: int) -> list[Adapter]:
    """The adapters of the fabric."""
    if devices:
        return [adapter for adapter in adapters if adapter.device in devices]
    return adapters if count and len(adapters) == count else []


def notes_of(
    adapters: list[Adapter], fabric: list[Adapter], devices: list[str], kind: str, count: int
) -> list[str]:
    """Warnings about missing or unchanged adapters."""
    notes = [
        f"{name} is not there" for name in devices if name not in [adapter.device for adapter in adapters]
    ]
    others = [str(adapter) for adapter in adapters if adapter.kind != kind]
    if not devices and not fabric and others:
        notes.append(
            f"{', '.join(others)}: not {kind}, and left as they are, since {len(adapters)} adapters are "
            f"there and {count or 'an unknown number'} belong to the fabric; name its devices "
            "(`rails`) to have them set"
        )
    elif not devices and count > len(adapters):
        notes.append(f"{len(adapters)} adapters are there, and the fabric has {count}")
    return notes


def apply_kinds(fabric: list[Adapter], kind: str, check: bool) -> tuple[list[str], dict[str, str]]:
    """Set the types of ports that would start with the other one: diff lines, and types after a reboot."""
    tool = firmware_tool()
    if tool is None:
        # Before the stack is installed, only the current type is known.
        if not check and any(adapter.kind != kind for adapter in fabric):
            raise RefusalError(
                f"{', '.join(str(a) for a in fabric if a.kind != kind)} should be {kind}, and neither "
                "mlxconfig nor mstconfig is installed. Install the package mft or mstflint."
            )
        return [f"{a}: {kind} from the next boot" for a in fabric if a.kind != kind], {}
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda adapter: query_next(tool, adapter), fabric))
    lines, after = [], {}
    for adapter, number in zip(fabric, numbers, strict=True):
        if number == NUMBERS[kind] or (number is None and adapter.kind == kind):
            after[adapter.bus] = kind
            continue
        lines.append(f"{adapter}: {kind} from the next boot")
        if not check:
            set_kind(tool, adapter, kind)
        after[adapter.bus] = kind
    return lines, after


def render_rules(adapters: list[Adapter], devices: list[str]) -> str:
    """udev rules, instead of the packaged ones that rename all devices by bus address."""
    lines = ["# Written by gpufleet (role rdma): these devices keep their names when others are plugged in."]
    for adapter in sorted(adapters):
        if adapter.device in devices:
            lines.append(
                f'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="{adapter.bus}", '
                f'PROGRAM="/usr/lib/gpufleet/rdma-name {adapter.bus} {adapter.device}"'
            )
    return "\n".join(lines) + "\n"


def apply_rules(
    path: Path, adapters: list[Adapter], devices: list[str], check: bool
) -> tuple[str, str] | None:
    """Write the rules if they differ; old and new text."""
    if not devices or any(name not in [adapter.device for adapter in adapters] for name in devices):
        return None
    new = render_rules(adapters, devices)
    old = path.read_text() if path.exists() else ""
    if old == new:
        return None
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".gpufleet")
        temporary.write_text(new)
        temporary.chmod(0o644)
        temporary.replace(path)
    return old, new


def not_loaded(names: list[str], root: Path, release: str) -> list[str]:
    """Modules that are neither loaded nor built in."""
    built_in = text_of(root / "lib/modules" / release / "modules.builtin")
    inside = {Path(line).name.removesuffix(".ko").replace("-", "_") for line in built_in.splitlines()}
    return [
        name
        for name in names
        if not (root / "sys/module" / name.replace("-", "_")).is_dir()
        and name.replace("-", "_") not in inside
    ]


def load(names: list[str]) -> None:
    """Load modules; raises with the output of modprobe."""
    for name in names:
        done = run("modprobe", name)
        if done.returncode:
            raise RefusalError(
                f"The kernel did not load {name}: {done.stderr.strip()} It comes with the kernel "
                "(linux-modules-extra) or with DOCA-OFED, which has to be built for the "
                "running kernel (see `dkms status`)."
            )


def driver_reason(root: Path) -> str | None:
    """Why the running driver is not the installed one; None if it is."""
    if not (root / "sys/module/mlx5_core").is_dir():
        return None
    loaded = text_of(root / "sys/module/mlx5_core/version")
    done = run("modinfo", "-F", "version", "mlx5_core")
    installed = done.stdout.strip()
    if done.returncode or installed == loaded:
        return None
    return (
        f"mlx5_core {loaded or 'of the kernel'} is loaded, {installed or 'that of the kernel'} is installed"
    )


def work(parameters: dict[str, Any], check: bool, root: Path = Path("/")) -> dict[str, Any]:
    """Read, compare, change; the result for Ansible."""
    kind, devices, count = parameters["link_layer"], parameters["devices"], parameters["count"]
    adapters = read_adapters(root)
    fabric = ours(adapters, devices, count)
    driver = driver_reason(root)
    in_use = (root / "sys/module/mlx5_core").is_dir()
    waits = driver is not None or (in_use and parameters["driver_changes"])
    missing = [] if waits else not_loaded(parameters["load"], root, os.uname().release)
    if not check:
        load(missing)
    lines, after = apply_kinds(fabric, kind, check)
    rules = apply_rules(Path(parameters["rules"]), adapters, devices, check)
    reasons = [f"{a} is {a.kind} and {kind} after a reboot" for a in fabric if a.kind != kind]
    lines = [f"{name}: loaded" for name in missing] + lines
    diffs = [difference("adapters", "", "".join(f"{line}\n" for line in lines))] if lines else []
    diffs += [difference(parameters["rules"], *rules)] if rules else []
    return {
        "changed": bool(diffs),
        "ports": [
            {
                "device": adapter.device,
                "bus": adapter.bus,
                "link_layer": adapter.kind,
                "after_reboot": after.get(adapter.bus, adapter.kind),
                "fabric": adapter in fabric,
            }
            for adapter in adapters
        ],
        "reboot_reasons": reasons + ([driver] if driver else []),
        "notes": notes_of(adapters, fabric, devices, kind, count),
        "diff": diffs,
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "link_layer": {"type": "str", "choices": [INFINIBAND, ETHERNET], "required": True},
            "devices": {"type": "list", "elements": "str", "default": []},
            "count": {"type": "int", "default": 0},
            "load": {"type": "list", "elements": "str", "default": []},
            "driver_changes": {"type": "bool", "default": False},
            "rules": {"type": "path", "default": "/etc/udev/rules.d/60-rdma-persistent-naming.rules"},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
