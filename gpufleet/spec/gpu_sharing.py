"""How pods share the GPUs of a node group, in the cloud and on the racks."""

from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import WHOLE


class SharedGpu(Model):
    """One GPU shown as several to the scheduler."""

    replicas: Annotated[
        int,
        Field(
            ge=2,
            le=48,
            description="How many pods share a GPU.",
            examples=[4],
            json_schema_extra={"unit": "pods"},
        ),
        WHOLE,
    ]


class GpuSharing(Model):
    """How pods share a GPU: exactly one of the two."""

    exactly_one_of = ("time_slicing", "mps")

    time_slicing: Annotated[
        SharedGpu | None, Field(description="Pods take turns; memory is neither shared out nor protected.")
    ] = None
    mps: Annotated[
        SharedGpu | None, Field(description="Pods run at once, each with its part of memory and threads.")
    ] = None
