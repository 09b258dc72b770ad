"""Measure what one GPU moves and computes: host to device and back, device memory, matrix products.

    python -m tests.gpu.bandwidth OUT.json

Needs PyTorch and one GPU. Medians; every rate counts what moves: a copy in device memory reads and writes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

GIB = 2**30
QUERY = "clocks.sm,clocks.mem,power.draw,temperature.gpu,pcie.link.gen.current,pcie.link.width.current"


def seconds(work: Callable[[], Any], repeats: int = 15, warm: int = 3) -> list[float]:
    """Sorted times of `work` by the events of the device."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000.0)
    return sorted(times)


def rate(amount: float, times: list[float], unit: float) -> dict[str, float]:
    return {
        "median": amount / statistics.median(times) / unit,
        "least": amount / times[-1] / unit,
        "most": amount / times[0] / unit,
        "repeats": len(times),
    }


def copies() -> dict[str, Any]:
    """GB/s (10^9 bytes)."""
    found = {}
    for mib in (64, 1024):
        size = mib * 2**20
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for pinned in (True, False):
            host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
            kind = f"{'pinned' if pinned else 'pageable'}_{mib}_mib"
            repeats = 15 if pinned else 5
            found[f"host_to_device_{kind}"] = rate(
                size, seconds(lambda h=host, d=device: d.copy_(h, non_blocking=True), repeats), 1e9
            )
            found[f"device_to_host_{kind}"] = rate(
                size, seconds(lambda h=host, d=device: h.copy_(d, non_blocking=True), repeats), 1e9
            )
    size = 4 * GIB
    one, two = (torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda") for _ in range(2))
    found["device_memory_copy_4_gib"] = rate(2 * size, seconds(lambda: two.copy_(one)), 1e9)
    a, b = one.view(torch.float32).nan_to_num_(), two.view(torch.float32).nan_to_num_()
    c = torch.empty_like(a)
    found["device_memory_triad_4_gib"] = rate(3 * size, seconds(lambda: torch.add(a, b, alpha=3, out=c)), 1e9)
    found["device_memory_fill_4_gib"] = rate(size, seconds(lambda: c.fill_(1.0)), 1e9)
    return found


def both_ways() -> dict[str, float]:
    """Both directions at once, in GB/s of both together."""
    size = GIB
    hosts = [torch.ones(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    devices = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def work() -> None:
        now = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(now)
        with torch.cuda.stream(streams[0]):
            devices[0].copy_(hosts[0], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            hosts[1].copy_(devices[1], non_blocking=True)
        for stream in streams:
            now.wait_stream(stream)

    return rate(2 * size, seconds(work, 10), 1e9)


def products() -> dict[str, Any]:
    """TFLOP/s of n x n x n products on random numbers."""
    found = {}
    for name, dtype, sizes in (
        ("bf16", torch.bfloat16, (4096, 8192, 16384)),
        ("fp16", torch.float16, (8192,)),
        ("tf32", torch.float32, (8192,)),
        ("fp32", torch.float32, (8192,)),
    ):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        for n in sizes:
            a, b = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
            out = torch.empty(n, n, dtype=dtype, device="cuda")
            repeats = 10 if name == "fp32" else 20
            times = seconds(lambda a=a, b=b, out=out: torch.matmul(a, b, out=out), repeats)
            found[f"{name}_{n}"] = rate(2.0 * n**3, times, 1e12)
    try:
        n = 8192
        one = torch.ones((), device="cuda")
        a = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn)
        b = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn).t()
        times = seconds(lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16), 20)
        found[f"fp8_{n}"] = rate(2.0 * n**3, times, 1e12)
    except RuntimeError as error:
        found["fp8_error"] = str(error)[:200]
    return found


def now() -> dict[str, str]:
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return dict(zip(QUERY.split(","), done.stdout.strip().split(", "), strict=False))


def main(out: Path) -> None:
    result: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "idle": now()}
    result["gpu"] = torch.cuda.get_device_name()
    result["GB_per_s"] = copies() | {"both_ways_pinned_1024_mib": both_ways()}
    torch.cuda.empty_cache()
    result["TFLOP_per_s"] = products()
    # A product of two seconds, and what nvidia-smi says in it.
    a, b = (torch.randn(16384, 16384, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    for _ in range(250):
        torch.matmul(a, b)
    result["under_load"] = now()
    torch.cuda.synchronize()
    out.write_text(json.dumps(result, indent=1) + "\n")
    for kind in ("GB_per_s", "TFLOP_per_s"):
        for name, value in result[kind].items():
            print(kind, name, round(value["median"], 1) if isinstance(value, dict) else value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
