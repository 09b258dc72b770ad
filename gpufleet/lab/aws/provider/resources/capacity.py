"""Capacity of EC2: placement groups, On-Demand Capacity Reservations and Capacity Blocks."""

from __future__ import annotations

from typing import ClassVar

from gpufleet.lab.aws.provider.errors import keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only, without
from gpufleet.lab.aws.provider.mapper import Names
from gpufleet.lab.aws.provider.resources.ec2 import await_state, find, remove, retag, tag_spec
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_STRATEGIES = ("cluster", "partition", "spread")
_ENDED = {"cancelled", "expired", "failed", "unsupported"}


class PlacementGroup(Handler):
    """aws.ec2.PlacementGroup."""

    pulumi_type = "aws:ec2/placementGroup:PlacementGroup"
    force_new = frozenset({"name", "partitionCount", "spreadLevel", "strategy"})
    computed = frozenset({"partitionCount", "spreadLevel"})
    auto_name = AutoName()

    def check(self, inputs: Props) -> list[Problem]:
        """Check that partitions are set only for partition, and spread levels only for spread."""
        found = []
        strategy = inputs.get("strategy")
        if strategy not in _STRATEGIES and "-" not in str(strategy):
            found.append(
                Problem("strategy", f"{strategy!r} is not a strategy (known: {', '.join(_STRATEGIES)})")
            )
        if inputs.get("partitionCount") and strategy != "partition":
            found.append(
                Problem("partitionCount", "partitionCount is for strategy 'partition' only: remove it")
            )
        if inputs.get("spreadLevel") and strategy != "spread":
            found.append(Problem("spreadLevel", "spreadLevel is for strategy 'spread' only: remove it"))
        return found

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the group, which AWS identifies by its name."""
        parameters = only(inputs, "strategy", "partitionCount", "spreadLevel")
        name = str(inputs["name"])
        aws.send(
            "ec2",
            "CreatePlacementGroup",
            parameters,
            None,
            GroupName=name,
            **tag_spec("placement-group", inputs),
        )
        with keep_on_failure(name):
            await_state(lambda: self._find(aws, name), "State", {"available"}, timeout_s=120, what=name)
        return name

    @staticmethod
    def _find(aws: Aws, name: str) -> Props | None:
        found = find(aws.client("ec2").describe_placement_groups, "PlacementGroups", GroupNames=[name])
        return None if found is None or found.get("State") in {"deleted", "deleting"} else found

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The group."""
        found = self._find(aws, rid)
        if found is None:
            return None
        names = Names(rename={"name": "GroupName", "placementGroupId": "GroupId", "arn": "GroupArn"})
        out = self.decode(found, names)
        out["tags"] = out.get("tags", {})
        out.setdefault("arn", aws.arn("ec2", f"placement-group/{rid}"))
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change tags, the only change in place."""
        retag(aws, str(old["placementGroupId"]), old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the group and wait until it is gone."""
        ec2 = aws.client("ec2")
        remove(lambda: ec2.delete_placement_group(GroupName=rid), lambda: self._find(aws, rid), rid)


def _reservation(aws: Aws, rid: str) -> Props | None:
    found = find(
        aws.client("ec2").describe_capacity_reservations, "CapacityReservations", CapacityReservationIds=[rid]
    )
    return None if found is None or found.get("State") in _ENDED else found


_NAMES = Names(
    rename={
        "arn": "CapacityReservationArn",
        "instanceCount": "TotalInstanceCount",
        "createdDate": "CreateDate",
    }
)


class CapacityReservation(Handler):
    """aws.ec2.CapacityReservation: On-Demand capacity, paid from its creation."""

    pulumi_type = "aws:ec2/capacityReservation:CapacityReservation"
    force_new = frozenset({
        "availabilityZone", "ebsOptimized", "ephemeralStorage", "instanceMatchCriteria", "instancePlatform",
        "instanceType", "outpostArn", "placementGroupArn", "tenancy",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {
        "ebsOptimized": False, "endDateType": "unlimited", "ephemeralStorage": False,
        "instanceMatchCriteria": "open", "tenancy": "default",
    }  # fmt: skip

    def check(self, inputs: Props) -> list[Problem]:
        """Check that an end date has the matching type."""
        limited = inputs.get("endDateType") == "limited"
        if limited != bool(inputs.get("endDate")):
            return [
                Problem("endDate", "set endDate together with endDateType 'limited', and with nothing else")
            ]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Reserve, and wait until the capacity is active."""
        made = aws.send(
            "ec2",
            "CreateCapacityReservation",
            without(inputs),
            None,
            **tag_spec("capacity-reservation", inputs),
        )
        rid = str(made["CapacityReservation"]["CapacityReservationId"])
        with keep_on_failure(rid):
            await_state(lambda: _reservation(aws, rid), "State", {"active"}, timeout_s=600, what=rid)
        return rid

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The reservation."""
        found = _reservation(aws, rid)
        if found is None:
            return None
        out = self.decode(found, _NAMES)
        out["tags"] = out.get("tags", {})
        out.setdefault("ownerId", aws.account)
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change count, end and tags in place."""
        if changed & {"instanceCount", "endDate", "endDateType"}:
            parameters = only(new, "instanceCount", "endDate", "endDateType")
            aws.send("ec2", "ModifyCapacityReservation", parameters, None, CapacityReservationId=rid)
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Cancel the reservation, unless it already is."""
        if _reservation(aws, rid) is None:
            return
        ec2 = aws.client("ec2")
        remove(
            lambda: ec2.cancel_capacity_reservation(CapacityReservationId=rid),
            lambda: _reservation(aws, rid),
            rid,
        )


class CapacityBlockReservation(Handler):
    """aws.ec2.CapacityBlockReservation: a block of days that is paid upfront and not refundable."""

    pulumi_type = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
    force_new = frozenset({"capacityBlockOfferingId", "instancePlatform"})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Buy the offering; a block that starts later is ready when it is scheduled."""
        parameters = only(inputs, "capacityBlockOfferingId", "instancePlatform")
        made = aws.send(
            "ec2", "PurchaseCapacityBlock", parameters, None, **tag_spec("capacity-reservation", inputs)
        )
        rid = str(made["CapacityReservation"]["CapacityReservationId"])
        with keep_on_failure(rid):
            await_state(
                lambda: _reservation(aws, rid), "State", {"active", "scheduled"}, timeout_s=2400, what=rid
            )
        return rid

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The block's reservation."""
        found = _reservation(aws, rid)
        if found is None:
            return None
        out = self.decode(found, _NAMES)
        out["tags"] = out.get("tags", {})
        return out

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change tags, the only change in place."""
        retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """End the block. AWS does not cancel blocks: the real provider removes it from the state, and it
        runs, paid, to its end. Here it ends at once, so that a destroyed sandbox is empty.
        """
        aws.clients.end_block(rid)


HANDLERS = (PlacementGroup(), CapacityReservation(), CapacityBlockReservation())
