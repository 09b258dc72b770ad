"""Instant fleets of the emulated EC2: all, a part or none of what is asked, and in one zone if asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.faults import shortage
from gpufleet.lab.aws.faults.plan import Shortage
from tests.unit.lab.two_zones import KIND, ZONES, TwoZones

OTHER = "g6.2xlarge"


class Account(TwoZones):
    """An account that is asked for fleets."""

    def fleet(
        self, count: int, purchase: str = "on-demand", kinds: tuple[str, ...] = (KIND,), **more: Any
    ) -> Any:
        """The answer to a request for an instant fleet over types and zones."""
        pools = [(kind, subnet) for kind in kinds for subnet in self.subnets]
        options = {
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": self.template, "Version": "1"},
                    "Overrides": [
                        {"InstanceType": kind, "SubnetId": subnet, "Priority": float(place)}
                        for place, (kind, subnet) in enumerate(pools)
                    ],
                }
            ],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": purchase,
            },
            "Type": "instant",
        }
        return self.ec2.create_fleet(**{**options, **more})

    def zones(self) -> Counter[str]:
        """Instances by zone."""
        found = self.ec2.describe_instances()["Reservations"]
        return Counter(each["Placement"]["AvailabilityZone"] for item in found for each in item["Instances"])


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        install("ec2")
        made = Account({"team": "research"})
        shortage.install(lambda: made.shortages)
        yield made
        shortage.install(tuple)


def ids(answer: Any) -> list[str]:
    return [each for part in answer["Instances"] for each in part["InstanceIds"]]


def together(count: int) -> dict[str, Any]:
    return {"OnDemandOptions": {"MinTargetCapacity": count, "SingleAvailabilityZone": True}}


def test_all_instances_are_launched_with_the_tags_of_the_template(account: Account) -> None:
    answer = account.fleet(3)
    assert len(ids(answer)) == 3 and answer["Errors"] == []
    (reservation,) = account.ec2.describe_instances(InstanceIds=ids(answer))["Reservations"]
    assert all({"Key": "team", "Value": "research"} in each["Tags"] for each in reservation["Instances"])


def test_further_pools_give_what_the_first_lacks(account: Account) -> None:
    account.shortages = (Shortage(type=KIND, zone=ZONES[0], left=1),)
    answer = account.fleet(3)
    assert account.zones() == {ZONES[0]: 1, ZONES[1]: 2}
    assert [each["ErrorCode"] for each in answer["Errors"]] == ["InsufficientInstanceCapacity"]


def test_a_part_is_launched_if_no_pool_has_more(account: Account) -> None:
    account.shortages = (Shortage(type=KIND, zone=ZONES[0], left=1), Shortage(type=KIND, zone=ZONES[1]))
    answer = account.fleet(3)
    assert len(ids(answer)) == 1
    assert len(answer["Errors"]) == 2


def test_minimum_is_launched_in_one_zone_or_not_at_all(account: Account) -> None:
    account.shortages = (
        Shortage(type=KIND, zone=ZONES[0], left=2),
        Shortage(type=KIND, zone=ZONES[1], left=3),
    )
    assert account.zones() == {}
    account.fleet(3, **together(3))
    assert account.zones() == {ZONES[1]: 3}
    answer = account.fleet(3, **together(3))
    assert ids(answer) == []
    assert {each["ErrorCode"] for each in answer["Errors"]} == {"InsufficientInstanceCapacity"}
    assert account.zones() == {ZONES[1]: 3}


def test_one_type_is_launched_if_asked(account: Account) -> None:
    account.shortages = (Shortage(type=KIND, left=1),)
    options = {"OnDemandOptions": {"MinTargetCapacity": 2, "SingleInstanceType": True}}
    answer = account.fleet(2, kinds=(KIND, OTHER), **options)
    assert [each["InstanceType"] for each in answer["Instances"]] == [OTHER]


def test_spot_has_its_own_shortages(account: Account) -> None:
    account.shortages = (Shortage(type=KIND, market="spot"),)
    assert ids(account.fleet(1, "spot")) == []
    (found,) = account.fleet(1)["Instances"]
    assert found["Lifecycle"] == "on-demand"
    account.shortages = ()
    assert [each["Lifecycle"] for each in account.fleet(1, "spot")["Instances"]] == ["spot"]


def test_request_with_the_same_token_launches_nothing_more(account: Account) -> None:
    first, second = (account.fleet(2, ClientToken="once") for _ in range(2))
    assert ids(first) == ids(second)
    assert sum(account.zones().values()) == 2


def test_minimum_needs_one_zone_or_one_type(account: Account) -> None:
    with pytest.raises(ClientError, match="SingleAvailabilityZone or SingleInstanceType"):
        account.fleet(2, OnDemandOptions={"MinTargetCapacity": 2})


def test_other_types_of_fleets_are_refused(account: Account) -> None:
    with pytest.raises(ClientError, match="instant only"):
        account.fleet(2, Type="maintain")
