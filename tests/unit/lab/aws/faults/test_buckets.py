"""EC2's published token buckets."""

from __future__ import annotations

import pytest

from gpufleet.lab.aws.faults.buckets import RequestRate, TokenBucket, request_rate, resource_rate

# Amazon EC2 Developer Guide, "Request throttling for the Amazon EC2 API".
PUBLISHED = [
    ("DescribeVpcs", {}, 100, 20),
    ("GetLaunchTemplateData", {}, 100, 20),
    ("DescribeInstances", {}, 50, 10),
    ("DescribeInstances", {"Filter.1.Name": "vpc-id"}, 100, 20),
    ("DescribeSecurityGroups", {"MaxResults": "5"}, 100, 20),
    ("CreateSubnet", {}, 50, 5),
    ("CreateCapacityReservation", {}, 50, 5),
    ("AuthorizeSecurityGroupIngress", {}, 50, 5),
    ("CreateTags", {}, 100, 10),
    ("CreateLaunchTemplateVersion", {}, 100, 5),
    ("CreateNatGateway", {}, 10, 1),
    ("CreateVpcEndpoint", {}, 4, 0.3),
    ("PurchaseCapacityBlock", {}, 10, 0.15),
    ("DescribeCapacityBlockOfferings", {}, 10, 0.15),
    ("DescribeInstanceTopology", {}, 1, 1),
    ("RunInstances", {}, 5, 2),
]


@pytest.mark.parametrize(("action", "parameters", "capacity", "refill"), PUBLISHED)
def test_action_has_the_bucket_published_by_aws(
    action: str, parameters: dict[str, str], capacity: float, refill: float
) -> None:
    assert request_rate(action, parameters)[1] == RequestRate(capacity, refill)


def test_launches_also_consume_tokens_per_instance() -> None:
    assert resource_rate("RunInstances") == RequestRate(1000, 2)
    assert resource_rate("TerminateInstances") == RequestRate(1000, 20)
    assert resource_rate("CreateSubnet") is None


def test_full_bucket_gives_its_capacity_at_once_and_then_refills() -> None:
    bucket = TokenBucket(RequestRate(4, 0.5), 100.0)
    assert [bucket.take(1, 100.0) for _ in range(5)] == [True] * 4 + [False]
    assert not bucket.take(1, 101.9)
    assert bucket.take(1, 102.0)
    assert not bucket.take(1, 102.0)


def test_bucket_never_exceeds_its_capacity() -> None:
    bucket = TokenBucket(RequestRate(2, 10), 0.0)
    assert [bucket.take(1, 1000.0) for _ in range(3)] == [True, True, False]


def test_refused_request_consumes_no_tokens() -> None:
    bucket = TokenBucket(RequestRate(10, 1), 0.0)
    assert not bucket.take(11, 0.0)
    assert bucket.take(10, 0.0)
