"""The options of `gpufleet sandbox faults`."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import botocore.session
import pytest
from moto.core.responses import BaseResponse
from moto.core.utils import camelcase_to_underscores

from gpufleet.catalog import load_catalog
from gpufleet.cli.sandbox_faults import _checked, _wanted
from gpufleet.errors import InputError
from gpufleet.lab.aws.backends import install
from gpufleet.lab.aws.faults.known import refuse_unknown
from gpufleet.lab.aws.faults.plan import Delay, Faults, InjectedFailure, Shortage


def wanted(**given: Any) -> Faults:
    options = {"throttle": False, "late": 0.0, "no_capacity": [], "slow": [], "fail": []} | given
    found: Faults = _checked(_wanted(**options))
    return found


def test_no_option_injects_no_fault() -> None:
    assert not wanted()


def test_each_option_injects_its_kind_of_fault() -> None:
    reported = wanted(
        throttle=True,
        late=1.5,
        no_capacity=["p5.48xlarge", "g6.xlarge:us-east-1a"],
        slow=["eks:CreateCluster=2.5"],
        fail=["ec2:CreateVpc#3=VpcLimitExceeded"],
    )
    assert reported == Faults(
        throttle=True,
        late_s=1.5,
        shortages=(Shortage(type="p5.48xlarge"), Shortage(type="g6.xlarge", zone="us-east-1a")),
        slow=(Delay(action="eks:CreateCluster", seconds=2.5),),
        failures=(InjectedFailure(action="ec2:CreateVpc", call=3, code="VpcLimitExceeded", status=400),),
    )


def test_failure_without_a_code_is_a_server_error() -> None:
    (failure,) = wanted(fail=["ec2:*"]).failures
    assert (failure.call, failure.code, failure.status) == (1, "InternalError", 500)


@pytest.mark.parametrize(
    "given",
    [
        {"slow": ["CreateVpc=2"]},
        {"slow": ["ec2:CreateVpc"]},
        {"slow": ["ec2:CreateVpc=1.2.3"]},
        {"fail": ["ec2"]},
        {"fail": ["ec2:CreateVpc#0"]},
    ],
)
def test_fault_without_an_action_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        wanted(**given)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("given", "reported", "remedy"),
    [
        ({"fail": ["ec2:CreateVpcs"]}, "ec2 has no call 'CreateVpcs'", "ec2:CreateVpc?"),
        ({"fail": ["ecc2:CreateVpc"]}, "AWS has no service 'ecc2'", "ec2?"),
        ({"slow": ["cloudwatch:PutMetricData=1"]}, "signed as 'monitoring'", "write monitoring:"),
        ({"fail": ["chatbot:*"]}, "does not serve 'chatbot'", "ec2"),
        ({"fail": ["ec2:AcceptAddressTransfer"]}, "does not serve ec2:AcceptAddressTransfer", "write ec2:"),
        ({"slow": ["s3:ListDirectoryBuckets=1"]}, "serve s3:ListDirectoryBuckets", "write s3:ListBuckets or"),
        ({"fail": ["logs:AssociateSourceToS3TableIntegration"]}, "does not serve logs:Assoc", " or logs:*"),
        ({"no_capacity": ["p5.48xlage"]}, "no instance type 'p5.48xlage'", "p5.48xlarge?"),
    ],
)
def test_fault_that_no_request_can_match_is_refused_with_the_nearest_name(
    given: dict[str, Any], reported: str, remedy: str
) -> None:
    with pytest.raises(InputError) as error:
        refuse_unknown(wanted(**given), load_catalog())
    assert reported in error.value.message
    assert remedy in error.value.remedy


def test_every_service_of_a_fleet_can_have_faults() -> None:
    asked = ["ec2:*", "eks:CreateCluster", "fsx:*", "iam:*", "s3:*", "kms:*", "logs:*", "ce:*", "budgets:*"]
    more = ["monitoring:*", "tagging:*", "servicequotas:*", "sqs:*", "sns:*", "events:*", "ssm:*", "sts:*"]
    refuse_unknown(wanted(fail=[*asked, *more, "autoscaling:*"]), load_catalog())


@pytest.mark.parametrize(
    "service",
    ["ec2", "eks", "fsx", "iam", "kms", "logs", "ce", "budgets", "autoscaling", "ssm", "sns", "sqs", "sts"],
)
def test_fault_actions_are_those_that_the_emulated_aws_answers(service: str) -> None:
    install(service)
    responses = importlib.import_module(f"moto.{service}.responses")
    answering = [
        each
        for each in vars(responses).values()
        if inspect.isclass(each) and issubclass(each, BaseResponse) and each.__module__ == responses.__name__
    ]
    calls = botocore.session.Session().get_service_model(service).operation_names
    assert len(calls) > 5
    answered = [
        call for call in calls if any(hasattr(each, camelcase_to_underscores(call)) for each in answering)
    ]
    refuse_unknown(wanted(fail=[f"{service}:{call}" for call in answered]), load_catalog())
    others = sorted(set(calls) - set(answered))
    for call in others[:: len(others) // 8 + 1]:
        with pytest.raises(InputError, match=f"does not serve {service}:{call}"):
            refuse_unknown(wanted(fail=[f"{service}:{call}"]), load_catalog())


def test_s3_calls_routed_by_path_and_verb_can_have_faults() -> None:
    calls = ["CreateBucket", "PutBucketPolicy", "PutObject", "GetBucketTagging", "DeleteObjects"]
    refuse_unknown(wanted(fail=[f"s3:{call}" for call in calls]), load_catalog())
