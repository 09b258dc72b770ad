"""Cost anomaly monitors and their subscriptions (Cost Explorer)."""

from __future__ import annotations

import uuid
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.utils import utcnow
from moto.utilities.utils import PARTITION_NAMES

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation


class AnomalyBackend(BaseBackend):  # type: ignore[misc]
    """Monitors and subscriptions of one account, by ARN."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.monitors: dict[str, Params] = {}
        self.subscriptions: dict[str, Params] = {}


anomaly_backends = BackendDict(
    AnomalyBackend, "ce", use_boto3_regions=False, additional_regions=PARTITION_NAMES
)


def _backend(call: Call) -> AnomalyBackend:
    found: AnomalyBackend = anomaly_backends[call.account][call.partition]
    return found


@operation("ce", "CreateAnomalyMonitor")
def create_anomaly_monitor(call: Call) -> Params:
    """Monitor services (DIMENSIONAL) or the resources of an expression (CUSTOM)."""
    monitor = dict(call.params["AnomalyMonitor"])
    kind = monitor["MonitorType"]
    if kind == "DIMENSIONAL" and not monitor.get("MonitorDimension"):
        raise AwsError("ValidationException", "A DIMENSIONAL monitor needs MonitorDimension.")
    if kind == "CUSTOM" and not monitor.get("MonitorSpecification"):
        raise AwsError("ValidationException", "A CUSTOM monitor needs MonitorSpecification.")
    services = [one for one in _backend(call).monitors.values() if one.get("MonitorDimension") == "SERVICE"]
    if monitor.get("MonitorDimension") == "SERVICE" and services:
        raise AwsError("LimitExceededException", "Limit exceeded on dimensional spend monitor creation")
    arn = f"arn:{call.partition}:ce::{call.account}:anomalymonitor/{uuid.uuid4()}"
    today = utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")
    monitor |= {"MonitorArn": arn, "CreationDate": today, "LastUpdatedDate": today}
    _backend(call).monitors[arn] = monitor
    _tag(call, arn)
    return {"MonitorArn": arn}


@operation("ce", "GetAnomalyMonitors")
def get_anomaly_monitors(call: Call) -> Params:
    """Monitors by ARN, or all of them."""
    every = _backend(call).monitors
    arns = call.params.get("MonitorArnList") or []
    chosen = [_monitor(call, arn) for arn in arns] or list(every.values())
    return {"AnomalyMonitors": chosen}


@operation("ce", "UpdateAnomalyMonitor")
def update_anomaly_monitor(call: Call) -> Params:
    """Rename a monitor."""
    monitor = _monitor(call, call.params["MonitorArn"])
    if call.params.get("MonitorName"):
        monitor["MonitorName"] = call.params["MonitorName"]
    return {"MonitorArn": monitor["MonitorArn"]}


@operation("ce", "DeleteAnomalyMonitor")
def delete_anomaly_monitor(call: Call) -> Params:
    """Delete a monitor; subscriptions lose it."""
    monitor = _monitor(call, call.params["MonitorArn"])
    del _backend(call).monitors[monitor["MonitorArn"]]
    for one in _backend(call).subscriptions.values():
        one["MonitorArnList"] = [arn for arn in one["MonitorArnList"] if arn != monitor["MonitorArn"]]
    return {}


@operation("ce", "CreateAnomalySubscription")
def create_anomaly_subscription(call: Call) -> Params:
    """Notify subscribers of anomalies above a threshold."""
    wanted = dict(call.params["AnomalySubscription"])
    for arn in wanted["MonitorArnList"]:
        _monitor(call, arn)
    _check_subscribers(wanted["Frequency"], wanted["Subscribers"])
    if not wanted.get("ThresholdExpression") and wanted.get("Threshold") is None:
        raise AwsError("ValidationException", "Either Threshold or ThresholdExpression must be given.")
    arn = f"arn:{call.partition}:ce::{call.account}:anomalysubscription/{uuid.uuid4()}"
    confirmed = [{**one, "Status": "CONFIRMED"} for one in wanted["Subscribers"]]
    wanted |= {"SubscriptionArn": arn, "AccountId": call.account, "Subscribers": confirmed}
    _backend(call).subscriptions[arn] = wanted
    _tag(call, arn)
    return {"SubscriptionArn": arn}


@operation("ce", "GetAnomalySubscriptions")
def get_anomaly_subscriptions(call: Call) -> Params:
    """Subscriptions by ARN or monitor, or all of them."""
    arns = call.params.get("SubscriptionArnList") or []
    chosen = [_subscription(call, arn) for arn in arns] or list(_backend(call).subscriptions.values())
    monitor = call.params.get("MonitorArn")
    return {"AnomalySubscriptions": [one for one in chosen if monitor in (None, *one["MonitorArnList"])]}


@operation("ce", "UpdateAnomalySubscription")
def update_anomaly_subscription(call: Call) -> Params:
    """Change the settings in the request."""
    given = call.params
    found = _subscription(call, given["SubscriptionArn"])
    for arn in given.get("MonitorArnList") or []:
        _monitor(call, arn)
    frequency, subscribers = given.get("Frequency"), given.get("Subscribers")
    _check_subscribers(frequency or found["Frequency"], subscribers or found["Subscribers"])
    if subscribers:
        found["Subscribers"] = [{**one, "Status": "CONFIRMED"} for one in subscribers]
    for key in ("Frequency", "MonitorArnList", "SubscriptionName", "Threshold", "ThresholdExpression"):
        if given.get(key) is not None:
            found[key] = given[key]
    return {"SubscriptionArn": found["SubscriptionArn"]}


@operation("ce", "DeleteAnomalySubscription")
def delete_anomaly_subscription(call: Call) -> Params:
    """Delete a subscription."""
    found = _subscription(call, call.params["SubscriptionArn"])
    del _backend(call).subscriptions[found["SubscriptionArn"]]
    return {}


@operation("ce", "GetAnomalies")
def get_anomalies(call: Call) -> Params:
    """Return none: an emulated account has no costs."""
    return {"Anomalies": []}


def _check_subscribers(frequency: str, subscribers: list[Params]) -> None:
    for one in subscribers:
        if (one.get("Type") == "SNS") != (frequency == "IMMEDIATE"):
            message = "SNS subscribers need the frequency IMMEDIATE, email subscribers DAILY or WEEKLY."
            raise AwsError("ValidationException", message)


def _monitor(call: Call, arn: str) -> Params:
    found = _backend(call).monitors.get(arn)
    if found is None:
        raise AwsError("UnknownMonitorException", f"Unknown monitor: {arn}")
    return found


def _subscription(call: Call, arn: str) -> Params:
    found = _backend(call).subscriptions.get(arn)
    if found is None:
        raise AwsError("UnknownSubscriptionException", f"Unknown subscription: {arn}")
    return found


def _tag(call: Call, arn: str) -> None:
    from moto.ce.models import ce_backends

    backend: Any = ce_backends[call.account][call.partition]
    if call.params.get("ResourceTags"):
        backend.tag_resource(arn, call.params["ResourceTags"])
