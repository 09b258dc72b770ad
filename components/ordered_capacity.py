"""Nodes drawn from node groups in an order: a dynamic resource that sets the sizes of Auto Scaling groups.

An Auto Scaling group that lacks capacity keeps trying, and no group starts because another one cannot. This
resource asks one group after the other, takes from each what it gives, and leaves no group asking for more
than it has. The module imports nothing that imports pulumi_aws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from gpufleet.components.dynamic import changed
from gpufleet.components.scaling_groups import Draw, ScalingGroups, Source

ASKED = ("places", "nodes", "at_least", "region")
"""The inputs that decide what is drawn. A change of one of them draws again."""

OUTPUTS = ("obtained", "missing", "reasons")


class OrderProvider(ResourceProvider):
    """Draws on create and update. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Draw the nodes, or fail and give back what was drawn."""
        return CreateResult(_id(props), _outputs(props, draw(props, {})))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compare what is asked, and draw again while nodes are missing."""
        different = bool(changed(_olds, _news, ASKED)) or float(_olds.get("missing") or 0) > 0
        return DiffResult(changes=different, replaces=[], stables=[], delete_before_replace=False)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the nodes that there are now: those that AWS took are missing."""
        groups = ScalingGroups(props)
        have = groups.in_service([source for place in _places(props) for source in place])
        missing = max(0, int(props["nodes"]) - sum(have.values()))
        return ReadResult(id_, props | {"obtained": have, "missing": missing})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Draw the nodes of another order, or those that were missing; fail and keep what there was
        before."""
        held = {name: int(count) for name, count in (_olds.get("obtained") or {}).items()}
        return UpdateResult(_outputs(_news, draw(_news, held)))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Delete nothing: the nodes belong to the groups."""


class OrderedCapacity(Resource, module="node_group", name="OrderedCapacity"):
    """`nodes` nodes, drawn from groups in their order.

    `places` are lists of sources; nodes come from the sources of one place only, in the order in which places
    stand. With less than `at_least` nodes the resource fails and gives back what it got; with at least that
    many the rest is `missing`, and the next run asks for it again. `wait_s` limits the wait for each source.
    `client` are options of the boto3 clients, as for `CapacityBlock`.

    `obtained` has the nodes in service by the sources' names, `reasons` why a source gave less.
    """

    obtained: pulumi.Output[dict[str, int]]
    missing: pulumi.Output[int]
    reasons: pulumi.Output[list[str]]

    def __init__(
        self,
        name: str,
        *,
        places: Sequence[Sequence[SourceArgs]],
        nodes: int,
        at_least: int,
        region: pulumi.Input[str],
        wait_s: float,
        client: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "places": [[source.props() for source in place] for place in places],
            "nodes": nodes,
            "at_least": at_least,
            "region": region,
            "wait_s": wait_s,
            "client": dict(client),
            **dict.fromkeys(OUTPUTS),
        }
        super().__init__(OrderProvider(), name, props, opts)


@dataclass(frozen=True, kw_only=True)
class SourceArgs:
    """A group to draw from.

    `name` is the one in messages and outputs, `resource` that of the group's resource, `group_name` the Auto
    Scaling group. At most `most` nodes are drawn from it, `expected` if every source has capacity; `paid` is
    how many of them cost money whether they run or not. A source with `block_id` has nodes only while that
    Capacity Block runs. `region` is the group's, None for that of the resource.
    """

    name: str
    resource: str
    group_name: pulumi.Input[str]
    most: int
    expected: int
    paid: int = 0
    block_id: pulumi.Input[str] | None = None
    region: str | None = None

    def props(self) -> dict[str, Any]:
        """The source as an input of the resource."""
        return {
            "name": self.name,
            "resource": self.resource,
            "group_name": self.group_name,
            "most": self.most,
            "expected": self.expected,
            "paid": self.paid,
            "block_id": self.block_id,
            # Left out where it says nothing: orders of earlier versions stay as they are.
            **({"region": self.region} if self.region is not None else {}),
        }


def draw(props: Mapping[str, Any], held: Mapping[str, int]) -> Draw:
    """Draw from the first place with enough; `held` are nodes by source that the order has from before.

    An order that has nodes stays where they are: jobs run on them. Raises with the reasons of all sources if
    no place has enough nodes, after what this call drew was given back.
    """
    groups, wanted, least = ScalingGroups(props), int(props["nodes"]), int(props["at_least"])
    places = _places(props)
    present = [place for place in places if any(held.get(source.name) for source in place)]
    reasons: list[str] = []
    for place in present or places:
        # What a run that was killed left behind.
        groups.give_back([source for other in places if other is not place for source in other], {})
        kept = groups.oldest(place, held)
        try:
            found = groups.fill(place, wanted)
            reasons += found.reasons
            if sum(found.obtained.values()) >= least:
                return Draw(found.obtained, tuple(reasons))
        except BaseException:
            groups.give_back(place, kept)
            raise
        groups.give_back(place, kept)
    raise Exception(_shortage(wanted, least, reasons))


def _places(props: Mapping[str, Any]) -> list[list[Source]]:
    return [[Source.of(source) for source in place] for place in props["places"]]


def _shortage(wanted: int, least: int, reasons: Sequence[str]) -> str:
    enough = "all of them" if wanted == least else f"at least {least} of them"
    why = "; ".join(reasons)
    return (
        f"{wanted} nodes are asked for, {enough} together, and the node groups do not have them: {why}."
        " What was obtained was given back. Run `up` again later, add a node group to the order, or lower"
        " `nodes` or `at_least` in the fleet file"
    )


def _id(props: Mapping[str, Any]) -> str:
    return ",".join(str(source["group_name"]) for place in props["places"] for source in place)[:1000]


def _outputs(props: Mapping[str, Any], found: Draw) -> dict[str, Any]:
    missing = max(0, int(props["nodes"]) - sum(found.obtained.values()))
    return {
        **{key: props.get(key) for key in (*ASKED, "wait_s", "client")},
        "obtained": dict(found.obtained),
        "missing": missing,
        "reasons": list(found.reasons) if missing else [],
    }
