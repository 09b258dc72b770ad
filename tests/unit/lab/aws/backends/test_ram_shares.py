"""Shares of reservations with other accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from gpufleet.lab.aws import backends

OWNER, OTHER = "123456789012", "222233334444"


def client(service: str, account: str = OWNER) -> Any:
    """A client of an account of the emulated AWS."""
    if account == OWNER:
        return boto3.client(
            service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y"
        )
    given = client("sts").assume_role(RoleArn=f"arn:aws:iam::{account}:role/r", RoleSessionName="session")[
        "Credentials"
    ]
    return boto3.client(
        service,
        region_name="us-east-1",
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )


@pytest.fixture
def held() -> Iterator[dict[str, Any]]:
    """A reservation of the owner."""
    backends.install("ec2", "ram")
    with mock_aws():
        yield client("ec2").create_capacity_reservation(
            InstanceType="g6.xlarge",
            InstancePlatform="Linux/UNIX",
            AvailabilityZone="us-east-1a",
            InstanceCount=2,
        )["CapacityReservation"]


def share(held: dict[str, Any], *principals: str) -> str:
    made = client("ram").create_resource_share(name="lent", allowExternalPrincipals=False)["resourceShare"]
    client("ram").associate_resource_share(
        resourceShareArn=made["resourceShareArn"],
        resourceArns=[held["CapacityReservationArn"]],
        principals=list(principals),
    )
    return str(made["resourceShareArn"])


def seen_by(account: str) -> list[str]:
    found = client("ec2", account).describe_capacity_reservations()["CapacityReservations"]
    return [each["CapacityReservationId"] for each in found]


def launch(account: str, held: dict[str, Any]) -> None:
    client("ec2", account).run_instances(
        ImageId="ami-12345678",
        InstanceType="g6.xlarge",
        MinCount=1,
        MaxCount=1,
        Placement={"AvailabilityZone": "us-east-1a"},
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": held["CapacityReservationId"]}
        },
    )


def test_other_account_sees_and_uses_only_what_is_shared_with_it(held: dict[str, Any]) -> None:
    assert seen_by(OTHER) == []
    with pytest.raises(ClientError, match="does not exist"):
        launch(OTHER, held)
    arn = share(held, OTHER)
    assert seen_by(OTHER) == [held["CapacityReservationId"]]
    launch(OTHER, held)
    (own,) = client("ec2").describe_capacity_reservations()["CapacityReservations"]
    assert (own["OwnerId"], own["AvailableInstanceCount"]) == (OWNER, 1)
    client("ram").disassociate_resource_share(resourceShareArn=arn, principals=[OTHER])
    assert seen_by(OTHER) == []
    assert seen_by("333344445555") == []


def test_share_with_an_organization_is_one_with_every_account_here(held: dict[str, Any]) -> None:
    share(held, f"arn:aws:organizations::{OWNER}:organization/o-exampleorgid")
    assert seen_by(OTHER) == [held["CapacityReservationId"]]


def test_deleted_share_shares_nothing(held: dict[str, Any]) -> None:
    arn = share(held, OTHER)
    client("ram").delete_resource_share(resourceShareArn=arn)
    assert seen_by(OTHER) == []
    (found,) = client("ram").get_resource_shares(resourceOwner="SELF")["resourceShares"]
    assert found["status"] == "DELETED"


@pytest.mark.parametrize("principal", ["*", "everybody", "12345"])
def test_malformed_principal_is_refused(held: dict[str, Any], principal: str) -> None:
    with pytest.raises(ClientError) as caught:
        share(held, principal)
    assert caught.value.response["Error"]["Code"] == "InvalidParameterException"


def test_reservation_of_another_account_is_not_shared_further(held: dict[str, Any]) -> None:
    share(held, OTHER)
    ram = client("ram", OTHER)
    made = ram.create_resource_share(name="further")["resourceShare"]["resourceShareArn"]
    with pytest.raises(ClientError) as caught:
        ram.associate_resource_share(resourceShareArn=made, resourceArns=[held["CapacityReservationArn"]])
    assert caught.value.response["Error"]["Code"] == "OperationNotPermittedException"


def test_other_resources_are_not_shared_here(held: dict[str, Any]) -> None:
    arn = client("ram").create_resource_share(name="a")["resourceShare"]["resourceShareArn"]
    with pytest.raises(ClientError) as caught:
        client("ram").associate_resource_share(
            resourceShareArn=arn, resourceArns=[f"arn:aws:ec2:us-east-1:{OWNER}:instance/i-1"]
        )
    assert caught.value.response["Error"]["Code"] == "MalformedArnException"
