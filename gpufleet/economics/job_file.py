"""The job file of `gpufleet advise`: what runs, what it needs, and where its data may be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import Field, ValidationError

from gpufleet.economics.quantities import Count, DataSize
from gpufleet.errors import InputError, SpecError
from gpufleet.kinds import CapacityKind
from gpufleet.spec.base import Model
from gpufleet.spec.document import read_document
from gpufleet.spec.quantity import Duration, HourlyPrice, Money, Percent, Power
from gpufleet.spec.source import SourceMap
from gpufleet.spec.translate import findings_of

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1, le=1_000_000)]


class DataPlaces(Model):
    """Where the data may be: regions of the cloud, and sites of the fleet or of `places`."""

    regions: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


class TrainingJob(Model):
    """A job on GPUs that all run at the same time.

    Its time is `work` (without interruptions, on each of `gpu_types`), or follows from `config` and `tokens`.
    `reclaims` is the mean time until one spot node is reclaimed; without it spot is not ranked. `prices` are
    USD per GPU-hour by purchase option, instead of the catalog's.
    """

    gpus: Whole
    gpu_types: tuple[str, ...] = ()
    work: Duration | None = None
    config: str | None = None
    tokens: Count | None = None
    sequence: Whole = 4096
    checkpoint: Duration | None = None
    restart: Duration | None = None
    reclaims: Duration | None = None
    wait: Duration | None = None
    prices: dict[str, HourlyPrice] = Field(default_factory=dict)


class ReplicaMeasurement(Model):
    """One replica on one kind of GPU: requests per second when busy, and latency of one without a queue."""

    requests_per_s: Positive
    latency: Duration


class ServedModel(Model):
    """A model of a service: `replicas` in each cell (the ratio between models), `gpus` for one replica.

    `gpufleet size inference` computes the memory of `config` with `context` tokens and `batch` sequences.
    """

    name: Name
    replicas: Whole = 1
    gpus: Whole = 1
    gpu_memory: DataSize
    config: str | None = None
    context: Whole | None = None
    batch: Whole | None = None
    measured: dict[str, ReplicaMeasurement] = Field(min_length=1)


class Load(Model):
    """Requests per second: the least, the usual, and the most."""

    low: Positive
    usual: Positive
    peak: Positive


class ServingJob(Model):
    """A service that scales by whole cells. Each request uses every model once.

    `latency` is a goal for 95 % of the requests, `utilization` what the replicas are at, `warm_up` the time
    from the decision to scale until a new cell serves.
    """

    load: Load
    latency: Duration
    utilization: Percent
    warm_up: Duration
    models: tuple[ServedModel, ...] = Field(min_length=1)


class OwnPlace(Model):
    """Nodes that the fleet file does not have, such as those of an edge site. `price` is for a node-hour."""

    name: Name
    gpu: str
    nodes: Whole
    gpus_per_node: Whole = 1
    gpu_memory: DataSize
    power_per_node: Power | None = None
    power_limit: Power | None = None
    price: HourlyPrice | None = None


class JobFile(Model):
    """A job, with what all kinds of jobs have."""

    exactly_one_of: ClassVar[tuple[str, ...]] = ("training", "serving")

    job: Name
    data: DataPlaces = DataPlaces()
    deadline: Duration | None = None
    budget: Money | None = None
    training: TrainingJob | None = None
    serving: ServingJob | None = None
    places: tuple[OwnPlace, ...] = ()


def load_job(path: Path) -> JobFile:
    """Return the job of a file. Raises SpecError with all findings, by file and line."""
    if not path.is_file():
        raise InputError(
            f"there is no file {path}", remedy="name a job file; docs/guide/economics.md has one"
        )
    entry, findings = read_document(path, str(path), within=path.resolve().parent)
    source = SourceMap(entry)
    job: JobFile | None = None
    try:
        job = JobFile.model_validate(entry.node.plain())
    except ValidationError as error:
        findings += findings_of(error, source, JobFile)
    if job is not None:
        findings += _contradictions(job, source)
    if job is None or any(finding.severity == "error" for finding in findings):
        raise SpecError(findings)
    return job


def _contradictions(job: JobFile, source: SourceMap) -> list[Any]:
    found = []
    training, serving = job.training, job.serving
    if training is not None:
        if (training.work is None) == (training.config is None or training.tokens is None):
            message = "the time of the job is `work`, or follows from `config` and `tokens`"
            found.append(_finding(source, "training", "job-time", message, "write one of the two"))
        if training.work is not None and training.checkpoint is None:
            message = "the time to write a checkpoint is missing"
            found.append(_finding(source, "training", "job-checkpoint", message, "write `checkpoint: 60 s`"))
        for kind in training.prices:
            if kind not in (*get_args(CapacityKind), "on-premises"):
                message = f"'{kind}' is no purchase option"
                remedy = f"write {', '.join(get_args(CapacityKind))} or on-premises"
                found.append(_finding(source, "training.prices", "job-price", message, remedy))
    if serving is not None:
        load = serving.load
        if not load.low <= load.usual <= load.peak:
            message = "the loads are not in the order low, usual, peak"
            found.append(_finding(source, "serving.load", "job-load", message, "write the lowest as `low`"))
        if not serving.utilization.value < 100:
            message = "at a utilization of 100% queues grow without end"
            found.append(_finding(source, "serving.utilization", "job-utilization", message, "write 65%"))
    return found


def _finding(source: SourceMap, path: str, rule: str, message: str, remedy: str) -> Any:
    return source.finding(path, rule=rule, message=message, remedy=remedy)
