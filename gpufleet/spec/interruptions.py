"""What a cloud site does when AWS announces that it takes nodes back."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.quantity import Duration


class Interruptions(Model):
    """Notices of AWS about nodes of the site: they go to a queue, and a handler acts on them.

    It drains the node, signals the whole job to write a checkpoint, waits for its acknowledgement, and
    requeues it.
    """

    checkpoint: Annotated[
        Duration,
        Field(
            description="How long a signalled job may take to write its checkpoint. A spot node stops 2 min"
            " after its notice.",
            examples=["90 s"],
        ),
    ] = Duration(timedelta(seconds=90))
    rebalance: Annotated[
        Literal["cordon", "drain", "ignore"],
        Field(
            description="What a rebalance recommendation does: stop new jobs on the node, also move those"
            " that run, or nothing."
        ),
    ] = "cordon"
    before_maintenance: Annotated[
        Duration,
        Field(
            description="How long before a scheduled maintenance jobs that still run on the node are moved.",
            examples=["1 h"],
        ),
    ] = Duration(timedelta(hours=1))
