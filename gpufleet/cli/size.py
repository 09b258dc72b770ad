"""`gpufleet size`: memory, time and cost of training, memory of inference, storage and network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.commands import CommandGroup
from gpufleet.cli.console import emit_json, out
from gpufleet.cli.options_read import OptionReader
from gpufleet.economics.training import DEFAULT_RESERVE, DEFAULT_STORAGE, RESERVE_SOURCE
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.economics.memory import Precision

app = typer.Typer(
    cls=CommandGroup,
    help="Compute the memory, time and cost of training, and sizes of inference, storage and network.",
    rich_markup_mode=None,
)

DEFAULT_REGION = "us-east-1"

Config = Annotated[Path, typer.Option("--config", help="The model's config.json.", dir_okay=False)]
GpuType = Annotated[
    str, typer.Option("--gpu-type", help="A GPU, instance type or system: H100, p5.48xlarge, dgx-h100.")
]
Region = Annotated[str, typer.Option("--region", help="Region of the prices.")]
Reserve = Annotated[str, typer.Option("--reserve", help="GPU memory that is left free, such as '4 GiB'.")]


@app.command()
def network(
    ranks: Annotated[int, typer.Option("--ranks", help="GPUs that take part.")],
    size: Annotated[str, typer.Option("--bytes", help="Data of each GPU, such as '2 GiB'.")],
    busbw: Annotated[str, typer.Option("--busbw", help="Bus bandwidth of nccl-tests, such as '487 GB/s'.")],
    collective: Annotated[
        str,
        typer.Option(help="all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or reduce."),
    ] = "all-reduce",
    json: Json = False,
) -> None:
    """Compute how long a collective operation takes with a bus bandwidth, without latency."""
    from gpufleet.economics.collectives import COLLECTIVES, collective_time
    from gpufleet.economics.json import collective_to_json
    from gpufleet.economics.quantities import DataRate, DataSize
    from gpufleet.report.economics_text import show_collective

    if collective not in COLLECTIVES:
        raise InputError(
            f"unknown collective operation {collective!r}", remedy=f"write one of {', '.join(COLLECTIVES)}"
        )
    read = OptionReader()
    data = read.quantity(DataSize, "--bytes", size)
    rate = read.quantity(DataRate, "--busbw", busbw)
    read.finish()
    if data is None or rate is None:
        raise AssertionError("finish raises for what cannot be read")
    result = collective_time(ranks, float(data.bytes), float(rate.bytes_s), collective)
    if json:
        emit_json(collective_to_json(result))
    else:
        show_collective(result, out)


@app.command()
def storage(
    checkpoint: Annotated[str, typer.Option("--checkpoint", help="Data to move, such as '912 GB'.")],
    within: Annotated[str, typer.Option("--within", help="The time for it, such as '60s'.")],
    region: Region = DEFAULT_REGION,
    keep: Annotated[int, typer.Option("--keep", help="Checkpoints that the file system holds.")] = 2,
    efa: Annotated[bool, typer.Option("--efa", help="Only file systems with EFA.")] = False,
    reading: Annotated[bool, typer.Option("--read", help="Data is read instead of written.")] = False,
    json: Json = False,
) -> None:
    """Compute the storage throughput of checkpoints or data, and file systems that give it.

    Lists FSx for Lustre tiers with the smallest capacity that is fast and large enough, the least expensive
    first, and the links that racks need.
    """
    from gpufleet.economics.json import storage_to_json
    from gpufleet.economics.quantities import DataSize
    from gpufleet.economics.storage import size_storage
    from gpufleet.report.economics_text import show_storage
    from gpufleet.spec.quantity import Duration

    read = OptionReader()
    data = read.quantity(DataSize, "--checkpoint", checkpoint)
    time = read.quantity(Duration, "--within", within)
    read.finish()
    if data is None or time is None:
        raise AssertionError("finish raises for what cannot be read")
    direction: Literal["read", "write"] = "read" if reading else "write"
    result = size_storage(
        checkout_catalog(),
        float(data.bytes),
        time.delta.total_seconds(),
        region=region,
        keep=keep,
        efa=efa,
        direction=direction,
    )
    if json:
        emit_json(storage_to_json(result))
    else:
        show_storage(result, region, out)


@app.command()
def train(
    config: Config,
    tokens: Annotated[str, typer.Option("--tokens", help="Tokens of the run, such as 15T.")],
    gpus: Annotated[int, typer.Option("--gpus", help="Number of GPUs.")],
    gpu_type: GpuType,
    sequence: Annotated[int, typer.Option("--sequence", help="Tokens of a sequence.")] = 4096,
    micro_batch: Annotated[int, typer.Option("--micro-batch", help="Sequences of a micro-batch.")] = 1,
    tensor: Annotated[
        int | None, typer.Option("--tensor", help="Tensor parallelism; default: what fits.")
    ] = None,
    pipeline: Annotated[
        int | None, typer.Option("--pipeline", help="Pipeline stages; default: what fits.")
    ] = None,
    zero: Annotated[int | None, typer.Option("--zero", min=0, max=3, help="ZeRO stage (3: FSDP).")] = None,
    recompute: Annotated[
        str | None, typer.Option("--recompute", help="Activations computed again: none, attention or full.")
    ] = None,
    mfu: Annotated[float | None, typer.Option("--mfu", help="Model FLOPs utilization; default 0.4.")] = None,
    peak: Annotated[
        float | None, typer.Option("--peak-tflops", help="Dense peak of the GPU; default: the catalog's.")
    ] = None,
    storage_rate: Annotated[
        str, typer.Option("--storage", help="Throughput of checkpoints.")
    ] = DEFAULT_STORAGE,
    restart: Annotated[
        str, typer.Option("--restart", help="From a failure until it trains again.")
    ] = "10 min",
    gpu_hours_per_failure: Annotated[
        float | None, typer.Option("--gpu-hours-per-failure", help="Default 50677 (Llama 3).")
    ] = None,
    price: Annotated[
        str | None, typer.Option("--price", help="USD per GPU-hour, such as '3 USD/h'; default: on-demand.")
    ] = None,
    region: Region = DEFAULT_REGION,
    reserve: Reserve = DEFAULT_RESERVE,
    json: Json = False,
) -> None:
    """Compute GPU memory by part, whether it fits, and time and cost of a training run.

    Mixed precision with Adam. Time includes checkpoints, failures and restarts.
    """
    from gpufleet.cli.size_training import TrainingOptions, run

    run(
        TrainingOptions(
            config=config,
            tokens=tokens,
            gpus=gpus,
            gpu_type=gpu_type,
            sequence=sequence,
            micro_batch=micro_batch,
            tensor=tensor,
            pipeline=pipeline,
            zero=zero,
            recompute=recompute,
            mfu=mfu,
            peak_tflops=peak,
            storage=storage_rate,
            restart=restart,
            gpu_hours_per_failure=gpu_hours_per_failure,
            price=price,
            region=region,
            reserve=reserve,
        ),
        json=json,
    )


@app.command()
def inference(
    config: Config,
    gpu_type: GpuType,
    context: Annotated[int, typer.Option("--context", help="Tokens of a sequence, prompt and answer.")],
    batch: Annotated[int, typer.Option("--batch", help="Sequences at the same time.")] = 1,
    tensor: Annotated[int, typer.Option("--tensor", help="GPUs that share the model.")] = 1,
    precision: Annotated[str, typer.Option("--precision", help="Weights: bf16, fp8, int8 or int4.")] = "bf16",
    cache: Annotated[str, typer.Option("--kv-cache", help="KV cache: bf16 or fp8.")] = "bf16",
    reserve: Reserve = DEFAULT_RESERVE,
    json: Json = False,
) -> None:
    """Compute GPU memory of inference by part, whether it fits, and how many sequences fit."""
    from gpufleet.economics.inference import size_inference
    from gpufleet.economics.json import Assumption, assumptions_to_json, inference_to_json
    from gpufleet.economics.memory import BYTES_PER_VALUE
    from gpufleet.economics.models import read_model
    from gpufleet.economics.places import place_of
    from gpufleet.economics.quantities import DataSize
    from gpufleet.report.economics_text import show_inference

    for option, value in (("--precision", precision), ("--kv-cache", cache)):
        if value not in BYTES_PER_VALUE:
            raise InputError(
                f"{option}: unknown precision {value!r}", remedy=f"write one of {', '.join(BYTES_PER_VALUE)}"
            )
    read = OptionReader()
    free = read.quantity(DataSize, "--reserve", reserve)
    read.finish()
    if free is None:
        raise AssertionError("finish raises for what cannot be read")
    place = place_of(checkout_catalog(), gpu_type)
    model = read_model(config)
    result = size_inference(
        model,
        place.need_memory(),
        tensor=tensor,
        weights=cast("Precision", precision),
        cache=cast("Precision", cache),
        context=context,
        batch=batch,
        reserve_bytes=float(free.bytes),
    )
    assumed = [Assumption("reserve", reserve, RESERVE_SOURCE)] if reserve == DEFAULT_RESERVE else []
    if json:
        emit_json(inference_to_json(model, place, result) | {"assumptions": assumptions_to_json(assumed)})
    else:
        show_inference(model, place, result, assumed, out)
