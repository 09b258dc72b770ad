"""Scaling activities of Auto Scaling groups: launches that failed. moto records none.

Fields and texts: EC2 Auto Scaling user guide, "Troubleshoot issues in Amazon EC2 Auto Scaling". Successful
launches are not listed.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.autoscaling_groups import groups_of
from gpufleet.lab.aws.backends.operation import Call, Params, operation

_KEPT = 100
"""Activities that a group keeps; AWS keeps them for six weeks."""


@operation("autoscaling", "DescribeScalingActivities")
def describe_scaling_activities(call: Call) -> Params:
    """Return the failed launches of a group or of all groups, newest first."""
    name, ids = call.params.get("AutoScalingGroupName"), call.params.get("ActivityIds") or []
    found = [
        activity
        for group in groups_of(call).values()
        if name in (None, group.name)
        for activity in activities_of(group)
        if not ids or activity["ActivityId"] in ids
    ]
    found.sort(key=lambda activity: activity["StartTime"], reverse=True)
    start, size = int(call.params.get("NextToken") or 0), int(call.params.get("MaxRecords") or _KEPT)
    following = start + size
    page: Params = {"Activities": found[start:following]}
    return page | ({"NextToken": str(following)} if following < len(found) else {})


def record_failed_launch(group: Any, reason: str, zones: dict[str, str]) -> None:
    """Add a failed launch in each subnet (`zones`: subnet -> zone), with EC2's reason."""
    for subnet, zone in zones.items():
        now = utcnow()
        activities_of(group).insert(
            0,
            {
                "ActivityId": str(uuid.uuid4()),
                "AutoScalingGroupName": group.name,
                "Description": "Launching a new EC2 instance.  Status Reason: "
                f"{reason} Launching EC2 instance failed.",
                "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} an instance was started in response to a difference "
                "between desired and actual capacity.",
                "StartTime": now,
                "EndTime": now,
                "StatusCode": "Failed",
                "StatusMessage": f"{reason} Launching EC2 instance failed.",
                "Progress": 100,
                "Details": json.dumps({"Subnet ID": subnet, "Availability Zone": zone}),
            },
        )
    del activities_of(group)[_KEPT:]


def activities_of(group: Any) -> list[Params]:
    """Return the recorded activities of moto's group, newest first."""
    kept: list[Params] = vars(group).setdefault("gpufleet_activities", [])
    return kept
