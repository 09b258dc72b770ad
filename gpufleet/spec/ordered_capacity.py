"""Nodes that are drawn from several node groups in an order."""

from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import Name, NodeCount, OrderedGroup


class OrderedCapacity(Model):
    """Nodes drawn from node groups, one group after the other, as far as each has capacity.

    The groups start with no nodes, and `up` sets their sizes. They give nodes of one site: that of the first
    group, or the next one if it has too few. Groups with EFA or a placement group give nodes of one zone in
    the same way.
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
        tuple[OrderedGroup, ...],
        Field(
            min_length=1,
            description="The node groups to draw from, in order; `site/group` for those of other sites.",
            examples=[["pretrain-reserved", "pretrain-spot", "usw2/pretrain"]],
        ),
    ]

    @property
    def enough(self) -> int:
        """The number of nodes without which there are to be none."""
        return self.nodes if self.at_least is None else self.at_least
