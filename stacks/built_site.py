"""A cloud site as it is built, before the nodes that orders of any site draw in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.plan.models import CloudSitePlan
from gpufleet.stacks.node_groups import NodeGroupOutputs
from gpufleet.stacks.site_parts import SiteParts


@dataclass(frozen=True)
class BuiltSite:
    """A site without its drawn nodes.

    `name` is that of its resources, `after` what drawn nodes come after: a shortage must not stop what has
    room. `exports` are its outputs but for orders, `kubeconfigs` those of its cluster by their name: one for
    machines in a network that reaches the API, and one through a node.
    """

    name: str
    plan: CloudSitePlan
    parts: SiteParts
    groups: Mapping[str, NodeGroupOutputs]
    provider: aws.Provider
    after: Sequence[pulumi.Resource]
    exports: Mapping[str, Any]
    kubeconfigs: Mapping[str, pulumi.Output[str]]
