"""The history of spot prices, with a client whose parameters and answers botocore's service model judges."""

from __future__ import annotations

import datetime as dt
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from gpufleet.account.spot_history import read_spot_history
from gpufleet.errors import CloudError, InputError

NOW = dt.datetime(2026, 7, 31, tzinfo=dt.UTC)
START = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)


def client() -> tuple[Any, Stubber]:
    ec2 = boto3.client(
        "ec2", region_name="us-west-2", aws_access_key_id="testing", aws_secret_access_key="testing"
    )
    return ec2, Stubber(ec2)


def price(zone: str, hours: int, usd: str) -> dict[str, Any]:
    return {
        "AvailabilityZone": zone,
        "InstanceType": "p5.48xlarge",
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": usd,
        "Timestamp": START + dt.timedelta(hours=hours),
    }


def test_prices_are_sorted_by_zone_and_time_and_last_until_now() -> None:
    ec2, stub = client()
    expected = {
        "InstanceTypes": ["p5.48xlarge"],
        "ProductDescriptions": ["Linux/UNIX"],
        "StartTime": START,
        "EndTime": NOW,
    }
    pages = [
        {
            "SpotPriceHistory": [price("us-west-2b", 5, "20.1"), price("us-west-2a", 9, "13")],
            "NextToken": "x",
        },
        {"SpotPriceHistory": [price("us-west-2a", -30, "12.5")]},
    ]
    stub.add_response("describe_spot_price_history", pages[0], expected)
    stub.add_response("describe_spot_price_history", pages[1], expected | {"NextToken": "x"})
    with stub:
        found = read_spot_history(ec2, "p5.48xlarge", NOW, 30)
    assert list(found) == ["us-west-2a", "us-west-2b"]
    assert found["us-west-2a"] == [(START, 12.5), (START + dt.timedelta(hours=9), 13.0), (NOW, 13.0)]


def test_type_without_prices_is_refused_and_never_0() -> None:
    ec2, stub = client()
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": []})
    with stub, pytest.raises(InputError, match=r"has no spot prices of g7\.2xlarge"):
        read_spot_history(ec2, "g7.2xlarge", NOW, 30)
    with pytest.raises(InputError, match="91 days of prices: EC2 keeps 90 days"):
        read_spot_history(ec2, "g7.2xlarge", NOW, 91)


def test_refusal_of_aws_is_reported_with_the_permission() -> None:
    ec2, stub = client()
    stub.add_client_error("describe_spot_price_history", "UnauthorizedOperation", "not authorized")
    with stub, pytest.raises(CloudError, match="UnauthorizedOperation") as caught:
        read_spot_history(ec2, "p5.48xlarge", NOW, 30)
    assert "ec2:DescribeSpotPriceHistory" in caught.value.remedy
