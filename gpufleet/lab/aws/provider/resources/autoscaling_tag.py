"""Tags of Auto Scaling groups that other resources own."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.provider.handler import Aws, Handler
from gpufleet.lab.aws.provider.wire import Props

_KIND = "auto-scaling-group"


class Tag(Handler):
    """aws.autoscaling.Tag."""

    pulumi_type = "aws:autoscaling/tag:Tag"
    force_new = frozenset({"autoscalingGroupName", "tag.key"})
    takes_default_tags = False

    def create(self, aws: Aws, inputs: Props) -> str:
        """Tag the group; the id is `<group>,<key>`."""
        self._put(aws, inputs)
        return f"{inputs['autoscalingGroupName']},{inputs['tag']['key']}"

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the tag, or None if the group or its tag is gone."""
        group, _, key = rid.partition(",")
        filters = [{"Name": _KIND, "Values": [group]}, {"Name": "key", "Values": [key]}]
        found = aws.client("autoscaling").describe_tags(Filters=filters)["Tags"]
        if not found:
            return None
        (tag,) = found
        return {
            "autoscalingGroupName": group,
            "tag": {
                "key": key,
                "value": tag.get("Value") or "",
                "propagateAtLaunch": bool(tag.get("PropagateAtLaunch")),
            },
        }

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Write another value."""
        self._put(aws, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Remove the tag, unless its group has gone with it."""
        if self.read(aws, rid, state) is not None:
            group, _, key = rid.partition(",")
            aws.client("autoscaling").delete_tags(
                Tags=[{"ResourceId": group, "ResourceType": _KIND, "Key": key}]
            )

    @staticmethod
    def _put(aws: Aws, inputs: Props) -> None:
        tag: dict[str, Any] = inputs["tag"]
        aws.client("autoscaling").create_or_update_tags(
            Tags=[
                {
                    "ResourceId": inputs["autoscalingGroupName"],
                    "ResourceType": _KIND,
                    "Key": tag["key"],
                    "Value": str(tag["value"]),
                    "PropagateAtLaunch": bool(tag["propagateAtLaunch"]),
                }
            ]
        )


HANDLERS = (Tag(),)
