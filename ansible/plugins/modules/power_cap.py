#!/usr/bin/python
"""The power limit of all GPUs of a host, within their own limits."""

from __future__ import annotations

DOCUMENTATION = r"""
module: power_cap
short_description: Limits the power of each GPU
description:
  - Reads the limits of every GPU with nvidia-smi, refuses a value outside one of them before any
    change, sets those that differ, and reads them again.
  - The limit lasts until the driver is unloaded; a unit sets it again after a boot.
options:
  watts:
    description: Limit of each GPU in W; 0 is the default of the GPU.
    type: int
    required: true
  only_check:
    description: Whether to check only, without changes.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Limit the power
  gpufleet.rack.power_cap:
    watts: 500
"""

RETURN = r"""
limits:
  description: Limit in W by GPU index, also in check mode.
  type: dict
  returned: always
"""

import subprocess
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

FIELDS = "index,name,power.limit,power.default_limit,power.min_limit,power.max_limit"
# nvidia-smi shows hundredths of a watt, and GPUs may round.
TOLERANCE_W = 1.0
# nvidia-smi's exit code where an InfoROM is corrupt: what it prints and does is right (nvidia-smi(1)).
INFOROM_CORRUPT = 14


class Gpu(NamedTuple):
    """A GPU with its limits in W."""

    index: str
    name: str
    limit: float
    default: float
    least: float
    most: float


def smi(*words: str) -> str:
    """The output of nvidia-smi; raises on failure."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words], capture_output=True, text=True, check=False, timeout=120
        )
    except FileNotFoundError as error:
        raise RefusalError(
            "nvidia-smi is not installed: `gpufleet configure` installs the driver."
        ) from error
    if done.returncode not in (0, INFOROM_CORRUPT):
        text = " ".join((done.stdout + done.stderr).split())[:300]
        raise RefusalError(f"nvidia-smi {words[0]} ended with code {done.returncode}: {text}.")
    return done.stdout


def read() -> list[Gpu]:
    """All GPUs. Raises if limits cannot be read."""
    found = []
    for line in smi(f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits").splitlines():
        index, *words = [word.strip() for word in line.split(",")]
        # Below the rows come warnings, as of a corrupt InfoROM.
        if not index.isdigit() or not words:
            continue
        name, *limits = words
        try:
            found.append(Gpu(index, name, *(float(limit) for limit in limits)))
        except (ValueError, TypeError) as error:
            raise RefusalError(
                f"GPU {index} ({name}) does not tell its power limits ({', '.join(limits)}): it cannot be "
                "capped. Nothing was changed."
            ) from error
    if not found:
        raise RefusalError("nvidia-smi shows no GPU. Nothing was changed.")
    return found


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change."""
    watts, gpus = params["watts"], read()
    for gpu in gpus:
        if watts and not gpu.least <= watts <= gpu.most:
            raise RefusalError(
                f"{watts} W is not within what GPU {gpu.index} ({gpu.name}) allows: {gpu.least:g} to "
                f"{gpu.most:g} W, by default {gpu.default:g} W. Nothing was changed."
            )
    wanted = {gpu.index: float(watts or gpu.default) for gpu in gpus}
    differ = [gpu for gpu in gpus if abs(gpu.limit - wanted[gpu.index]) > TOLERANCE_W]
    result = {
        "changed": bool(differ) and not params["only_check"],
        "limits": wanted,
        "diff": [
            difference(f"GPU {gpu.index}", f"{gpu.limit:g} W\n", f"{wanted[gpu.index]:g} W\n")
            for gpu in differ
        ],
    }
    if check or params["only_check"]:
        return result
    for gpu in differ:
        smi("-i", gpu.index, "-pl", f"{wanted[gpu.index]:g}")
    for gpu in read():
        if abs(gpu.limit - wanted[gpu.index]) > TOLERANCE_W:
            raise RefusalError(
                f"GPU {gpu.index} has a limit of {gpu.limit:g} W after it was set to "
                f"{wanted[gpu.index]:g} W. See `nvidia-smi -q -d POWER`."
            )
    return result


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "watts": {"type": "int", "required": True},
            "only_check": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
