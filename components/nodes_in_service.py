"""Wait for the nodes that an Auto Scaling group asks for: a dynamic resource that exists once they run.

An Auto Scaling group exists without its nodes, and keeps trying where there is no capacity. pulumi_aws can
wait for them (`wait_for_capacity_timeout`), but only while it creates or resizes the group: after a failed
wait the group is in the state, and the next run passes without nodes. This resource is not in the state until
they run, so the next run waits again. The module imports nothing that imports pulumi_aws.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from gpufleet.components.dynamic import changed, client

ASKED = ("group_name", "nodes", "region")
"""The inputs that decide what is waited for. A change of one of them means another wait."""

POLL_S = 10.0
"""Seconds between two reads of a group, or less if the wait is shorter."""

_EARLIER = timedelta(minutes=15)
"""Failed launches this long before the wait explain a shortage: Auto Scaling retries at longer intervals."""

_SHOWN = 3


class WaitProvider(ResourceProvider):
    """Waits on create and update. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Return once the nodes are in service; fail with the reasons if they are not in time."""
        await_nodes(props)
        return CreateResult(str(props["group_name"]), _outputs(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compare the group and the number of nodes only."""
        different = changed(_olds, _news, ASKED)
        return DiffResult(changes=bool(different), replaces=[], stables=[], delete_before_replace=False)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the state: nodes that stop later are no drift of the stack."""
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Wait for the nodes of another size or group."""
        await_nodes(_news)
        return UpdateResult(_outputs(_news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Delete nothing: the nodes belong to the group."""


class NodesInService(Resource, module="node_group", name="NodesInService"):
    """The nodes that `group_name`, an Auto Scaling group, asks for, in service.

    `nodes` is the size of the group at its creation. A scheduler may have changed it: the group's present
    desired capacity counts. `wait_s` limits the wait; 0 looks once. `client` are options of the boto3
    clients, as for `CapacityBlock`.
    """

    group_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        group_name: pulumi.Input[str],
        nodes: int,
        region: pulumi.Input[str],
        wait_s: float,
        client: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "group_name": group_name,
            "nodes": nodes,
            "region": region,
            "wait_s": wait_s,
            "client": dict(client),
        }
        super().__init__(WaitProvider(), name, props, opts)


def await_nodes(props: Mapping[str, Any]) -> None:
    """Wait until the group's desired capacity is in service, at most `wait_s` seconds.

    Raises with the missing nodes, and with the reasons of failed launches as Auto Scaling reports them.
    """
    scaling, name = client(props, "autoscaling"), str(props["group_name"])
    limit = float(props["wait_s"])
    began, deadline = datetime.now(UTC), time.monotonic() + limit
    while True:
        wanted, running = _sizes(scaling, name)
        if running >= wanted:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            reasons = _reasons(scaling, name, began - _EARLIER)
            raise Exception(_shortage(name, wanted, running, limit, reasons))
        time.sleep(min(POLL_S, left, max(limit / 10, 0.1)))


def _sizes(scaling: Any, name: str) -> tuple[int, int]:
    """Return the desired capacity of a group and its instances in service."""
    found = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    if not found:
        raise Exception(f"the Auto Scaling group {name} does not exist: run the command again")
    group = found[0]
    running = [each for each in group["Instances"] if each["LifecycleState"] == "InService"]
    return int(group["DesiredCapacity"]), len(running)


def _reasons(scaling: Any, name: str, since: datetime) -> list[str]:
    """Return the reasons of failed activities since a moment, newest first, each once."""
    activities = scaling.describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=50)["Activities"]
    failed = [
        str(each.get("StatusMessage") or each.get("Description") or "no reason was given")
        for each in activities
        if each["StatusCode"] in ("Failed", "Cancelled") and each["StartTime"] >= since
    ]
    return list(dict.fromkeys(failed))[:_SHOWN]


def _shortage(name: str, wanted: int, running: int, waited_s: float, reasons: list[str]) -> str:
    have = (
        f"{running} of them {'is' if running == 1 else 'are'} in service" if running else "none is in service"
    )
    waited = (
        f" after {waited_s / 60:g} min" if waited_s >= 60 else f" after {waited_s:g} s" if waited_s else ""
    )
    why = (
        "; ".join(reasons) or "Auto Scaling reports no failed launch: the nodes still start, or wait for one"
    )
    return (
        f"the Auto Scaling group {name} asks for {wanted} node{'s' if wanted != 1 else ''}, and "
        f"{have}{waited}: {why.rstrip('.')}. The group stays and keeps trying. Run `up` again later, or use "
        "another zone or type, or lower `min` and `desired` in the fleet file"
    )


def _outputs(props: Mapping[str, Any]) -> dict[str, Any]:
    return {key: props.get(key) for key in (*ASKED, "wait_s", "client")}
