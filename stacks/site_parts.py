"""What the node groups of a site share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from gpufleet.components.cluster import EksCluster
from gpufleet.components.identity import IamRoles
from gpufleet.components.network import Network
from gpufleet.components.node_group import HeldSize
from gpufleet.stacks.settings import StackSettings


@dataclass(frozen=True)
class SiteParts:
    """The parts of a site that a node group needs. `client_group` is the security group that nodes share,
    `stopped` has resource names of groups that keep their maximum, `joins` the user data by which nodes join
    the Slurm that launches them, `drains` whether a spent budget drains spot groups."""

    region: str
    network: Network
    roles: IamRoles
    cluster: EksCluster | None
    client_group: pulumi.Output[str]
    settings: StackSettings
    stopped: Mapping[str, HeldSize]
    opts: pulumi.ResourceOptions
    joins: pulumi.Output[str] | None = None
    drains: bool = False
