"""The resource groups of On-Demand Capacity Reservations that a fleet file names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from gpufleet.account.needs import RegionNeeds
from gpufleet.account.reading import Clients, NotCheckedError, error_code, pages, read
from gpufleet.account.result import AccountFinding, SpecPath
from gpufleet.plan.capacity_models import ReservationGroupPlan

POOL = "AWS::EC2::CapacityReservationPool"
"""The configuration by which launches can target a group (EC2 User Guide, "Create a Capacity Reservation
group")."""

_MEMBER = "AWS::EC2::CapacityReservation"

Fact = dict[str, Any]


class _Drawn(Struct, frozen=True):
    path: SpecPath
    name: str
    type: str
    capacity: ReservationGroupPlan


class GroupReader:
    """Reads the groups and compares them with the node groups that draw from them.

    `findings`, `unchecked` and `facts` are those of `AccountCheck`.
    """

    def __init__(self, needs: RegionNeeds, clients: Clients, now: dt.datetime, soon: dt.timedelta) -> None:
        self._needs = needs
        self._clients = clients
        self._now = now
        self._soon = soon
        self._earlier: list[_Drawn] = []
        self.findings: list[AccountFinding] = []
        self.unchecked: list[str] = []
        self.members: list[Fact] = []

    def run(self) -> None:
        """Check all groups of the region."""
        for drawn in self._drawn():
            try:
                self.findings += self._judged(drawn)
            except NotCheckedError as error:
                self.unchecked.append(f"{drawn.capacity.reservation_group}: {error}")

    def _drawn(self) -> Iterator[_Drawn]:
        for site in self._needs.sites:
            for index, group in enumerate(site.plan.node_groups):
                if isinstance(group.capacity, ReservationGroupPlan):
                    path = (*site.path, "node_groups", index, "capacity", "reserved", "odcr")
                    yield _Drawn(path, f"{group.site}/{group.name}", group.instance_type, group.capacity)

    def _judged(self, drawn: _Drawn) -> Iterator[AccountFinding]:
        arn = drawn.capacity.reservation_group
        if (problem := self._problem(arn)) is not None:
            yield AccountFinding(
                "reservation-group",
                (*drawn.path, "group"),
                arn,
                f"{drawn.name}: {problem}",
                "write the ARN of a group for Capacity Reservations (`aws resource-groups list-groups`)",
            )
            return
        held = self._members(arn)
        self.members += [each for each in held if each not in self.members]
        yield from self._counted(drawn, [each for each in held if self._fits(drawn, each)])

    def _problem(self, arn: str) -> str | None:
        """Return why launches cannot target a group."""
        from botocore.exceptions import ClientError

        client = self._clients("resource-groups", self._needs.region)
        try:
            found = read(client, "get_group_configuration", Group=arn)["GroupConfiguration"]
        except ClientError as error:
            if error_code(error) != "NotFoundException":
                raise NotCheckedError(error_code(error)) from None
            return f"the account has no resource group {arn} in {self._needs.region}"
        if not any(each["Type"] == POOL for each in found.get("Configuration") or ()):
            return f"{arn} is not a group of Capacity Reservations ({POOL})"
        return None

    def _members(self, arn: str) -> Sequence[Fact]:
        from botocore.exceptions import ClientError

        groups = self._clients("resource-groups", self._needs.region)
        ids = []
        for each in pages(groups, "list_group_resources", "Resources", Group=arn):
            identifier = each.get("Identifier") or {}
            if identifier.get("ResourceType") == _MEMBER:
                ids.append(str(identifier["ResourceArn"]).rpartition("/")[2])
        if not ids:
            return ()
        client = self._clients("ec2", self._needs.region)
        try:
            return [
                *pages(
                    client,
                    "describe_capacity_reservations",
                    "CapacityReservations",
                    Filters=[{"Name": "state", "Values": ["active"]}],
                    CapacityReservationIds=ids,
                )
            ]
        except ClientError as error:
            raise NotCheckedError(error_code(error)) from None

    def _fits(self, drawn: _Drawn, held: Fact) -> bool:
        """Return whether nodes can launch into a reservation now."""
        end = held.get("EndDate")
        return (
            held["State"] == "active"
            and (end is None or end > self._now)
            and held.get("ReservationType", "default") == "default"
            and held["InstanceType"] == drawn.type
            and held["AvailabilityZone"] in drawn.capacity.zones
        )

    def _counted(self, drawn: _Drawn, held: Sequence[Fact]) -> Iterator[AccountFinding]:
        """Compare the nodes with what the group holds for them, besides what earlier node groups take."""
        group, wanted = drawn.capacity.reservation_group, drawn.capacity.nodes
        where = f"{drawn.type} in {', '.join(drawn.capacity.zones)}"
        taken = sum(
            each.capacity.nodes
            for each in self._earlier
            if (each.capacity.reservation_group, each.type) == (group, drawn.type)
            and {*each.capacity.zones} & {*drawn.capacity.zones}
        )
        self._earlier.append(drawn)
        total = sum(int(each["TotalInstanceCount"]) for each in held) - taken
        free = sum(int(each["AvailableInstanceCount"]) for each in held) - taken
        if total < wanted:
            yield self._finding(
                drawn,
                max(total, 0),
                f"{group} holds {max(total, 0)} instances of {where}, and the node group has {wanted} nodes",
                "write fewer nodes, or add a reservation to the group",
            )
            return
        if free < wanted:
            # Those of earlier node groups run in it, too: they are not counted twice.
            free = min(free + self._own(held), total)
        if free < wanted:
            yield self._finding(
                drawn,
                max(free, 0),
                f"{max(free, 0)} of {total} instances of {where} in {group} are free or run for the fleet,"
                f" and the node group has {wanted} nodes",
                "stop what else runs in them, or write fewer nodes",
            )
        lasting = [
            each
            for each in held
            if (each.get("EndDate") or dt.datetime.max.replace(tzinfo=dt.UTC)) > self._now + self._soon
        ]
        left = sum(int(each["TotalInstanceCount"]) for each in lasting)
        if left < wanted:
            ends = min(each["EndDate"] for each in held if each not in lasting)
            yield AccountFinding(
                "reservation-end",
                (*drawn.path, "group"),
                f"{ends:%Y-%m-%d %H:%M} UTC",
                f"{drawn.name}: reservations of {group} end from {ends:%Y-%m-%d %H:%M} UTC on, and {left}"
                f" instances of {where} are left, for {wanted} nodes",
                "extend them, or add others to the group",
                severity="warning",
            )

    @staticmethod
    def _finding(drawn: _Drawn, value: int, message: str, remedy: str) -> AccountFinding:
        path = (*drawn.path, "nodes")
        return AccountFinding("reservation-nodes", path, value, f"{drawn.name}: {message}", remedy)

    def _own(self, held: Sequence[Fact]) -> int:
        ids = {each["CapacityReservationId"] for each in held}
        states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        client = self._clients("ec2", self._needs.region)
        return sum(
            1
            for reservation in pages(client, "describe_instances", "Reservations", Filters=states)
            for instance in reservation["Instances"]
            if instance.get("CapacityReservationId") in ids and self._needs.owns(instance.get("Tags"))
        )
