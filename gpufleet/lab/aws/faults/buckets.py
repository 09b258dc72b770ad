"""EC2's throttling: the token buckets that AWS publishes, by action.

Source of every figure: Amazon EC2 Developer Guide, "Request throttling for the Amazon EC2 API"
(docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html), tables "Request token bucket sizes and
refill rates" and "Resource token bucket sizes and refill rates", as of 2025. Each action has its own bucket
in each account and region. Of the actions with their own figures, this table has those that gpufleet or its
providers call; AWS may assign other limits to an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

REJECTED = "RequestLimitExceeded"
"""EC2's error code; the HTTP status is 503."""


class RequestRate(Struct, frozen=True):
    """A bucket: its number of tokens, and the tokens refilled per second."""

    capacity: float
    refill_per_s: float


NON_MUTATING = RequestRate(100, 20)
UNFILTERED = RequestRate(50, 10)
MUTATING = RequestRate(50, 5)
RESOURCE_INTENSIVE = RequestRate(50, 5)

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
_OWN: Mapping[str, RequestRate] = {
    "AssociateIamInstanceProfile": RequestRate(100, 5),
    "CreateLaunchTemplateVersion": RequestRate(100, 5),
    "CreateNatGateway": RequestRate(10, 1),
    "CreateNetworkInterface": RequestRate(100, 5),
    "CreateTags": RequestRate(100, 10),
    "CreateVolume": RequestRate(100, 5),
    "CreateVpcEndpoint": RequestRate(4, 0.3),
    "DeleteNatGateway": RequestRate(10, 1),
    "DeleteNetworkInterface": RequestRate(100, 5),
    "DeleteTags": RequestRate(100, 10),
    "DeleteVolume": RequestRate(100, 5),
    "DeleteVpcEndpoints": RequestRate(4, 0.3),
    "DescribeCapacityBlockExtensionOfferings": RequestRate(10, 0.15),
    "DescribeCapacityBlockOfferings": RequestRate(10, 0.15),
    "DescribeInstanceTopology": RequestRate(1, 1),
    "DescribeReservedInstancesOfferings": RequestRate(10, 10),
    "DescribeSecurityGroupReferences": RequestRate(20, 5),
    "ModifyInstanceMetadataOptions": RequestRate(100, 5),
    "ModifyLaunchTemplate": RequestRate(100, 5),
    "ModifyNetworkInterfaceAttribute": RequestRate(100, 5),
    "ModifyVpcEndpoint": RequestRate(4, 0.3),
    "PurchaseCapacityBlock": RequestRate(10, 0.15),
    "PurchaseCapacityBlockExtension": RequestRate(10, 0.15),
    "RunInstances": RequestRate(5, 2),
    "StartInstances": RequestRate(5, 2),
    "TerminateInstances": RequestRate(100, 5),
}
_RESOURCES: Mapping[str, RequestRate] = {
    "RunInstances": RequestRate(1000, 2),
    "StartInstances": RequestRate(1000, 2),
    "StopInstances": RequestRate(1000, 20),
    "TerminateInstances": RequestRate(1000, 20),
}
_SELECTS = ("Filter.", "MaxResults", "NextToken")


def request_rate(action: str, parameters: Mapping[str, Any]) -> tuple[str, RequestRate]:
    """Return the bucket of a request of `action`: its name within the action, and its size.

    A description without filter and page uses a smaller one.
    """
    if action in _OWN:
        return "", _OWN[action]
    if action in _UNFILTERED and not any(name.startswith(_SELECTS) for name in parameters):
        return "unfiltered", UNFILTERED
    if action in _INTENSIVE:
        return "", RESOURCE_INTENSIVE
    return "", NON_MUTATING if action.startswith(_READS) else MUTATING


def resource_rate(action: str) -> RequestRate | None:
    """Return the bucket from which a request takes a token per instance; None for most actions."""
    return _RESOURCES.get(action)


class TokenBucket:
    """Tokens of one rate, at times in seconds of any steady clock."""

    def __init__(self, rate: RequestRate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.capacity)
        self._filled = now

    def take(self, tokens: float, now: float) -> bool:
        """Take that many tokens; return False and take none if there are fewer."""
        grown = self._tokens + (now - self._filled) * self._rate.refill_per_s
        self._tokens, self._filled = min(self._rate.capacity, grown), now
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True
