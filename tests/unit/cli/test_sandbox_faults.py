"""What the options of `gpufleet sandbox faults` mean."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.cli.sandbox_faults import _checked, _wanted
from gpufleet.errors import InputError
from gpufleet.sandbox.faults.plan import Failure, Faults, Shortage, Slow


def wanted(**given: Any) -> Faults:
    options = {"throttle": False, "late": 0.0, "no_capacity": [], "slow": [], "fail": []} | given
    found: Faults = _checked(_wanted(**options))
    return found


def test_nothing_asked_is_no_fault() -> None:
    assert not wanted()


def test_each_option_is_its_kind_of_fault() -> None:
    said = wanted(
        throttle=True,
        late=1.5,
        no_capacity=["p5.48xlarge", "g6.xlarge:us-east-1a"],
        slow=["eks:CreateCluster=2.5"],
        fail=["ec2:CreateVpc#3=VpcLimitExceeded"],
    )
    assert said == Faults(
        throttle=True,
        late_s=1.5,
        shortages=(Shortage(type="p5.48xlarge"), Shortage(type="g6.xlarge", zone="us-east-1a")),
        slow=(Slow(action="eks:CreateCluster", seconds=2.5),),
        failures=(Failure(action="ec2:CreateVpc", call=3, code="VpcLimitExceeded", status=400),),
    )


def test_a_failure_without_a_code_is_one_of_the_server() -> None:
    (failure,) = wanted(fail=["ec2:*"]).failures
    assert (failure.call, failure.code, failure.status) == (1, "InternalError", 500)


@pytest.mark.parametrize(
    "given",
    [
        {"slow": ["CreateVpc=2"]},
        {"slow": ["ec2:CreateVpc"]},
        {"fail": ["ec2"]},
        {"fail": ["ec2:CreateVpc#0"]},
    ],
)
def test_what_names_no_action_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        wanted(**given)
    assert error.value.remedy
