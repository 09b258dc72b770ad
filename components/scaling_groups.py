"""The sizes of Auto Scaling groups, set one after the other and held at what came.

Used by dynamic resources. The module imports nothing that imports pulumi_aws.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufleet.components.capacity_block_schedule import STOP_BEFORE_END
from gpufleet.components.dynamic import client, iso

POLL_S = 10.0
"""Seconds between two reads of a group, or less if the wait is shorter."""

QUIET_S = 60.0
"""Seconds without a launch after a failed one, or less if the wait is shorter. Auto Scaling tries the other
zones and types of a group at once, and the same ones again minutes later."""

_PENDING = ("Pending", "Pending:Wait", "Pending:Proceed")


@dataclass(frozen=True)
class Source:
    """A group to draw from: its name in messages, its Auto Scaling group, its limit, its Capacity Block, and
    its region if that is not the resource's."""

    name: str
    group: str
    most: int
    block_id: str | None = None
    region: str | None = None

    @classmethod
    def of(cls, props: Mapping[str, Any]) -> Source:
        """Return the source of a resource's input; numbers are floating point in Pulumi's protocol."""
        return cls(
            str(props["name"]),
            str(props["group_name"]),
            int(props["most"]),
            props.get("block_id"),
            props.get("region"),
        )


@dataclass(frozen=True)
class Draw:
    """Nodes in service by source, and why some sources gave less than was asked of them."""

    obtained: Mapping[str, int]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class _Group:
    desired: int
    limit: int
    running: frozenset[str]
    pending: frozenset[str]
    launches: bool


@dataclass
class ScalingGroups:
    """The Auto Scaling groups of a resource's sources, in its `region` or theirs and with its `client`."""

    props: Mapping[str, Any]
    _clients: dict[tuple[str, str], Any] = field(init=False, default_factory=dict)

    def _client(self, service: str, source: Source) -> Any:
        region = source.region or str(self.props["region"])
        if (service, region) not in self._clients:
            self._clients[service, region] = client({**self.props, "region": region}, service)
        return self._clients[service, region]

    def in_service(self, sources: Sequence[Source]) -> dict[str, int]:
        """Return the nodes in service by source. A group that is gone has none."""
        found = self._read_groups(sources)
        return {
            source.name: len(found[source.group].running) if source.group in found else 0
            for source in sources
        }

    def oldest(self, sources: Sequence[Source], counts: Mapping[str, int]) -> dict[str, frozenset[str]]:
        """Return so many of the instances in service by source, those that run longest."""
        found = {}
        for source in sources:
            running, count = self._one(source).running, counts.get(source.name, 0)
            found[source.name] = running if len(running) <= count else self._by_age(source, running, count)
        return found

    def fill(self, sources: Sequence[Source], wanted: int) -> Draw:
        """Draw up to `wanted` nodes in the order of the sources, keeping those that run.

        Afterwards no group asks for more nodes than it has. With more nodes than wanted, the last sources
        lose some.
        """
        reasons: list[str] = []
        for source in sources:
            self._settle(source)
        have = self.in_service(sources)
        surplus = sum(have.values()) - wanted
        for source in reversed(sources):
            less = min(max(surplus, 0), have[source.name])
            if less:
                have[source.name] -= less
                surplus -= less
                self._resize(source, have[source.name])
        for source in sources:
            missing = wanted - sum(have.values())
            if missing <= 0:
                break
            limit, why = self._limit(source)
            target = min(limit, have[source.name] + missing)
            if target > have[source.name]:
                why = self._grow(source, target) or why
            before, have[source.name] = have[source.name], len(self._one(source).running)
            if have[source.name] < before + missing and why:
                reasons.append(
                    f"{source.name} has {have[source.name]} of {target or before + missing}: {why}"
                )
        return Draw(have, tuple(reasons))

    def give_back(self, sources: Sequence[Source], kept: Mapping[str, Collection[str]]) -> None:
        """End the nodes that are not among `kept` (instances by source), and those that still start."""
        for source in reversed(sources):
            self._settle(source)
            for instance in sorted(self._one(source).running - set(kept.get(source.name, ()))):
                self._end(source, instance)

    # -- one group

    def _grow(self, source: Source, target: int) -> str:
        """Ask for nodes and wait; return why fewer came. The group then asks for no more than it has."""
        began, limit = datetime.now(UTC), float(self.props["wait_s"])
        clock = time.monotonic()
        deadline, quiet, last = clock + limit, min(QUIET_S, limit / 4), clock
        seen = len(self._one(source).running)
        self._resize(source, target)
        while True:
            group, now = self._one(source), time.monotonic()
            if len(group.running) >= target:
                return ""
            if group.pending or len(group.running) != seen:
                seen, last = len(group.running), now
            failures = self._failures(source, began)
            if now >= deadline or (failures and now - last >= quiet):
                break
            time.sleep(min(POLL_S, max(deadline - now, 0), max(quiet, 0.02)))
        self._settle(source)
        if failures:
            return "; ".join(failures)
        waited = f"{limit / 60:g} min" if limit >= 60 else f"{limit:g} s"
        return f"no more nodes came in {waited}, and Auto Scaling reports no failed launch"

    def _settle(self, source: Source) -> None:
        """Make the group ask for what it has: end what still starts, and lower its size."""
        for instance in sorted(self._one(source).pending):
            self._end(source, instance)
        group = self._one(source)
        if group.desired != len(group.running):
            self._resize(source, len(group.running))

    def _resize(self, source: Source, nodes: int) -> None:
        self._client("autoscaling", source).set_desired_capacity(
            AutoScalingGroupName=source.group, DesiredCapacity=nodes, HonorCooldown=False
        )

    def _end(self, source: Source, instance: str) -> None:
        """End one instance, and no other in its place. One that is gone already is no error."""
        from botocore.exceptions import ClientError

        try:
            self._client("autoscaling", source).terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=True
            )
        except ClientError as error:
            if "not found" not in str(error).lower():
                raise

    def _limit(self, source: Source) -> tuple[int, str]:
        """Return how many nodes the source may have now, and what limits it."""
        if source.block_id is not None and (why := self._closed(source, source.block_id)):
            return 0, why
        group = self._one(source)
        if not group.launches:
            return len(group.running), "its Auto Scaling group launches no nodes, as after a spent budget"
        most = group.limit
        if most < source.most:
            return most, f"the maximum of its Auto Scaling group is {most}"
        return source.most, ""

    def _closed(self, source: Source, block_id: str) -> str:
        """Return why a Capacity Block has no nodes now; empty if it has."""
        ec2 = self._client("ec2", source)
        found = ec2.describe_capacity_reservations(CapacityReservationIds=[block_id])["CapacityReservations"]
        if not found or not found[0].get("EndDate"):
            return f"{block_id} is no Capacity Block"
        start, end, now = found[0]["StartDate"], found[0]["EndDate"], datetime.now(UTC)
        if now < start:
            return f"its Capacity Block starts at {iso(start)}"
        last = end - STOP_BEFORE_END
        return f"its Capacity Block ended its nodes at {iso(last)}" if now >= last else ""

    def _failures(self, source: Source, since: datetime) -> list[str]:
        """Return the reasons of failed launches since a moment, each once."""
        found = self._client("autoscaling", source).describe_scaling_activities(
            AutoScalingGroupName=source.group, MaxRecords=50
        )
        reasons = [
            str(each.get("StatusMessage") or each.get("Description") or "no reason was given").rstrip(".")
            for each in found["Activities"]
            # Times of activities are whole seconds.
            if each["StatusCode"] in ("Failed", "Cancelled")
            and each["StartTime"] >= since - timedelta(seconds=1)
        ]
        return list(dict.fromkeys(reasons))[:3]

    def _one(self, source: Source) -> _Group:
        found = self._read_groups([source]).get(source.group)
        if found is None:
            raise Exception(f"the Auto Scaling group {source.group} does not exist: run the command again")
        return found

    def _by_age(self, source: Source, instances: Collection[str], count: int) -> frozenset[str]:
        if not count:
            return frozenset()
        pages = (
            self._client("ec2", source)
            .get_paginator("describe_instances")
            .paginate(InstanceIds=sorted(instances))
        )
        launched = {
            instance["InstanceId"]: instance["LaunchTime"]
            for page in pages
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        }
        return frozenset(sorted(launched, key=lambda each: (launched[each], each))[:count])

    def _read_groups(self, sources: Sequence[Source]) -> dict[str, _Group]:
        """Return the groups that exist, by name; names of gpufleet's groups have their site in them."""
        by_region: dict[str | None, list[Source]] = {}
        for source in sources:
            by_region.setdefault(source.region, []).append(source)
        pages = (
            page
            for there in by_region.values()
            for page in self._client("autoscaling", there[0])
            .get_paginator("describe_auto_scaling_groups")
            .paginate(AutoScalingGroupNames=[source.group for source in there])
        )
        return {
            group["AutoScalingGroupName"]: _Group(
                int(group["DesiredCapacity"]),
                int(group["MaxSize"]),
                _members(group, ("InService",)),
                _members(group, _PENDING),
                "Launch" not in (each["ProcessName"] for each in group.get("SuspendedProcesses", ())),
            )
            for page in pages
            for group in page["AutoScalingGroups"]
        }


def _members(group: Mapping[str, Any], states: Sequence[str]) -> frozenset[str]:
    return frozenset(each["InstanceId"] for each in group["Instances"] if each["LifecycleState"] in states)
