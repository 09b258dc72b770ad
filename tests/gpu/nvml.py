"""What a real NVML answers to the functions that the kit's NVML (tests/rack/kit/cluster/nvml.c) has.

    python -m tests.gpu.nvml OUT.json

Needs nvidia-ml-py. Values are written as they are; an error as its text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

SIMPLE = (
    *("Index", "MinorNumber", "UUID", "Name", "Brand", "Architecture", "CudaComputeCapability", "MemoryInfo"),
    *("PciInfo", "MigMode", "MaxMigDeviceCount", "SupportedEventTypes", "NumaNodeId", "BoardPartNumber"),
    *("GpuInstanceId", "ComputeInstanceId", "DeviceHandleFromMigDeviceHandle", "ComputeMode", "Attributes"),
    *("GpuFabricInfo", "GpuFabricInfoV", "AddressingMode", "VirtualizationMode", "PersistenceMode"),
)
LINKS = ("NvLinkState", "NvLinkRemotePciInfo", "NvLinkVersion", "NvLinkRemoteDeviceType")


def plain(value: Any) -> Any:
    """A value of ctypes or bytes as JSON has it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "_fields_"):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if hasattr(value, "_length_"):
        return [plain(each) for each in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def answer(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return plain(call(*arguments))
    except Exception as error:  # the text of the error is the answer
        return f"{type(error).__name__}: {error}"


def main(out: Path) -> None:
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    found: dict[str, Any] = {
        name: answer(getattr(pynvml, f"nvmlSystemGet{name}"))
        for name in ("DriverVersion", "NVMLVersion", "CudaDriverVersion", "CudaDriverVersion_v2")
    }
    found["Count"] = answer(pynvml.nvmlDeviceGetCount)
    found["HandleByIndex_beyond"] = answer(pynvml.nvmlDeviceGetHandleByIndex, 7)
    found["HandleByUUID_unknown"] = answer(
        pynvml.nvmlDeviceGetHandleByUUID, "GPU-00000000-0000-0000-0000-000000000000"
    )
    found["HandleByPciBusId_unknown"] = answer(pynvml.nvmlDeviceGetHandleByPciBusId, "0000:FE:00.0")
    for name in SIMPLE:
        call = getattr(pynvml, f"nvmlDeviceGet{name}", None)
        found[name] = answer(call, device) if call else "no such function"
    found["MemoryInfo_v2"] = answer(pynvml.nvmlDeviceGetMemoryInfo, device, pynvml.nvmlMemory_v2)
    found["IsMigDeviceHandle"] = answer(pynvml.nvmlDeviceIsMigDeviceHandle, device)
    found["TopologyCommonAncestor_self"] = answer(pynvml.nvmlDeviceGetTopologyCommonAncestor, device, device)
    for name in LINKS:
        call = getattr(pynvml, f"nvmlDeviceGet{name}", None)
        found[name] = [answer(call, device, link) if call else "none" for link in (0, 17, 18, 99)]
    events = pynvml.nvmlEventSetCreate()
    for name, types in (("xid", 8), ("ecc", 3), ("none", 0), ("all", 2**63)):
        found[f"RegisterEvents_{name}"] = answer(pynvml.nvmlDeviceRegisterEvents, device, types, events)
    found["EventSetWait"] = answer(
        getattr(pynvml, "nvmlEventSetWait_v2", pynvml.nvmlEventSetWait), events, 100
    )
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
