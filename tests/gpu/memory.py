"""Measure the GPU memory and time of training and of inference, for calculators to be compared with.

    python -m tests.gpu.memory OUT.json [seconds]

Needs PyTorch and one GPU. Each row has its exact configuration. Bytes are of PyTorch's allocator; what the
driver and CUDA hold beside it is `context_bytes`. A row that does not fit says `out_of_memory`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.gpu.transformer import SHAPES, Cache, Shape, Transformer, flops_of_step, parameters

# Dense rates by the datasheet of the H100 and H200 SXM, in FLOP/s.
PEAK = {"fp32": 66.9e12, "amp": 989.4e12, "bf16": 989.4e12}
MODES = ("bf16", "amp", "fp32")
CUDA = torch.cuda


def release() -> None:
    gc.collect()
    CUDA.empty_cache()
    CUDA.synchronize()
    CUDA.reset_peak_memory_stats()


def training_rows() -> Iterator[dict[str, Any]]:
    """The configurations, the most useful first: a run that ends early has whole sets."""

    def row(model: str, mode: str, batch: int, length: int, checkpoints: bool, **more: Any) -> dict[str, Any]:
        return {
            "model": model, "mode": mode, "batch": batch, "sequence": length, "checkpointing": checkpoints,
            "optimizer": "adamw", "optimizer_kind": "fused", "attention": "sdpa", **more,
        }  # fmt: skip

    sizes = {
        "gpt-125m": [(1, 1024), (4, 1024), (16, 1024), (4, 4096)],
        "gpt-350m": [(1, 1024), (4, 1024), (16, 1024), (8, 2048)],
        "gpt-1.3b": [(1, 2048), (4, 2048), (8, 2048)],
        "gqa-1.2b": [(1, 4096), (4, 2048)],
    }
    for mode in MODES:
        for model, each in sizes.items():
            for batch, length in each:
                if mode == "fp32" and batch * length > 8192:
                    continue
                for checkpoints in (False, True):
                    yield row(model, mode, batch, length, checkpoints)
    yield row("gpt-350m", "amp", 4, 2048, False, attention="math")
    yield row("gpt-350m", "amp", 4, 1024, False, optimizer_kind="foreach")
    yield row("gpt-350m", "amp", 4, 1024, False, optimizer="sgd", optimizer_kind="foreach")
    yield row("gpt-125m", "amp", 64, 1024, False)
    yield row("gpt-125m", "amp", 64, 1024, True)
    yield row("gpt-1.3b", "bf16", 32, 2048, True)
    yield row("gpt-1.3b", "amp", 32, 2048, False)
    yield row("gpt-1.3b", "amp", 8, 2048, False, compiled=True)


def train(row: dict[str, Any]) -> dict[str, Any]:
    """Steps of one configuration: two to warm up, timed ones, and one whose phases are measured."""
    shape = SHAPES[row["model"]]
    dtype = torch.bfloat16 if row["mode"] == "bf16" else torch.float32
    release()
    before = CUDA.memory_allocated()
    with torch.device("cuda"):
        torch.set_default_dtype(dtype)
        model = Transformer(shape, checkpoints=row["checkpointing"], attention=row["attention"])
        torch.set_default_dtype(torch.float32)
    weights = CUDA.memory_allocated() - before
    loss_of = torch.compile(model.loss) if row.get("compiled") else model.loss
    if row["optimizer"] == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.0)
    else:
        kind = {row["optimizer_kind"]: True}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **kind)
    tokens = torch.randint(0, shape.vocabulary, (row["batch"], row["sequence"] + 1), device="cuda")
    amp = torch.autocast("cuda", dtype=torch.bfloat16) if row["mode"] == "amp" else contextlib.nullcontext()

    def forward() -> torch.Tensor:
        with amp:
            return loss_of(tokens)

    def step() -> None:
        forward().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(2):
        step()
    CUDA.synchronize()
    CUDA.reset_peak_memory_stats()
    times: list[float] = []
    began = time.monotonic()
    while len(times) < 2 or (len(times) < 10 and time.monotonic() - began < 0.6):
        started = time.perf_counter()
        step()
        CUDA.synchronize()
        times.append(time.perf_counter() - started)
    found = {"peak_bytes": CUDA.max_memory_allocated(), "reserved_bytes": CUDA.max_memory_reserved()}

    phases = {"at_rest": CUDA.memory_allocated()}
    CUDA.reset_peak_memory_stats()
    loss = forward()
    CUDA.synchronize()
    phases |= {"forward_peak": CUDA.max_memory_allocated(), "after_forward": CUDA.memory_allocated()}
    CUDA.reset_peak_memory_stats()
    loss.backward()
    CUDA.synchronize()
    phases |= {"backward_peak": CUDA.max_memory_allocated(), "after_backward": CUDA.memory_allocated()}
    CUDA.reset_peak_memory_stats()
    optimizer.step()
    CUDA.synchronize()
    phases["optimizer_peak"] = CUDA.max_memory_allocated()
    gradients = sum(
        each.grad.numel() * each.grad.element_size() for each in model.parameters() if each.grad is not None
    )
    states = sum(
        value.numel() * value.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )
    seconds = statistics.median(times)
    count = parameters(model)
    flops = flops_of_step(shape, count, row["batch"], row["sequence"])
    free, total = CUDA.mem_get_info()
    return found | {
        "parameters": count,
        "weights_bytes": weights,
        "gradients_bytes": gradients,
        "optimizer_bytes": states,
        "phases_bytes": phases,
        "context_bytes": total - free - CUDA.memory_reserved(),
        "step_s": seconds,
        "steps": len(times),
        "tokens_per_s": row["batch"] * row["sequence"] / seconds,
        "model_flop_utilization": flops / seconds / PEAK[row["mode"]],
        "loss": float(loss.detach()),
    }


def inference_rows() -> Iterator[dict[str, Any]]:
    for model in ("gqa-1.2b", "gpt-1.3b"):
        most = SHAPES[model].positions or 16384
        for batch, context in ((1, 1024), (8, 1024), (1, 4096), (8, 4096), (32, 4096), (8, 16384)):
            if context <= most:
                yield {"model": model, "dtype": "bf16", "batch": batch, "context": context}
        yield {"model": model, "dtype": "fp32", "batch": 8, "context": 1024}


@torch.inference_mode()
def infer(row: dict[str, Any]) -> dict[str, Any]:
    """A prompt that fills the cache but for 32 tokens, which are then decoded one at a time.

    Without cuDNN's attention: it plans again for each length of the cache, which took 30 to 60 ms a token.
    """
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return prompt_and_decode(row)


def prompt_and_decode(row: dict[str, Any]) -> dict[str, Any]:
    shape, decoded = SHAPES[row["model"]], 32
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[row["dtype"]]
    release()
    before = CUDA.memory_allocated()
    with torch.device("cuda"):
        torch.set_default_dtype(dtype)
        model = Transformer(shape)
        torch.set_default_dtype(torch.float32)
    found: dict[str, Any] = {
        "parameters": parameters(model), "weights_bytes": CUDA.memory_allocated() - before,
    }  # fmt: skip
    caches = [Cache.of(shape, row["batch"], row["context"], dtype) for _ in range(shape.layers)]
    found["cache_bytes"] = sum(each.bytes for each in caches)
    prompt = row["context"] - decoded
    tokens = torch.randint(0, shape.vocabulary, (row["batch"], prompt), device="cuda")
    model(tokens, caches)
    CUDA.synchronize()
    CUDA.reset_peak_memory_stats()
    times = []
    for _ in range(3):
        started = time.perf_counter()
        logits = model(tokens, caches)
        CUDA.synchronize()
        times.append(time.perf_counter() - started)
    found |= {"prefill_s": statistics.median(times), "prefill_peak_bytes": CUDA.max_memory_allocated()}
    model(logits.argmax(-1), caches, prompt)
    CUDA.synchronize()
    CUDA.reset_peak_memory_stats()
    started = time.perf_counter()
    for place in range(decoded):
        logits = model(logits.argmax(-1), caches, prompt + place)
    CUDA.synchronize()
    seconds = (time.perf_counter() - started) / decoded
    free, total = CUDA.mem_get_info()
    return found | {
        "decode_peak_bytes": CUDA.max_memory_allocated(),
        "reserved_bytes": CUDA.max_memory_reserved(),
        "decode_step_s": seconds,
        "decode_tokens_per_s": row["batch"] / seconds,
        "prefill_tokens_per_s": row["batch"] * prompt / found["prefill_s"],
        "context_bytes": total - free - CUDA.memory_reserved(),
    }


def weights_by_precision(shape: Shape) -> dict[str, int]:
    """Bytes of the weights as stored; of eight bits, those of the linear layers with a scale by row."""
    release()
    with torch.device("cuda"):
        model = Transformer(shape)
    linear = [each for each in model.modules() if isinstance(each, torch.nn.Linear)]
    found = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        model.to(dtype)
        release()
        found[name] = CUDA.memory_allocated()
    scales = []
    for layer in linear:
        for each in layer.parameters():
            each.requires_grad_(False)
        scales.append(layer.weight.abs().amax(1, keepdim=True).float() / 448.0)
        layer.weight.data = (layer.weight.data / scales[-1]).to(torch.float8_e4m3fn)
    release()
    found["fp8"] = CUDA.memory_allocated()
    return found


def about() -> dict[str, Any]:
    """The hardware and versions."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    properties = CUDA.get_device_properties(0)
    return {
        "gpu": done.stdout.strip(),
        "total_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "peak_flops": PEAK,
        "models": {name: asdict(shape) for name, shape in SHAPES.items()},
    }


def main(out: Path, limit_s: float) -> None:
    end = time.monotonic() + limit_s
    result: dict[str, Any] = {"about": about(), "inference": [], "training": [], "weights_bytes": {}}
    work = [("inference", infer, row) for row in inference_rows()]
    work += [("training", train, row) for row in training_rows()]
    for name, shape in SHAPES.items():
        with contextlib.suppress(RuntimeError):
            result["weights_bytes"][name] = weights_by_precision(shape)
    for kind, measure, row in work:
        if time.monotonic() > end:
            result["cut_short"] = True
            break
        try:
            found = measure(row)
        except torch.OutOfMemoryError:
            found = {"out_of_memory": True}
        except Exception as error:  # one row's failure must not lose the others
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        result[kind].append(row | found)
        out.write_text(json.dumps(result, indent=1) + "\n")
    out.write_text(json.dumps(result, indent=1) + "\n")
    errors = [row for kind in ("inference", "training") for row in result[kind] if "error" in row]
    print(len(result["inference"]), "inference rows,", len(result["training"]), "training rows,", errors)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 600.0)
