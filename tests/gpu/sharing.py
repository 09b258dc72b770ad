"""Measure two processes on one GPU: alone, time-sliced, and under MPS, with and without a memory limit.

    python -m tests.gpu.sharing OUT.json [seconds of each measurement]

Needs PyTorch and one GPU. MPS is a daemon of its own, in a temporary folder, which ends with the program; no
setting of the GPU changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KINDS = ("large", "small")
QUERY = ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv"]


def worker(kind: str, gate: Path, seconds: float) -> None:
    """Products of matrices until the time is over: `large` ones fill the GPU, `small` ones do not."""
    import torch

    n, burst = (8192, 2) if kind == "large" else (768, 200)
    a, b = (torch.randn(n, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    for _ in range(burst):
        torch.matmul(a, b)
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    limit = {"free_bytes": free, "total_bytes": total}
    try:
        block = torch.empty(4 * 2**30, dtype=torch.uint8, device="cuda")
        limit["can_take_4_gib"] = True
        del block
        torch.cuda.empty_cache()
    except RuntimeError as error:
        limit |= {"can_take_4_gib": False, "error": str(error).splitlines()[0][:200]}
    print("ready", flush=True)
    while not gate.exists():
        time.sleep(0.005)
    done, bursts, began = 0, [], time.perf_counter()
    while time.perf_counter() - began < seconds:
        started = time.perf_counter()
        for _ in range(burst):
            torch.matmul(a, b)
        torch.cuda.synchronize()
        bursts.append(time.perf_counter() - started)
        done += burst
    took = time.perf_counter() - began
    bursts.sort()
    found = {
        "tflops": 2.0 * n**3 * done / took / 1e12,
        "burst_ms_median": 1e3 * bursts[len(bursts) // 2],
        "burst_ms_p99": 1e3 * bursts[int(len(bursts) * 0.99)],
        **limit,
    }
    print(json.dumps(found), flush=True)


def run(kinds: list[str], seconds: float, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Start the workers, let them begin together, and return what each measured."""
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder) / "go"
        running = [
            subprocess.Popen(
                [sys.executable, __file__, "worker", kind, str(gate), str(seconds)],
                env=os.environ | (environment or {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for kind in kinds
        ]
        for each in running:
            assert each.stdout is not None
            each.stdout.readline()
        gate.touch()
        time.sleep(seconds / 2)
        apps = subprocess.run(QUERY, capture_output=True, text=True, check=False).stdout
        found = []
        for each in running:
            out, error = each.communicate(timeout=60)
            lines = out.strip().splitlines()
            found.append(json.loads(lines[-1]) if lines and each.returncode == 0 else {"error": error[-600:]})
    return {"kinds": kinds, "workers": found, "compute_apps": apps}


def mps(folder: Path) -> dict[str, str]:
    """Start the daemon; the environment of its clients."""
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    (folder / "pipe").mkdir()
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=os.environ | environment, check=True, timeout=20)
    return environment


def main(out: Path, seconds: float) -> None:
    result: dict[str, Any] = {}

    def keep(name: str, value: Any) -> None:
        result[name] = value
        out.write_text(json.dumps(result, indent=1) + "\n")

    for kind in KINDS:
        keep(f"{kind}_alone", run([kind], seconds))
        keep(f"{kind}_time_sliced", run([kind, kind], seconds))
    keep("mixed_time_sliced", run(["large", "small"], seconds))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            environment = mps(folder)
        except (OSError, subprocess.SubprocessError) as error:
            keep("mps_error", str(error))
            return
        try:
            for kind in KINDS:
                keep(f"{kind}_mps_alone", run([kind], seconds, environment))
                keep(f"{kind}_mps", run([kind, kind], seconds, environment))
            half = environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
            keep("large_mps_50_percent", run(["large", "large"], seconds, half))
            limited = environment | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=3G"}
            keep("small_mps_memory_3_gib", run(["small", "small"], seconds, limited))
        finally:
            subprocess.run(
                ["nvidia-cuda-mps-control"], input="quit\n", text=True, env=os.environ | environment,
                check=False, timeout=60,
            )  # fmt: skip
            keep("mps_log", [each.read_text()[-2000:] for each in sorted(folder.glob("*.log"))])


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 3.0)
