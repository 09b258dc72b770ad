"""Scheduled actions of an Auto Scaling group that start and stop the nodes of a Capacity Block.

This is a dynamic resource instead of `aws.autoscaling.Schedule`, because AWS deletes an action once it has
run: a refresh would not find it, and the next run would create it again for a time in the past. Here a
completed action stays completed. The module imports nothing that imports pulumi_aws.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from gpufleet.components.dynamic import changed, client, iso

ASKED = ("group_name", "reservation_id", "nodes", "region", "stops_only")
"""The inputs that decide the actions. A change of one of them replaces the actions."""

EXTENDED = "extended_to"
"""The input that changes when the block is extended: the actions that are due get other times."""

STOP_BEFORE_END = timedelta(minutes=45)
"""EC2 starts to terminate a block's instances 30 minutes before its end; jobs get 15 more minutes."""

SOONEST = timedelta(minutes=2)
"""Auto Scaling accepts only future times: a running block starts its nodes after this delay."""


class ScheduleProvider(ResourceProvider):
    """Creates and deletes the actions. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Create the actions that are still due, by the dates of the block."""
        return CreateResult(f"{props['group_name']}/{props['reservation_id']}", _put(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compare the group, the block and the number of nodes only."""
        different = changed(_olds, _news, ASKED)
        extended = changed(_olds, _news, [EXTENDED])
        # Two sets of actions cannot have the same names.
        return DiffResult(
            changes=bool(different or extended), replaces=different, stables=[], delete_before_replace=True
        )

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the state: AWS deletes an action that has run."""
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Move the actions of an extended block. One that starts nodes and has run is not repeated."""
        return UpdateResult(_put(_news, moved=True))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Delete the actions that have not run yet."""
        from botocore.exceptions import EndpointConnectionError

        scaling = client(_props, "autoscaling")
        names = [_action(_props, name) for name in _props["actions"]]
        if not names:
            return
        try:
            known = scaling.describe_scheduled_actions(
                AutoScalingGroupName=_props["group_name"], ScheduledActionNames=names
            )
        except EndpointConnectionError:
            if "endpoint_url" not in (_props.get("client") or {}):
                raise
            # The emulated AWS was deleted, and its actions with it.
            return
        for action in known["ScheduledUpdateGroupActions"]:
            scaling.delete_scheduled_action(
                AutoScalingGroupName=_props["group_name"], ScheduledActionName=action["ScheduledActionName"]
            )


class CapacityBlockSchedule(Resource, module="capacity", name="CapacityBlockSchedule"):
    """Starts all `nodes` of `group_name` when the block starts, and stops them before it ends.

    `group_name` is an Auto Scaling group (also that of an EKS node group), `reservation_id` the block,
    `client` options of the boto3 clients, as for `CapacityBlock`. With `stops_only` something else starts the
    nodes. `extended_to` is the end of the last extension, if there is one.
    """

    start_date: pulumi.Output[str]
    end_date: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        group_name: pulumi.Input[str],
        reservation_id: pulumi.Input[str],
        nodes: int,
        region: pulumi.Input[str],
        client: Mapping[str, str],
        stops_only: bool = False,
        extended_to: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "group_name": group_name,
            "reservation_id": reservation_id,
            "nodes": nodes,
            "region": region,
            "client": dict(client),
            "start_date": None,
            "end_date": None,
            # Not in the inputs of schedules from before: they would be replaced.
            **({"stops_only": True} if stops_only else {}),
            **({} if extended_to is None else {EXTENDED: extended_to}),
        }
        super().__init__(ScheduleProvider(), name, props, opts)


def _put(props: Mapping[str, Any], *, moved: bool = False) -> dict[str, Any]:
    """Create or move the actions that are still due; return the outputs of the resource."""
    nodes, now = int(props["nodes"]), datetime.now(UTC)
    start, end = _window(props)
    actions = plan_actions(start, end, nodes, now)
    if props.get("stops_only") or (moved and start <= now):
        actions.pop("start", None)
    scaling = client(props, "autoscaling")
    for name, (moment, desired) in actions.items():
        scaling.put_scheduled_update_group_action(
            AutoScalingGroupName=props["group_name"],
            ScheduledActionName=_action(props, name),
            StartTime=moment,
            MinSize=0,
            MaxSize=nodes,
            DesiredCapacity=desired,
        )
    kept = (*ASKED, EXTENDED)
    outputs = {**{key: props[key] for key in kept if key in props}, "client": props.get("client") or {}}
    return outputs | {"actions": list(actions), "start_date": iso(start), "end_date": iso(end)}


def plan_actions(
    start: datetime, end: datetime, nodes: int, now: datetime
) -> dict[str, tuple[datetime, int]]:
    """Return the actions that are due after `now`: name to time and number of nodes."""
    stop = end - STOP_BEFORE_END
    soonest = now + SOONEST
    actions = {}
    if stop > max(start, soonest):
        actions["start"] = (max(start, soonest), nodes)
    if stop > soonest:
        actions["stop"] = (stop, 0)
    return actions


def _window(props: Mapping[str, Any]) -> tuple[datetime, datetime]:
    found = client(props, "ec2").describe_capacity_reservations(
        CapacityReservationIds=[props["reservation_id"]]
    )["CapacityReservations"]
    if not found or not found[0].get("EndDate"):
        raise Exception(
            f"{props['reservation_id']} is not a Capacity Block with a start and an end: use one that is"
        )
    return found[0]["StartDate"], found[0]["EndDate"]


def _action(props: Mapping[str, Any], name: str) -> str:
    return f"{props['reservation_id']}-{name}"
