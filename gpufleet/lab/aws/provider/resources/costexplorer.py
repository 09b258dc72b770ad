"""Cost anomaly detection: monitors and subscribers."""

from __future__ import annotations

import json
from typing import Any

from gpufleet.lab.aws.provider.handler import AutoName, Aws, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list, tags_to_map, to_request
from gpufleet.lab.aws.provider.resources.ec2 import find
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props


def _tags(aws: Aws, arn: str) -> dict[str, str]:
    return tags_to_map(aws.client("ce").list_tags_for_resource(ResourceArn=arn).get("ResourceTags"))


def _retag(aws: Aws, arn: str, old: Props, new: Props) -> None:
    retag(aws.client("ce"), {"ResourceArn": arn}, old, new, tags="ResourceTags", keys="ResourceTagKeys")


def _given_tags(inputs: Props) -> dict[str, Any]:
    return {"ResourceTags": tag_list(inputs["tags"])} if inputs.get("tags") else {}


class AnomalyMonitor(Handler):
    """aws.costexplorer.AnomalyMonitor."""

    pulumi_type = "aws:costexplorer/anomalyMonitor:AnomalyMonitor"
    force_new = frozenset({"monitorDimension", "monitorSpecification", "monitorType"})
    documents = frozenset({"monitorSpecification"})
    auto_name = AutoName(max_length=1024)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that a dimension or a specification is set, by type."""
        needed = "monitorDimension" if inputs.get("monitorType") == "DIMENSIONAL" else "monitorSpecification"
        if inputs.get("monitorType") in {"DIMENSIONAL", "CUSTOM"} and not inputs.get(needed):
            return [Problem(needed, f"monitorType {inputs['monitorType']} needs {needed}: set it")]
        return []

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the monitor."""
        monitor: dict[str, Any] = {"MonitorName": inputs["name"], "MonitorType": inputs["monitorType"]}
        if inputs.get("monitorDimension"):
            monitor["MonitorDimension"] = inputs["monitorDimension"]
        if inputs.get("monitorSpecification"):
            monitor["MonitorSpecification"] = json.loads(inputs["monitorSpecification"])
        made = aws.client("ce").create_anomaly_monitor(AnomalyMonitor=monitor, **_given_tags(inputs))
        return str(made["MonitorArn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The monitor."""
        found = find(aws.client("ce").get_anomaly_monitors, "AnomalyMonitors", MonitorArnList=[rid])
        if found is None:
            return None
        out = self.decode(
            found, Names(rename={"name": "MonitorName"}, decode={"monitorSpecification": json.dumps})
        )
        return out | {"arn": rid, "tags": _tags(aws, rid)}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change name and tags in place."""
        if "name" in changed:
            aws.client("ce").update_anomaly_monitor(MonitorArn=rid, MonitorName=new["name"])
        _retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the monitor."""
        aws.client("ce").delete_anomaly_monitor(MonitorArn=rid)


_EXPRESSION = Names(
    rename={
        **{f"{path}dimension": "Dimensions" for path in ("", "ands.", "ors.", "not.")},
        **{f"{path}costCategory": "CostCategories" for path in ("", "ands.", "ors.", "not.")},
        "ands": "And",
        "ors": "Or",
    }
)


class AnomalySubscription(Handler):
    """aws.costexplorer.AnomalySubscription."""

    pulumi_type = "aws:costexplorer/anomalySubscription:AnomalySubscription"
    force_new = frozenset({"accountId", "name"})
    computed = frozenset({"accountId", "thresholdExpression"})
    sets = frozenset({"subscribers"})
    auto_name = AutoName(max_length=1024)
    _names = Names(
        rename={
            "name": "SubscriptionName",
            "arn": "SubscriptionArn",
            **{f"thresholdExpression.{key}": value for key, value in _EXPRESSION.rename.items()},
        }
    )

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the subscription."""
        shape = aws.client("ce").meta.service_model.shape_for("AnomalySubscription")
        keys = ("accountId", "frequency", "monitorArnLists", "name", "subscribers", "thresholdExpression")
        subscription = to_request(shape, _singular(only(inputs, *keys)), self._names)
        made = aws.client("ce").create_anomaly_subscription(
            AnomalySubscription=subscription, **_given_tags(inputs)
        )
        return str(made["SubscriptionArn"])

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """The subscription."""
        found = find(
            aws.client("ce").get_anomaly_subscriptions, "AnomalySubscriptions", SubscriptionArnList=[rid]
        )
        if found is None:
            return None
        out = self.decode(found, self._names)
        out["monitorArnLists"] = list(found.get("MonitorArnList") or ())
        for subscriber in out.get("subscribers") or ():
            subscriber.pop("status", None)
        return out | {"arn": rid, "accountId": found.get("AccountId") or aws.account, "tags": _tags(aws, rid)}

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change frequency, monitors, subscribers, threshold and tags in place."""
        keys = [
            key for key in ("frequency", "monitorArnLists", "subscribers", "thresholdExpression")
            if key in changed and new.get(key) is not None
        ]  # fmt: skip
        if keys:
            shape = (
                aws.client("ce").meta.service_model.operation_model("UpdateAnomalySubscription").input_shape
            )
            parameters = to_request(shape, _singular(only(new, *keys)), self._names)
            aws.client("ce").update_anomaly_subscription(SubscriptionArn=rid, **parameters)
        _retag(aws, rid, old, new)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the subscription."""
        aws.client("ce").delete_anomaly_subscription(SubscriptionArn=rid)


def _singular(inputs: Props) -> Props:
    """Rename the list of monitors, which AWS calls MonitorArnList."""
    return {"monitorArnList" if key == "monitorArnLists" else key: value for key, value in inputs.items()}


HANDLERS = (AnomalyMonitor(), AnomalySubscription())
