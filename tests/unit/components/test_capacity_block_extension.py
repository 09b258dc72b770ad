"""Extensions of a Capacity Block: bought once, under the cap, also after a run that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from gpufleet.components import capacity_block_extension
from gpufleet.components.capacity_block_extension import ASKED, ExtensionProvider, extend_block
from gpufleet.components.capacity_block_offering import STARTED
from gpufleet.lab.aws import backends
from tests.unit.components.recording import record

REGION = "us-east-1"
DAY = timedelta(days=1)


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an emulated account."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    for key in ("AWS_PROFILE", "AWS_ENDPOINT_URL", STARTED):
        monkeypatch.delenv(key, raising=False)
    backends.install("ec2")
    with mock_aws():
        made = boto3.client("ec2", region_name=REGION)
        # A client of its own reads EC2's model, which takes longer than all calls of a test.
        monkeypatch.setattr(capacity_block_extension, "client", lambda *_: made)
        yield made


def buy_block(ec2: Any, *, days: int = 2, start: timedelta = 2 * DAY) -> str:
    offered = ec2.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge",
        InstanceCount=2,
        CapacityDurationHours=24 * days,
        StartDateRange=datetime.now(UTC) + start,
    )["CapacityBlockOfferings"]
    made = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offered[0]["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )
    return str(made["CapacityReservation"]["CapacityReservationId"])


def props(block: str, number: int = 1, hours: int = 24, **more: Any) -> dict[str, Any]:
    return {
        "reservation_id": block,
        "number": float(number),
        "hours": float(hours),
        "region": REGION,
        "instance_type": "p5.48xlarge",
        "count": 2.0,
        "hours_before": 48.0,
        **more,
    }


def end_of(ec2: Any, block: str) -> datetime:
    (found,) = ec2.describe_capacity_reservations(CapacityReservationIds=[block])["CapacityReservations"]
    end: datetime = found["EndDate"]
    return end


def bought(ec2: Any, block: str) -> list[int]:
    found = ec2.describe_capacity_block_extension_history(CapacityReservationIds=[block])
    return [each["CapacityBlockExtensionDurationHours"] for each in found["CapacityBlockExtensions"]]


def test_extension_moves_the_end_of_the_block(ec2: Any) -> None:
    block = buy_block(ec2)
    end = end_of(ec2, block)
    made = ExtensionProvider().create(props(block)).outs or {}
    assert end_of(ec2, block) == end + DAY
    assert datetime.fromisoformat(made["end_date"]) == end + DAY
    assert float(made["upfront_fee"]) > 0
    assert made["currency"] == "USD"


def test_purchase_that_no_state_knows_is_found_and_not_repeated(ec2: Any) -> None:
    block = buy_block(ec2)
    first = ExtensionProvider().create(props(block))
    again = ExtensionProvider().create(props(block))
    assert again == first or again.outs == first.outs
    assert bought(ec2, block) == [24]


def test_next_extension_is_bought_after_the_others(ec2: Any) -> None:
    block = buy_block(ec2)
    with pytest.raises(Exception, match="follows 1 others, and AWS lists 0"):
        ExtensionProvider().create(props(block, 2, 48))
    ExtensionProvider().create(props(block))
    ExtensionProvider().create(props(block, 2, 48))
    assert bought(ec2, block) == [24, 48]
    ExtensionProvider().create(props(block, 2, 48))
    assert bought(ec2, block) == [24, 48]


def test_other_length_than_the_bought_one_buys_nothing(ec2: Any) -> None:
    block = buy_block(ec2)
    ExtensionProvider().create(props(block))
    with pytest.raises(Exception, match="is bought already, for 24 h instead of 48 h"):
        ExtensionProvider().create(props(block, hours=48))
    assert bought(ec2, block) == [24]


@pytest.mark.parametrize("cap", ["0", "0.01"])
def test_price_above_the_cap_is_refused_before_the_purchase(ec2: Any, cap: str) -> None:
    block = buy_block(ec2)
    with pytest.raises(Exception, match=rf"extension 1 of the Capacity Block {block} costs .*:allowUpfront"):
        ExtensionProvider().create(props(block, max_upfront_usd=cap))
    assert bought(ec2, block) == []


def test_cap_that_covers_the_price_allows_it(ec2: Any) -> None:
    block = buy_block(ec2)
    ExtensionProvider().create(props(block, max_upfront_usd="1000000"))
    assert bought(ec2, block) == [24]


def test_bought_extension_needs_no_further_consent(ec2: Any) -> None:
    block = buy_block(ec2)
    ExtensionProvider().create(props(block))
    assert ExtensionProvider().create(props(block, max_upfront_usd="0")).outs
    assert bought(ec2, block) == [24]


def test_block_whose_end_is_far_is_not_extended_yet(ec2: Any) -> None:
    block = buy_block(ec2, days=56, start=7 * DAY)
    with pytest.raises(Exception, match=r"cannot be bought now.*from 56 days to 1 hour.*until 2"):
        ExtensionProvider().create(props(block))
    assert bought(ec2, block) == []


def test_simulated_account_extends_a_block_whose_end_is_far(
    ec2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STARTED, "1")
    block = buy_block(ec2, days=56, start=7 * DAY)
    made = ExtensionProvider().create(props(block)).outs or {}
    assert datetime.fromisoformat(made["end_date"]) == end_of(ec2, block) + DAY
    assert made["upfront_fee"] is None


def test_ordinary_reservation_is_not_extended(ec2: Any) -> None:
    made = ec2.create_capacity_reservation(
        InstanceType="g6.xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=1,
    )["CapacityReservation"]["CapacityReservationId"]
    with pytest.raises(Exception, match="is not a Capacity Block"):
        ExtensionProvider().create(props(made))


class Payments:
    """Answers the history with a status for each call, the last one for all others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *statuses: str) -> None:
        self.statuses = list(statuses)
        original = capacity_block_extension._history
        monkeypatch.setattr(capacity_block_extension, "POLL_S", 0.0)

        def history(ec2: Any, of: Any) -> list[Any]:
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            found = [{**each, "CapacityBlockExtensionStatus": status} for each in original(ec2, of)]
            return [each for each in found if status != "payment-failed"]

        monkeypatch.setattr(capacity_block_extension, "_history", history)


def test_pending_payment_is_waited_for(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    block = buy_block(ec2)
    ExtensionProvider().create(props(block))
    payments = Payments(monkeypatch, "payment-pending", "payment-pending", "payment-succeeded")
    assert ExtensionProvider().create(props(block)).outs
    assert payments.statuses == ["payment-succeeded"]


def test_payment_that_takes_longer_than_a_run_ends_it_and_the_next_run_waits_again(
    ec2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = buy_block(ec2)
    ExtensionProvider().create(props(block))
    Payments(monkeypatch, "payment-pending")
    monkeypatch.setattr(capacity_block_extension, "PAYMENT_WAIT", timedelta(0))
    for _ in range(2):
        with pytest.raises(Exception, match=r"is bought, and its payment is pending.*buys nothing twice"):
            ExtensionProvider().create(props(block))
    assert bought(ec2, block) == [24]


def test_failed_payment_is_reported(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    block = buy_block(ec2)
    ExtensionProvider().create(props(block))
    Payments(monkeypatch, "payment-pending", "payment-failed")
    with pytest.raises(Exception, match=r"the payment of extension 1 .* failed, and the block keeps its end"):
        ExtensionProvider().create(props(block))


def test_nothing_is_bought_by_a_diff_a_refresh_or_a_deletion(ec2: Any) -> None:
    block, provider = buy_block(ec2), ExtensionProvider()
    state = provider.create(props(block)).outs or {}
    assert provider.read("x", state).outs == state
    provider.delete("x", state)
    assert not provider.diff("x", state, props(block, max_upfront_usd="5", client={"profile": "p"})).changes
    for key in ASKED:
        assert provider.diff("x", state, props(block) | {key: "other"}).replaces == [key]
    assert bought(ec2, block) == [24]


def test_extensions_of_a_block_follow_each_other() -> None:
    import pulumi

    built = record(
        lambda: extend_block(
            "block",
            reservation_id="cr-1",
            instance_type="p5.48xlarge",
            count=2,
            duration=2 * DAY,
            extensions=[DAY, 7 * DAY],
            region=REGION,
            max_upfront_usd="5",
            client={},
            opts=pulumi.ResourceOptions(protect=True),
        )
    )
    first, second = built.of("CapacityBlockExtension")
    assert [each.name for each in (first, second)] == ["block-extension-1", "block-extension-2"]
    assert (first.inputs["hours"], first.inputs["hours_before"]) == (24, 48)
    assert (second.inputs["hours"], second.inputs["hours_before"]) == (168, 72)
    assert first.urn in second.dependencies
    assert first.protect and second.protect


def test_refusals_of_aws_reach_the_run(ec2: Any) -> None:
    block = buy_block(ec2)
    with pytest.raises(ClientError, match="CapacityDurationHours 25 is not offered"):
        ExtensionProvider().create(props(block, hours=25))
