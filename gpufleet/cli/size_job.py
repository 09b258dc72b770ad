"""What a job file says of the sizes of `gpufleet size`, where an option is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from gpufleet.economics.job_file import JobFile, ServedModel, TrainingJob, load_job
from gpufleet.errors import InputError

JobOption = Annotated[
    Path | None,
    typer.Option("--job", help="A job file, for what is left out here.", dir_okay=False),
]
T = TypeVar("T")


class SizeJob:
    """The job of `--job`, or no job: then every option is needed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._job: JobFile | None = None if path is None else load_job(path)

    @property
    def training(self) -> TrainingJob | None:
        """The training job, if there is one."""
        return None if self._job is None else self._job.training

    def served(self, name: str | None) -> ServedModel | None:
        """Return the model of that name of a service; without a name the only one that has a `config`."""
        serving = None if self._job is None else self._job.serving
        if serving is None:
            return None
        named = [each for each in serving.models if name in (None, each.name) and each.config is not None]
        if len(named) != 1:
            known = ", ".join(each.name for each in serving.models if each.config is not None)
            raise InputError(
                f"--model: {name or 'none'} is not one model with a `config` of {self._path}",
                remedy=f"name one of: {known or '(no model of the job has a `config`)'}",
            )
        return named[0]

    @property
    def gpu_type(self) -> str | None:
        """The first GPU that the job names."""
        training = self.training
        return training.gpu_types[0] if training is not None and training.gpu_types else None

    def config(self, option: Path | None, written: str | None) -> Path:
        """Return the model's file; that of the job is beside the job file."""
        beside = None if written is None or self._path is None else self._path.parent / written
        return self.need("--config", option or beside, "config")

    def need(self, option: str, value: T | None, field: str = "") -> T:
        """Return a value that an option or the job file gives. Raises InputError without one."""
        if value is not None:
            return value
        where = f", or `{field}` in the job file" if field and self._path is not None else ""
        raise InputError(
            f"{option} is not given" + (f", and {self._path} does not have it" if self._path else ""),
            remedy=f"give {option}{where}" + ("" if self._path else ", or a job file with --job"),
        )
