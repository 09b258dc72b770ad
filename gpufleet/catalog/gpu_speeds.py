"""Peak matrix throughput of GPUs, without sparsity: what model FLOPs utilization is a share of."""

from functools import cache
from pathlib import Path
from typing import Literal

from gpufleet.catalog.models import Fact
from gpufleet.catalog.store import read_entries


class GpuSpeed(Fact):
    """Dense peak in TFLOPS (10^12 operations per second) with 16-bit inputs; `gpu` is the catalog's name."""

    gpu: str
    tflops: float
    precision: Literal["bf16", "fp16"]
    source: str
    verified: bool = True
    note: str = ""


@cache
def gpu_speeds() -> dict[str, GpuSpeed]:
    """Return every GPU whose peak was read. A GPU without a source is not listed."""
    path = Path(__file__).parent / "data" / "gpu_speeds.json"
    return {entry.gpu: entry for entry in read_entries(path, GpuSpeed, "speeds")}
