"""What finds faulty GPUs of a Kubernetes site, and what it does with their nodes."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from gpufleet.kinds import FaultRepairAction, FaultRepairKind
from gpufleet.spec.base import Model
from gpufleet.spec.quantity import Duration


class FaultRepair(Model):
    """Detection of faulty GPUs on a Kubernetes site with the GPU Operator, and what follows a fault.

    Nodes are never restarted or replaced, and AWS's notices are not read: `interruptions` does that.
    """

    kind: Annotated[
        FaultRepairKind,
        Field(description="nvsentinel (NVIDIA's), or none.", examples=["nvsentinel"]),
    ] = "nvsentinel"
    action: Annotated[
        FaultRepairAction,
        Field(
            description="What it does: detect (node conditions and events only), quarantine (it also cordons"
            " a node with a fatal fault, and uncordons it after its recovery), or drain (it also ends the"
            " node's pods).",
            examples=["drain"],
        ),
    ] = "detect"
    drain_after: Annotated[
        Duration,
        Field(
            description="With drain: how long pods of such a node may go on before they are deleted, in whole"
            " minutes, from 1 min.",
            examples=["1 h"],
        ),
    ] = Duration(timedelta(hours=1))
