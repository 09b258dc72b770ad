"""How EC2 throttles: the token buckets that AWS publishes, by action.

Source of every figure: Amazon EC2 Developer Guide, "Request throttling for the Amazon EC2 API"
(docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html), tables "Request token bucket sizes and
refill rates" and "Resource token bucket sizes and refill rates", as of 2025. Each action has a bucket of
its own in each account and region. Of the actions with figures of their own, those that gpufleet or its
providers call are here; AWS may give an account others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REJECTED = "RequestLimitExceeded"
"""EC2's error code; the HTTP status is 503."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A bucket: how many tokens it holds, and how many come back a second."""

    capacity: float
    refill_per_s: float


NON_MUTATING = Rate(100, 20)
UNFILTERED = Rate(50, 10)
MUTATING = Rate(50, 5)
RESOURCE_INTENSIVE = Rate(50, 5)

_READS = ("Describe", "List", "Search", "Get")
_UNFILTERED = frozenset(
    {
        "DescribeInstances",
        "DescribeInstanceStatus",
        "DescribeNetworkInterfaces",
        "DescribeSecurityGroups",
        "DescribeSnapshots",
        "DescribeSpotInstanceRequests",
        "DescribeVolumes",
    }
)
_INTENSIVE = frozenset(
    {
        "AuthorizeSecurityGroupIngress",
        "CancelSpotInstanceRequests",
        "CreateKeyPair",
        "RequestSpotInstances",
        "RevokeSecurityGroupIngress",
    }
)
_OWN: Mapping[str, Rate] = {
    "AssociateIamInstanceProfile": Rate(100, 5),
    "CreateLaunchTemplateVersion": Rate(100, 5),
    "CreateNatGateway": Rate(10, 1),
    "CreateNetworkInterface": Rate(100, 5),
    "CreateTags": Rate(100, 10),
    "CreateVolume": Rate(100, 5),
    "CreateVpcEndpoint": Rate(4, 0.3),
    "DeleteNatGateway": Rate(10, 1),
    "DeleteNetworkInterface": Rate(100, 5),
    "DeleteTags": Rate(100, 10),
    "DeleteVolume": Rate(100, 5),
    "DeleteVpcEndpoints": Rate(4, 0.3),
    "DescribeCapacityBlockExtensionOfferings": Rate(10, 0.15),
    "DescribeCapacityBlockOfferings": Rate(10, 0.15),
    "DescribeInstanceTopology": Rate(1, 1),
    "DescribeReservedInstancesOfferings": Rate(10, 10),
    "DescribeSecurityGroupReferences": Rate(20, 5),
    "ModifyInstanceMetadataOptions": Rate(100, 5),
    "ModifyLaunchTemplate": Rate(100, 5),
    "ModifyNetworkInterfaceAttribute": Rate(100, 5),
    "ModifyVpcEndpoint": Rate(4, 0.3),
    "PurchaseCapacityBlock": Rate(10, 0.15),
    "PurchaseCapacityBlockExtension": Rate(10, 0.15),
    "RunInstances": Rate(5, 2),
    "StartInstances": Rate(5, 2),
    "TerminateInstances": Rate(100, 5),
}
_RESOURCES: Mapping[str, Rate] = {
    "RunInstances": Rate(1000, 2),
    "StartInstances": Rate(1000, 2),
    "StopInstances": Rate(1000, 20),
    "TerminateInstances": Rate(1000, 20),
}
_SELECTS = ("Filter.", "MaxResults", "NextToken")


def request_rate(action: str, parameters: Mapping[str, Any]) -> tuple[str, Rate]:
    """The bucket that a request of `action` takes one token from: its name within the action, and its size.

    A description without filter and page takes from a smaller one.
    """
    if action in _OWN:
        return "", _OWN[action]
    if action in _UNFILTERED and not any(name.startswith(_SELECTS) for name in parameters):
        return "unfiltered", UNFILTERED
    if action in _INTENSIVE:
        return "", RESOURCE_INTENSIVE
    return "", NON_MUTATING if action.startswith(_READS) else MUTATING


def resource_rate(action: str) -> Rate | None:
    """The bucket that a request takes a token from for each instance; None for most actions."""
    return _RESOURCES.get(action)


class Bucket:
    """Tokens of one rate, at times that the caller says (seconds of any steady clock)."""

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.capacity)
        self._filled = now

    def take(self, tokens: float, now: float) -> bool:
        """Take that many tokens; False, and nothing taken, where there are fewer."""
        grown = self._tokens + (now - self._filled) * self._rate.refill_per_s
        self._tokens, self._filled = min(self._rate.capacity, grown), now
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True
