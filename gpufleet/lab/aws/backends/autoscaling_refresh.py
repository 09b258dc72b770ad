"""Instance refreshes of Auto Scaling groups: completed at once, recorded on the group."""

from __future__ import annotations

import uuid
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.autoscaling_groups import find_group
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation


@operation("autoscaling", "StartInstanceRefresh")
def start_instance_refresh(call: Call) -> Params:
    """Replace the group's instances by new ones of its current launch template."""
    group = find_group(call)
    count = len(group.instance_states)
    wanted = group.desired_capacity
    group.set_desired_capacity(0)
    group.set_desired_capacity(wanted)
    now = utcnow()
    refresh: Params = {
        "InstanceRefreshId": str(uuid.uuid4()),
        "AutoScalingGroupName": group.name,
        "Status": "Successful",
        "StartTime": now,
        "EndTime": now,
        "PercentageComplete": 100,
        "InstancesToUpdate": 0,
        "Strategy": call.params.get("Strategy") or "Rolling",
        "Preferences": call.params.get("Preferences") or {},
        "StatusReason": f"{count} instances replaced",
    }
    _refreshes(group).insert(0, refresh)
    return {"InstanceRefreshId": refresh["InstanceRefreshId"]}


@operation("autoscaling", "DescribeInstanceRefreshes")
def describe_instance_refreshes(call: Call) -> Params:
    """The refreshes of a group, newest first."""
    ids = call.params.get("InstanceRefreshIds") or []
    every = _refreshes(find_group(call))
    return {"InstanceRefreshes": [one for one in every if not ids or one["InstanceRefreshId"] in ids]}


@operation("autoscaling", "CancelInstanceRefresh")
def cancel_instance_refresh(call: Call) -> Params:
    """Return an error: every refresh completes when it is started."""
    group = find_group(call)
    message = f"No in progress or pending Instance Refresh found for Auto Scaling group {group.name}"
    raise AwsError("ActiveInstanceRefreshNotFound", message)


def _refreshes(group: Any) -> list[Params]:
    kept: list[Params] = vars(group).setdefault("gpufleet_refreshes", [])
    return kept
