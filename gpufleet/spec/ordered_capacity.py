"""Nodes that are drawn from several node groups in an order."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import Name, NodeCount


class OrderedCapacity(Model):
    """Nodes drawn from node groups of the site, one group after the other, as far as each has capacity.

    The groups start with no nodes, and `up` sets their sizes. Groups with EFA or a placement group give nodes
    of one zone: that of the first group, or another group's zone if the first has too few.
    """

    name: Annotated[Name, Field(description="Its name, unique in the site.", examples=["pretrain"])]
    nodes: Annotated[NodeCount, Field(description="How many nodes are wanted.", examples=[8])]
    at_least: Annotated[
        NodeCount | None,
        Field(
            description="Fewer nodes than this are given back, and `up` fails; all of `nodes` if left out.",
            examples=[4],
        ),
    ] = None
    groups: Annotated[
        tuple[Name, ...],
        Field(
            min_length=1,
            description="The node groups to draw from, in order.",
            examples=[["pretrain-reserved", "pretrain-spot"]],
        ),
    ]

    @property
    def enough(self) -> int:
        """The number of nodes without which there are to be none."""
        return self.nodes if self.at_least is None else self.at_least
