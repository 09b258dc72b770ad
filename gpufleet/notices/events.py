"""EventBridge events about instances, as notices.

Sources of the formats: EC2 User Guide ("Spot Instance interruption notices", "EC2 instance rebalance
recommendations", "Monitor Capacity Blocks using EventBridge"), AWS Health User Guide ("AWS Health events
Amazon EventBridge schema"). The notice of a spent budget is gpufleet's own (`gpufleet.components.functions.
drain_spot`, and `gpufleet budget resume`, which withdraws it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal

Kind = Literal["rebalance", "maintenance", "budget", "capacity", "spot"]

RANKS: Mapping[Kind, int] = {"rebalance": 1, "maintenance": 2, "budget": 3, "capacity": 4, "spot": 5}
"""A notice of a higher rank takes the place of an earlier one about the same instance, never the reverse."""

SPOT_S = 120
"""From the notice to the end of a spot instance."""

BLOCK_END_S = 30 * 60
"""Instances of a Capacity Block end this long before the block."""

BLOCK_WARNING_S = 10 * 60
"""From the warning to the end of the first instances: 40 and 30 minutes before the end of the block."""

FUTURE = timedelta(minutes=15)
"""A notice may not be from later than this."""

_INSTANCE = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}")
_SCHEDULED = re.compile(r"AWS_EC2_\w*(?:RETIREMENT|STOP|REBOOT|MAINTENANCE|TERMINATION)\w*_SCHEDULED")
_SPOT = "EC2 Spot Instance Interruption Warning"
_REBALANCE = "EC2 Instance Rebalance Recommendation"
_RESERVED = "EC2 Capacity Reservation Instance Interruption Warning"
_BLOCK = ("Capacity Block Reservation Expiration Warning", "Capacity Block Expiration Warning")
_HEALTH = "AWS Health Event"
_BUDGET = "gpufleet Spot Drain"
_SOURCES = {_HEALTH: "aws.health", _BUDGET: "gpufleet.budget"}
LONGEST_BODY = 262_144
"""Characters of a message (SQS: 256 KiB)."""


class UnusableError(ValueError):
    """A message that is no notice for this handler. `outcome` is malformed, foreign or irrelevant."""

    def __init__(self, outcome: Literal["malformed", "foreign", "irrelevant"], reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class NodeNotice:
    """A notice about `subjects`: ids of instances, or of a Capacity Block (`cr-...`). Times: epoch seconds.

    `deadline` is when the instances end; None if AWS names no time. `withdrawn`: the maintenance is called
    off, or the budget is resumed.
    """

    id: str
    kind: Kind
    subjects: tuple[str, ...]
    at: float
    deadline: float | None
    withdrawn: bool = False


def read_notice(body: str, *, account: str, region: str, now: float) -> NodeNotice:
    """Return the notice in the body of a message. Raises UnusableError for anything else."""
    event = _event(body)
    name = _text(event, "detail-type", "detail_type")
    event_id = _text(event, "id", "customer_event_id")
    at = _moment(event.get("time"), "time")
    detail = event.get("detail")
    if not isinstance(detail, dict):
        raise UnusableError("malformed", "detail is not an object")
    if event.get("source") != _SOURCES.get(name, "aws.ec2"):
        raise UnusableError("foreign", f"{name} of source {_shown(event.get('source'))}")
    if event.get("account") != account:
        raise UnusableError("foreign", f"account {_shown(event.get('account'))}")
    if event.get("region", region) != region:
        raise UnusableError("foreign", f"region {_shown(event.get('region'))}")
    if at > now + FUTURE.total_seconds():
        raise UnusableError("malformed", f"time {_shown(event.get('time'))} is in the future")
    if name == _SPOT:
        return NodeNotice(event_id, "spot", (_instance(detail),), at, at + SPOT_S)
    if name == _REBALANCE:
        return NodeNotice(event_id, "rebalance", (_instance(detail),), at, None)
    if name == _RESERVED:
        end = detail.get("instance-termination-time")
        deadline = at + SPOT_S if end is None else _moment(end, "instance-termination-time")
        return NodeNotice(event_id, "capacity", (_instance(detail),), at, deadline)
    if name in _BLOCK:
        return NodeNotice(event_id, "capacity", (_reservation(detail),), at, _block_deadline(detail, at))
    if name == _HEALTH:
        return _maintenance(event_id, at, detail)
    if name == _BUDGET:
        withdrawn = _text(detail, "state") == "resumed"
        return NodeNotice(event_id, "budget", (_instance(detail),), at, None, withdrawn)
    raise UnusableError("irrelevant", f"detail-type {_shown(name)}")


def _event(body: str) -> dict[str, Any]:
    if len(body) > LONGEST_BODY:
        raise UnusableError("malformed", f"{len(body)} characters")
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        raise UnusableError("malformed", "no JSON") from None
    if not isinstance(event, dict):
        raise UnusableError("malformed", "no object")
    return event


def _text(event: Mapping[str, Any], *keys: str) -> str:
    for key in keys:
        value = event.get(key)
        if isinstance(value, str) and 0 < len(value) <= 200:
            return value
    raise UnusableError("malformed", f"{keys[0]} is {_shown(event.get(keys[0]))}")


def _moment(value: Any, key: str) -> float:
    """Return epoch seconds of ISO 8601 (`2026-01-02T03:04:05Z`) or of an HTTP date, as AWS Health has it."""
    if isinstance(value, str) and len(value) <= 64:
        for read in (datetime.fromisoformat, parsedate_to_datetime):
            try:
                found = read(value)
                return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                continue
    raise UnusableError("malformed", f"{key} is {_shown(value)}")


def _instance(detail: Mapping[str, Any]) -> str:
    found = detail.get("instance-id")
    if isinstance(found, str) and _INSTANCE.fullmatch(found):
        return found
    raise UnusableError("malformed", f"instance-id is {_shown(found)}")


def _reservation(detail: Mapping[str, Any]) -> str:
    found = detail.get("capacity-reservation-id")
    if isinstance(found, str) and _RESERVATION.fullmatch(found):
        return found
    raise UnusableError("malformed", f"capacity-reservation-id is {_shown(found)}")


def _block_deadline(detail: Mapping[str, Any], at: float) -> float:
    """Return when instances of the block end. Without a readable end date, the time that AWS's guide has."""
    try:
        return _moment(detail.get("end-date"), "end-date") - BLOCK_END_S
    except UnusableError:
        return at + BLOCK_WARNING_S


def _maintenance(event_id: str, at: float, detail: Mapping[str, Any]) -> NodeNotice:
    code = _text(detail, "eventTypeCode")
    if detail.get("service") != "EC2" or not _SCHEDULED.fullmatch(code):
        raise UnusableError("irrelevant", f"event type {_shown(code)}")
    subjects = tuple(dict.fromkeys(_entities(detail)))
    if not subjects:
        raise UnusableError("irrelevant", f"{code} is about no instance")
    withdrawn = detail.get("statusCode") == "closed"
    deadline = None if withdrawn else _moment(detail.get("startTime"), "startTime")
    return NodeNotice(event_id, "maintenance", subjects, at, deadline, withdrawn)


def _entities(detail: Mapping[str, Any]) -> Iterator[str]:
    found = detail.get("affectedEntities")
    for each in found if isinstance(found, list) else ():
        value = each.get("entityValue") if isinstance(each, dict) else None
        if isinstance(value, str) and _INSTANCE.fullmatch(value):
            yield value


def _shown(value: Any) -> str:
    """Return the value for the audit log: one line, at most 80 characters."""
    return repr(value)[:80]
