"""Events as EventBridge sends them, after the examples in AWS's guides."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

ACCOUNT = "123456789012"
REGION = "us-east-1"
NOW = 1_800_000_000.0


def instance_id(number: int) -> str:
    """An id of an instance."""
    return f"i-{number:017x}"


def moment(seconds: float) -> str:
    """A time as EventBridge writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def event(name: str, about: dict[str, Any], *, at: float = NOW, **changes: Any) -> str:
    """The body of a message."""
    return json.dumps(
        {
            "version": "0",
            "id": "12345678-1234-1234-1234-123456789012",
            "detail-type": name,
            "source": "aws.ec2",
            "account": ACCOUNT,
            "time": moment(at),
            "region": REGION,
            "resources": [],
            "detail": about,
            **changes,
        }
    )


def spot(instance: str, *, at: float = NOW, **changes: Any) -> str:
    """A spot interruption notice."""
    detail = {"instance-id": instance, "instance-action": "terminate"}
    return event("EC2 Spot Instance Interruption Warning", detail, at=at, **changes)


def rebalance(instance: str, *, at: float = NOW, **changes: Any) -> str:
    """A rebalance recommendation."""
    return event("EC2 Instance Rebalance Recommendation", {"instance-id": instance}, at=at, **changes)


def block_end(reservation: str, end: str, *, at: float = NOW, **changes: Any) -> str:
    """The warning 40 minutes before the end of a Capacity Block."""
    detail = {"capacity-reservation-id": reservation, "end-date": end}
    return event("Capacity Block Reservation Expiration Warning", detail, at=at, **changes)


def maintenance(
    *instances: str, starts: str, at: float = NOW, status: str = "upcoming", **changes: Any
) -> str:
    """A scheduled retirement of instances."""
    detail = {
        "eventArn": "arn:aws:health:us-east-1::event/EC2/AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED/1",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "eventScopeCode": "ACCOUNT_SPECIFIC",
        "communicationId": "1",
        "startTime": starts,
        "statusCode": status,
        "eventRegion": REGION,
        "affectedEntities": [{"entityValue": each, "status": "IMPAIRED"} for each in instances],
    }
    return event("AWS Health Event", detail, at=at, source="aws.health", **changes)


def budget(instance: str, *, state: str = "drain", at: float = NOW, **changes: Any) -> str:
    """The notice of a spent budget, or its withdrawal."""
    detail = {"instance-id": instance, "state": state}
    return event("gpufleet Spot Drain", detail, at=at, source="gpufleet.budget", **changes)
