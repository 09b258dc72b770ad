"""Temporary errors are retried, and others are reported at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpufleet.lab.aws.provider import retries
from gpufleet.lab.aws.provider.clients import Clients
from gpufleet.lab.aws.provider.errors import is_outcome_unknown

SUBNET = "subnet-0123456789abcdef1"


class Answers:
    """Replaces the network: returns prepared responses and counts requests."""

    def __init__(self) -> None:
        self.prepared: list[tuple[int, bytes]] = []
        self.asked = 0

    def __call__(self, **_: Any) -> Any:
        from botocore.awsrequest import AWSResponse

        status, body = self.prepared[min(self.asked, len(self.prepared) - 1)]
        self.asked += 1
        answer = AWSResponse("http://127.0.0.1:1/", status, {}, None)
        answer._content = body
        return answer


def error(code: str, message: str = "no", status: int = 400) -> tuple[int, bytes]:
    reported = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return status, f"<Response><Errors>{reported}</Errors></Response>".encode()


MADE = (
    200,
    f"<CreateSubnetResponse><subnet><subnetId>{SUBNET}</subnetId></subnet></CreateSubnetResponse>".encode(),
)
FOUND = (
    200,
    f"<R><subnetSet><item><subnetId>{SUBNET}</subnetId></item></subnetSet></R>".encode(),
)
NOT_FOUND = error("InvalidSubnetID.NotFound", f"The subnet ID '{SUBNET}' does not exist")


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def ec2(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    client = Clients("http://127.0.0.1:1").get("ec2", "us-east-1")
    client.meta.events.register("before-send.ec2", answers)
    yield client
    client.close()


def test_throttling_is_retried_longer_than_in_botocore(ec2: Any, answers: Answers) -> None:
    answers.prepared = [error("RequestLimitExceeded", status=503)] * 12 + [FOUND]
    assert ec2.describe_subnets()["Subnets"]
    assert answers.asked == 13


def test_endless_throttling_is_reported(ec2: Any, answers: Answers) -> None:
    answers.prepared = [error("RequestLimitExceeded", status=503)]
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        ec2.describe_subnets()
    assert answers.asked == retries.MOST_ATTEMPTS


def test_backoff_of_a_throttled_request_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries.random, "random", lambda: 1.0)
    refused = (None, {"Error": {"Code": "RequestLimitExceeded", "Message": ""}})
    pauses = [retries.RetryPolicy()._pause(refused, attempts) for attempts in range(1, 8)]
    assert pauses == [1, 2, 4, 8, 16, 20, 20]


def test_read_request_is_retried_after_a_server_error(ec2: Any, answers: Answers) -> None:
    answers.prepared = [error("InternalError", status=500)] * 3 + [FOUND]
    assert ec2.describe_subnets()["Subnets"]
    assert answers.asked == 4


def test_creation_is_not_retried_after_a_server_error(ec2: Any, answers: Answers) -> None:
    answers.prepared = [error("InternalError", status=500), MADE]
    with pytest.raises(ClientError, match="InternalError") as failed:
        ec2.create_subnet(VpcId="vpc-0123456789abcdef0", CidrBlock="10.0.0.0/24")
    assert answers.asked == 1
    assert is_outcome_unknown(failed.value)


def test_refused_creation_has_a_known_outcome(ec2: Any, answers: Answers) -> None:
    answers.prepared = [error("InvalidSubnet.Conflict")]
    with pytest.raises(ClientError, match="Conflict") as failed:
        ec2.create_subnet(VpcId="vpc-0123456789abcdef0", CidrBlock="10.0.0.0/24")
    assert not is_outcome_unknown(failed.value)


def test_new_resource_is_looked_up_again(ec2: Any, answers: Answers) -> None:
    answers.prepared = [MADE, NOT_FOUND, NOT_FOUND, FOUND]
    ec2.create_subnet(VpcId="vpc-0123456789abcdef0", CidrBlock="10.0.0.0/24")
    assert ec2.describe_subnets(SubnetIds=[SUBNET])["Subnets"]
    assert answers.asked == 4


def test_missing_resource_of_others_is_reported_at_once(ec2: Any, answers: Answers) -> None:
    answers.prepared = [NOT_FOUND]
    with pytest.raises(ClientError, match="NotFound"):
        ec2.describe_subnets(SubnetIds=[SUBNET])
    assert answers.asked == 1


def test_resource_that_was_found_once_and_is_missing_is_deleted(ec2: Any, answers: Answers) -> None:
    answers.prepared = [MADE, FOUND, NOT_FOUND]
    ec2.create_subnet(VpcId="vpc-0123456789abcdef0", CidrBlock="10.0.0.0/24")
    ec2.describe_subnets(SubnetIds=[SUBNET])
    with pytest.raises(ClientError, match="NotFound"):
        ec2.describe_subnets(SubnetIds=[SUBNET])
    assert answers.asked == 3


def test_deleted_resource_is_not_looked_up_again(ec2: Any, answers: Answers) -> None:
    answers.prepared = [MADE, (200, b"<R><return>true</return></R>"), NOT_FOUND]
    ec2.create_subnet(VpcId="vpc-0123456789abcdef0", CidrBlock="10.0.0.0/24")
    ec2.delete_subnet(SubnetId=SUBNET)
    with pytest.raises(ClientError, match="NotFound"):
        ec2.describe_subnets(SubnetIds=[SUBNET])
    assert answers.asked == 3


def test_refusal_is_reported_at_once(ec2: Any, answers: Answers) -> None:
    answers.prepared = [error("UnauthorizedOperation", status=403)]
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.describe_subnets()
    assert answers.asked == 1
