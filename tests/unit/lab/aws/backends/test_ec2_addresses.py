"""Private addresses of the emulated AWS: reservations keep theirs, ended instances give theirs back."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

IMAGE = "ami-000c540e28953ace2"


@pytest.fixture
def subnet(aws: Any) -> str:
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    found: str = ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.0.0/27")["Subnet"]["SubnetId"]
    return found


def launched(ec2: Any, subnet: str, address: str | None = None) -> dict[str, Any]:
    more = {"PrivateIpAddress": address} if address else {}
    made = ec2.run_instances(
        ImageId=IMAGE, InstanceType="m7i.large", MinCount=1, MaxCount=1, SubnetId=subnet, **more
    )
    return dict(made["Instances"][0])


def test_instances_get_no_address_of_a_reservation_unless_they_ask_for_it(aws: Any, subnet: str) -> None:
    ec2 = aws("ec2")
    kept = {
        "SubnetId": subnet,
        "Cidr": "10.77.0.0/28",
        "ReservationType": "explicit",
        "Description": "servers",
    }
    ec2.create_subnet_cidr_reservation(**kept)
    (shown,) = ec2.get_subnet_cidr_reservations(SubnetId=subnet)["SubnetIpv4CidrReservations"]
    assert (shown["Cidr"], shown["Description"]) == ("10.77.0.0/28", "servers")
    assert launched(ec2, subnet)["PrivateIpAddress"] == "10.77.0.16"
    assert launched(ec2, subnet, "10.77.0.8")["PrivateIpAddress"] == "10.77.0.8"


def test_address_is_free_again_once_its_instance_ends(aws: Any, subnet: str) -> None:
    ec2 = aws("ec2")
    first = launched(ec2, subnet, "10.77.0.9")["InstanceId"]
    with pytest.raises(ClientError, match=r"InvalidIPAddress\.InUse.*Address 10\.77\.0\.9 is in use"):
        launched(ec2, subnet, "10.77.0.9")
    ec2.terminate_instances(InstanceIds=[first])
    assert launched(ec2, subnet, "10.77.0.9")["PrivateIpAddress"] == "10.77.0.9"


def test_instance_is_terminated_twice(aws: Any, subnet: str) -> None:
    ec2 = aws("ec2")
    instance = launched(ec2, subnet)["InstanceId"]
    for before in ("running", "terminated"):
        (answer,) = ec2.terminate_instances(InstanceIds=[instance])["TerminatingInstances"]
        assert answer["PreviousState"]["Name"] == before
