"""The history of spot prices that EC2 keeps (90 days), read from an account."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from gpufleet.errors import CloudError, InputError

MOST_DAYS = 90
"""EC2 API Reference, DescribeSpotPriceHistory: the past 90 days."""


def read_spot_history(
    ec2: Any, instance_type: str, now: dt.datetime, days: int
) -> dict[str, Sequence[tuple[dt.datetime, float]]]:
    """Return times and prices (USD per instance-hour) by zone, oldest first, up to `now`.

    A price holds until the next one; that of the first time was valid before. `ec2` is a client of the
    region. Raises InputError if AWS has no prices of the type there, CloudError if it does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    if not 1 <= days <= MOST_DAYS:
        raise InputError(f"{days} days of prices: EC2 keeps {MOST_DAYS} days", remedy="write --history 30")
    start = now - dt.timedelta(days=days)
    try:
        pages = ec2.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=[instance_type],
            ProductDescriptions=["Linux/UNIX"],
            StartTime=start,
            EndTime=now,
        )
        records = [record for page in pages for record in page["SpotPriceHistory"]]
    except (BotoCoreError, ClientError) as error:
        raise CloudError(
            f"the spot prices of {instance_type} cannot be read: {error}",
            remedy="the call needs ec2:DescribeSpotPriceHistory; or pass a file with --prices",
        ) from None
    found: dict[str, list[tuple[dt.datetime, float]]] = {}
    for record in sorted(records, key=lambda each: each["Timestamp"]):
        # The price that holds at the start has an earlier time.
        moment = max(record["Timestamp"], start)
        found.setdefault(record["AvailabilityZone"], []).append((moment, float(record["SpotPrice"])))
    if not found:
        raise InputError(
            f"EC2 has no spot prices of {instance_type} in this region in the last {days} days",
            remedy="it is not offered as spot there; choose another region or type",
        )
    return {zone: [*points, (now, points[-1][1])] for zone, points in sorted(found.items())}
