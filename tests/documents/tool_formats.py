"""docs/reference/tool_formats.md: which output of which tool was compared with a genuine capture.

A capture counts where a test reads it (tests/captures.py). Add it to `FORMATS` together with the test.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

_HEADER = """# Formats of tools

Which output of hardware tools gpufleet reads, and with which captures from real hardware the parser is
compared. The captures are the files of `../shared/captures`, whose INDEX.md names source, hardware and
version. What is not compared follows the vendor's documentation or source code; an output that it misreads
is a defect: report it with the output.

The racks in tests print these formats as well (`tests/rack/kit/hardware`).

This page is written by `make docs`; a test keeps it current.
"""


class ToolFormat(NamedTuple):
    """One output of one tool. `read_by` is a path below the repository's root.

    `captures` are genuine captures that a test compares the reader with; `not_compared` says what no genuine
    capture covers, "" for nothing.
    """

    output: str
    read_by: str
    captures: tuple[str, ...] = ()
    not_compared: str = ""


_HEALTH = "ansible/roles/health_check/files/health"
_UTILS = "ansible/plugins/module_utils"
_MODULES = "ansible/plugins/modules"

# Sections in the order of the page.
FORMATS: dict[str, tuple[ToolFormat, ...]] = {
    "GPUs": (
        ToolFormat("`nvidia-smi --query-gpu`", f"{_HEALTH}/gpus.py", (), "everything"),
        ToolFormat("`nvidia-smi --query-remapped-rows`", f"{_HEALTH}/gpus.py", (), "everything"),
        ToolFormat("`nvidia-smi mig -lgip`, `-lgi`, `-lci`", f"{_UTILS}/mig.py", (), "everything"),
        ToolFormat("`nvidia-smi --query-gpu=power...`", f"{_MODULES}/power_cap.py", (), "everything"),
        ToolFormat("`dcgmi health -c -j`", "gpufleet/racks/verify/gpu.py", (), "everything"),
    ),
    "NVLink and NVSwitch": (
        ToolFormat("`nvidia-smi nvlink --status`", f"{_HEALTH}/nvlink.py", (), "everything"),
        ToolFormat("`nvidia-smi nvlink --errorcounters`", f"{_HEALTH}/nvlink.py", (), "everything"),
    ),
    "InfiniBand and Ethernet": (
        ToolFormat("`/sys/class/infiniband`", f"{_HEALTH}/ports.py", (), "everything"),
        ToolFormat("`mlxconfig -d ... query`", f"{_UTILS}/rdma_hardware.py", (), "everything"),
    ),
    "Logs": (ToolFormat("`dmesg`", f"{_HEALTH}/xid.py", (), "everything"),),
    "Host": (
        ToolFormat("`chronyc -c tracking`", f"{_HEALTH}/system.py", (), "everything"),
        ToolFormat("Redfish", f"{_UTILS}/redfish.py", (), "everything"),
    ),
    "Slurm": (ToolFormat("`scontrol --oneliner show node`", f"{_HEALTH}/slurm.py", (), "everything"),),
}


def reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEADER]
    for title, formats in FORMATS.items():
        parts += [f"## {title}\n", "| output | read by | compared with | not compared |\n|---|---|---|---|"]
        parts += [_row(item) for item in formats]
        parts.append("")
    return "\n".join(parts)


def _row(item: ToolFormat) -> str:
    captures = ", ".join(f"`{name}`" for name in item.captures) or "-"
    return f"| {item.output} | `{item.read_by}` | {captures} | {item.not_compared or '-'} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
