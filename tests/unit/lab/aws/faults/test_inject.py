"""Which requests have faults, and which do not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from gpufleet.errors import InputError
from gpufleet.lab.aws.faults.inject import Injector, Refusal
from gpufleet.lab.aws.faults.plan import Delay, Faults, InjectedFailure, Shortage, read_faults
from gpufleet.lab.aws.faults.requests import Request, read_request


class Clock:
    """A clock that advances only by waiting."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def injector(tmp_path: Path, clock: Clock, faults: Faults) -> Injector:
    path = tmp_path / "faults.json"
    path.write_text(faults.model_dump_json())
    made = Injector(path, clock=clock, sleep=clock.sleep)
    made.refresh()
    return made


def asks(action: str, service: str = "ec2", region: str = "us-east-1", **parameters: str) -> Request:
    return Request(service, region, action, parameters, " ".join(parameters.values()))


def test_no_fault_file_injects_no_fault(tmp_path: Path) -> None:
    made = Injector(tmp_path / "faults.json")
    assert not made.refresh()
    assert made.before(asks("RunInstances")) is None


def test_fault_file_applies_from_the_next_request_until_it_is_removed(tmp_path: Path, clock: Clock) -> None:
    made = injector(
        tmp_path, clock, Faults(failures=(InjectedFailure(action="ec2:CreateVpc", code="Oops", status=400),))
    )
    assert made.refresh()
    assert made.before(asks("CreateVpc")) == Refusal("Oops", "an injected fault", 400)
    (tmp_path / "faults.json").unlink()
    assert not made.refresh()
    assert made.before(asks("CreateVpc")) is None


def test_requests_above_the_bucket_are_refused_until_it_refills(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(throttle=True))
    reported = [made.before(asks("CreateVpcEndpoint")) for _ in range(5)]
    assert reported == [None] * 4 + [Refusal("RequestLimitExceeded", "Request limit exceeded.", 503)]
    clock.sleep(1 / 0.3 + 0.01)
    assert made.before(asks("CreateVpcEndpoint")) is None
    assert made.before(asks("CreateVpcEndpoint")) is not None
    assert made.report()["injected"] == {
        "admitted ec2:CreateVpcEndpoint": 5,
        "throttled ec2:CreateVpcEndpoint": 2,
    }


def test_each_ec2_action_and_region_has_a_bucket_and_other_services_have_none(
    tmp_path: Path, clock: Clock
) -> None:
    made = injector(tmp_path, clock, Faults(throttle=True))
    for _ in range(5):
        made.before(asks("CreateVpcEndpoint"))
    assert made.before(asks("CreateVpc")) is None
    assert made.before(asks("CreateVpcEndpoint", region="us-west-2")) is None
    assert all(made.before(asks("CreateVpcEndpoint", "eks")) is None for _ in range(9))


def test_launch_consumes_a_token_per_instance(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(throttle=True))
    assert made.before(asks("RunInstances", MaxCount="1000")) is None
    assert made.before(asks("RunInstances", MaxCount="1")) is not None
    clock.sleep(0.5)
    assert made.before(asks("RunInstances", MaxCount="1")) is None


def test_only_the_nth_call_fails(tmp_path: Path, clock: Clock) -> None:
    made = injector(
        tmp_path, clock, Faults(failures=(InjectedFailure(action="ec2:CreateVpc", call=2, times=2),))
    )
    reported = [made.before(asks("CreateVpc")) is None for _ in range(5)]
    assert reported == [True, False, False, True, True]
    assert made.before(asks("CreateSubnet")) is None


def test_failure_after_the_action_leaves_the_action_done(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(failures=(InjectedFailure(action="ec2:*", done=True),)))
    assert made.before(asks("CreateVpc")) is None
    assert made.after(asks("CreateVpc"), 200, b"") is not None
    assert made.after(asks("CreateVpc"), 200, b"") is None


def test_new_resource_is_not_found_for_a_while(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(late_s=2))
    assert made.before(asks("CreateSubnet", VpcId="vpc-0123456789abcdef0")) is None
    made.after(
        asks("CreateSubnet", VpcId="vpc-0123456789abcdef0"),
        200,
        b"<subnetId>subnet-0123456789abcdef1</subnetId><vpcId>vpc-0123456789abcdef0</vpcId>",
    )
    refusal = made.before(asks("DescribeSubnets", Id="subnet-0123456789abcdef1"))
    assert refusal is not None
    assert refusal.code == "InvalidSubnetID.NotFound"
    assert made.before(asks("DescribeVpcs", Id="vpc-0123456789abcdef0")) is None
    assert made.before(asks("DescribeSubnets", Id="subnet-0123456789abcdef12")) is None
    clock.sleep(2)
    assert made.before(asks("DescribeSubnets", Id="subnet-0123456789abcdef1")) is None


def test_new_role_is_not_found_by_its_name(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(late_s=1))
    made.after(asks("CreateRole", "iam", RoleName="nodes"), 200, b"")
    refusal = made.before(asks("GetRole", "iam", RoleName="nodes"))
    assert refusal is not None
    assert (refusal.code, refusal.status) == ("NoSuchEntity", 404)
    assert made.before(asks("GetRole", "iam", RoleName="nodes-2")) is None


def test_refused_creation_hides_nothing(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(late_s=1))
    made.after(asks("CreateSubnet"), 400, b"subnet-0123456789abcdef1")
    assert made.before(asks("DescribeSubnets", Id="subnet-0123456789abcdef1")) is None


@pytest.mark.parametrize(("zone", "asked", "refused"), [("", "a", True), ("a", "a", True), ("a", "b", False)])
def test_reservation_is_refused_without_capacity(
    tmp_path: Path, clock: Clock, zone: str, asked: str, refused: bool
) -> None:
    made = injector(tmp_path, clock, Faults(shortages=(Shortage(type="p5.48xlarge", zone=zone),)))
    reported = made.before(
        asks("CreateCapacityReservation", InstanceType="p5.48xlarge", AvailabilityZone=asked)
    )
    assert (reported is not None) is refused
    if reported is not None:
        assert reported.code == "InsufficientInstanceCapacity"
        assert "p5.48xlarge" in reported.message
        assert f"({asked})" in reported.message
    other = asks("CreateCapacityReservation", InstanceType="g6.xlarge", AvailabilityZone=asked)
    assert made.before(other) is None


def test_only_the_slow_action_is_delayed(tmp_path: Path, clock: Clock) -> None:
    made = injector(tmp_path, clock, Faults(slow=(Delay(action="eks:CreateCluster", seconds=7),)))
    # It is performed at once, and its response is late: a client that dies meanwhile has created something.
    assert made.before(asks("CreateCluster", "eks")) is None
    assert clock.now == 0
    assert made.after(asks("CreateCluster", "eks"), 200, b"") is None
    assert clock.now == 7
    made.before(asks("DescribeCluster", "eks"))
    made.after(asks("DescribeCluster", "eks"), 200, b"")
    assert clock.now == 7


@pytest.mark.parametrize(
    "text",
    ['{"throtle": true}', '{"failures": [{"action": "CreateVpc"}]}', '{"late_s": -1}', "[]", "nonsense"],
)
def test_invalid_fault_file_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_faults(path)
    assert "--clear" in error.value.remedy


def environ(
    service: str, method: str = "POST", path: str = "/", body: bytes = b"", **more: str
) -> dict[str, Any]:
    return {
        "HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential=KEY/20260915/us-west-2/{service}/aws4_request, x",
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **more,
    }


@pytest.mark.parametrize(
    ("given", "action"),
    [
        (
            environ("ec2", body=b"Action=CreateVpc&CidrBlock=10.0.0.0%2F16",
                    CONTENT_TYPE="application/x-www-form-urlencoded; charset=utf-8"),
            "CreateVpc",
        ),
        (environ("fsx", HTTP_X_AMZ_TARGET="AWSSimba_v2018.CreateFileSystem"), "CreateFileSystem"),
        (environ("eks", path="/clusters"), "CreateCluster"),
        (environ("eks", "GET", "/clusters/a"), "DescribeCluster"),
        (environ("eks", path="/clusters/a/node-groups"), "CreateNodegroup"),
        (environ("eks", "GET", "/clusters/a/node-groups/b"), "DescribeNodegroup"),
        (environ("s3", "PUT", "/bucket"), "CreateBucket"),
        (environ("s3", "PUT", "/bucket", QUERY_STRING="policy"), "PutBucketPolicy"),
        (environ("s3", "GET", "/bucket/some/key"), "GetObject"),
    ],
)  # fmt: skip
def test_request_body_can_be_read_again_after_its_operation_is_known(
    given: dict[str, Any], action: str
) -> None:
    body = given["wsgi.input"].getvalue()
    request = read_request(given)
    assert (request.action, request.region) == (action, "us-west-2")
    assert given["wsgi.input"].read() == body
