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
from gpufleet.cli.size_job import JobOption, SizeJob
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
DEFAULT_SEQUENCE = 4096

Config = Annotated[Path | None, typer.Option("--config", help="The model's config.json.", dir_okay=False)]
GpuType = Annotated[
    str | None,
    typer.Option("--gpu-type", help="A GPU, instance type or system: H100, p5.48xlarge, dgx-h100."),
]
Region = Annotated[str, typer.Option("--region", help="Region of the prices.")]
Reserve = Annotated[str, typer.Option("--reserve", help="GPU memory that is left free, such as '4 GiB'.")]


@app.command()
def network(
    busbw: Annotated[str, typer.Option("--busbw", help="Bus bandwidth of nccl-tests, such as '487 GB/s'.")],
    ranks: Annotated[
        int | None, typer.Option("--ranks", help="GPUs that take part; default: those of the job.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--bytes", help="Data of each GPU, such as '2 GiB'; default: the gradients of the job's model."
        ),
    ] = None,
    job: JobOption = None,
    collective: Annotated[
        str,
        typer.Option(help="all-reduce, all-gather, reduce-scatter, all-to-all, broadcast or reduce."),
    ] = "all-reduce",
    json: Json = False,
) -> None:
    """Compute how long a collective operation takes with a bus bandwidth, without latency."""
    from gpufleet.economics.collectives import COLLECTIVES, collective_time
    from gpufleet.economics.json import collective_to_json
    from gpufleet.economics.memory import GRADIENT_BYTES
    from gpufleet.economics.models import read_model
    from gpufleet.economics.quantities import DataRate, DataSize
    from gpufleet.report.economics_text import show_collective

    if collective not in COLLECTIVES:
        raise InputError(
            f"unknown collective operation {collective!r}", remedy=f"write one of {', '.join(COLLECTIVES)}"
        )
    read = OptionReader()
    data = read.optional(DataSize, "--bytes", size)
    rate = read.quantity(DataRate, "--busbw", busbw)
    read.finish()
    if rate is None:
        raise AssertionError("finish raises for what cannot be read")
    given = SizeJob(job)
    training = given.training
    ranks = given.need("--ranks", ranks or (training.gpus if training is not None else None), "training.gpus")
    if data is not None:
        moved = float(data.bytes)
    else:
        config = None if training is None or training.config is None else given.config(None, training.config)
        moved = float(
            GRADIENT_BYTES * read_model(given.need("--bytes", config, "training.config")).parameters
        )
    result = collective_time(ranks, moved, float(rate.bytes_s), collective)
    if json:
        emit_json(collective_to_json(result))
    else:
        show_collective(result, out)


@app.command()
def storage(
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", help="Data to move, such as '912 GB'; default: a checkpoint of the job's model."
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option("--within", help="The time for it, such as '60s'; default: `checkpoint` of the job."),
    ] = None,
    job: JobOption = None,
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
    from gpufleet.economics.models import read_model
    from gpufleet.economics.quantities import DataSize
    from gpufleet.economics.storage import size_storage
    from gpufleet.economics.training import CHECKPOINT_BYTES_PER_PARAMETER
    from gpufleet.report.economics_text import show_storage
    from gpufleet.spec.quantity import Duration

    read = OptionReader()
    data = read.optional(DataSize, "--checkpoint", checkpoint)
    time = read.optional(Duration, "--within", within)
    read.finish()
    given = SizeJob(job)
    training = given.training
    if data is not None:
        moved = float(data.bytes)
    else:
        config = None if training is None or training.config is None else given.config(None, training.config)
        model = read_model(given.need("--checkpoint", config, "training.config"))
        moved = float(CHECKPOINT_BYTES_PER_PARAMETER * model.parameters)
    time = given.need(
        "--within", time or (training.checkpoint if training is not None else None), "training.checkpoint"
    )
    direction: Literal["read", "write"] = "read" if reading else "write"
    result = size_storage(
        checkout_catalog(),
        moved,
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
    config: Config = None,
    tokens: Annotated[str | None, typer.Option("--tokens", help="Tokens of the run, such as 15T.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="Number of GPUs.")] = None,
    gpu_type: GpuType = None,
    job: JobOption = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", help="Tokens of a sequence; default 4096.")
    ] = None,
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
        str | None, typer.Option("--restart", help="From a failure until it trains again; default 10 min.")
    ] = None,
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

    given = SizeJob(job)
    of = given.training
    run(
        TrainingOptions(
            config=given.config(config, of.config if of else None),
            tokens=given.need(
                "--tokens", tokens or (str(of.tokens) if of and of.tokens else None), "training.tokens"
            ),
            gpus=given.need("--gpus", gpus or (of.gpus if of else None), "training.gpus"),
            gpu_type=given.need("--gpu-type", gpu_type or given.gpu_type, "training.gpu_types"),
            sequence=sequence or (of.sequence if of else DEFAULT_SEQUENCE),
            micro_batch=micro_batch,
            tensor=tensor,
            pipeline=pipeline,
            zero=zero,
            recompute=recompute,
            mfu=mfu,
            peak_tflops=peak,
            storage=storage_rate,
            restart=restart or (str(of.restart) if of and of.restart else "10 min"),
            gpu_hours_per_failure=gpu_hours_per_failure,
            price=price,
            region=region,
            reserve=reserve,
        ),
        json=json,
    )


@app.command()
def inference(
    config: Config = None,
    gpu_type: GpuType = None,
    context: Annotated[
        int | None, typer.Option("--context", help="Tokens of a sequence, prompt and answer.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", help="Sequences at the same time; default 1.")
    ] = None,
    tensor: Annotated[
        int | None, typer.Option("--tensor", help="GPUs that share the model; default 1.")
    ] = None,
    job: JobOption = None,
    model_name: Annotated[
        str | None, typer.Option("--model", help="A model of the job file, if it has several.")
    ] = None,
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
    given = SizeJob(job)
    of = given.served(model_name)
    kind = gpu_type or (next(iter(of.measured)) if of else None)
    place = place_of(checkout_catalog(), given.need("--gpu-type", kind, "serving.models[].measured"))
    model = read_model(given.config(config, of.config if of else None))
    context = given.need("--context", context or (of.context if of else None), "serving.models[].context")
    batch = batch or (of.batch if of else None) or 1
    result = size_inference(
        model,
        place.need_memory(),
        tensor=tensor or (of.gpus if of else 1),
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
