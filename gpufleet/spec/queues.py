"""What shares out the devices of an EKS site among its teams."""

from typing import Annotated

from pydantic import Field

from gpufleet.kinds import QueuesKind
from gpufleet.spec.base import Model
from gpufleet.spec.fields import Switch


class Queues(Model):
    """Queues of an EKS site: jobs of a team wait until all their pods have devices, in the team's quota or in
    what others leave idle.
    """

    kind: Annotated[
        QueuesKind,
        Field(
            description="kueue, or none: only the quotas of namespaces limit teams, and refuse pods.",
            examples=["kueue"],
        ),
    ] = "kueue"
    topology: Annotated[
        Switch,
        Field(
            description="Places pods of a job close together in EC2's network, on nodes whose place EC2"
            " reports and that no autoscaler adds."
        ),
    ] = True
    jobset: Annotated[Switch, Field(description="Installs the controller of JobSet.")] = False
    leader_worker_set: Annotated[Switch, Field(description="Installs the controller of LeaderWorkerSet.")] = (
        False
    )
