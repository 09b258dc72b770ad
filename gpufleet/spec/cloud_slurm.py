"""Cloud nodes that the Slurm of a rack site launches when jobs need them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import Arn, Name
from gpufleet.spec.quantity import Duration


class CloudSlurm(Model):
    """Slurm of a cloud site: its nodes join the Slurm of a rack site, whose controllers launch and terminate
    them. Each node group is a partition, named after site and group. The controllers have to reach the
    site's network, and its nodes the controllers.
    """

    controllers: Annotated[
        Name, Field(description="The rack site whose Slurm the nodes belong to.", examples=["dc1"])
    ]
    identity: Annotated[
        Arn,
        Field(
            description="ARN of the IAM role or user whose credentials the controllers have; it may assume"
            " the role that launches the nodes.",
            examples=["arn:aws:iam::111122223333:role/dc1-controllers"],
        ),
    ]
    suspend_after: Annotated[
        Duration, Field(description="How long a node is idle before it is terminated.", examples=["10 min"])
    ] = Duration(timedelta(minutes=10))
    resume_within: Annotated[
        Duration,
        Field(
            description="How long a launched node may take until it takes jobs; then it is terminated and"
            " its jobs are queued again.",
            examples=["20 min"],
        ),
    ] = Duration(timedelta(minutes=20))
    retry_after: Annotated[
        Duration,
        Field(
            description="How long nodes stay out of use for which there was no capacity.", examples=["10 min"]
        ),
    ] = Duration(timedelta(minutes=10))
