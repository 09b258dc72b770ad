"""Every IAM policy that gpufleet makes says what AWS's Service Authorization Reference knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pulumi.runtime.mocks import Mocks

from gpufleet.account.backend_policies import policies as backend_policies
from gpufleet.account.backend_settings import BackendSettings
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.load import load_fleet
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.collected import ROOT
from tests.judges.iam import judge
from tests.unit.components.recording import EchoMocks, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec, spot
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK
from tests.unit.stacks.moto_mocks import MotoMocks, emulated_aws

DOCUMENTED = "kms:Describe*: never sets kms:EncryptionContext:aws:logs:arn"
"""AWS documents this key policy itself (CloudWatch Logs User Guide, "Encrypt log data")."""

IMAGE = "ami-12c6146b"
"""One that moto has."""


def launched() -> FleetPlan:
    site = cloud_site(
        group("sweep", "g6e.xlarge", on_demand(0, 16), image=IMAGE),
        group("cheap", "g6e.xlarge", spot(0, 4), image=IMAGE),
        slurm=LAUNCHED,
    )
    budget = {"monthly": "100000 USD", "on_breach": "drain-spot"}
    return build_plan(spec(cloud=[site], onprem=[SLURM_RACK], budget=budget), CATALOG)


def drained() -> FleetPlan:
    handler: dict[str, Any] = {"interruptions": {}}
    kube = cloud_site(
        group("sweep", "g6.xlarge", spot(0, 4, "on-demand")),
        scheduler="kubernetes",
        kubernetes={"private_cidrs": ["10.60.0.0/24"]},
        **handler,
    )
    network = {"cidr": "10.50.0.0/16"}
    other = {"site": "use2", "zones": ["us-east-1a"], "network": network, **handler}
    slurm = cloud_site(group("burst", "g6.xlarge", spot(0, 4)), **other)
    budget = {"monthly": "100000 USD", "on_breach": "drain-spot", "sites": {"use2": "40000 USD"}}
    return build_plan(spec(cloud=[kube, slurm], budget=budget), CATALOG)


def scaled() -> FleetPlan:
    kubernetes = {"private_cidrs": ["10.60.0.0/24"], "autoscaler": {}}
    site = cloud_site(
        group("sweep", "g6.xlarge", on_demand(0, 4)), scheduler="kubernetes", kubernetes=kubernetes
    )
    return build_plan(spec(cloud=[site]), CATALOG)


def mounted() -> FleetPlan:
    buckets = [{"storage": "data", "mount": True}, {"storage": "old", "access": "read", "mount": True}]
    kubernetes = {
        "private_cidrs": ["10.60.0.0/24"],
        "teams": [{"name": "red", "gpus": 4, "buckets": buckets}],
    }
    storage = [{"name": name, "bucket": {"name": f"atlas-{name}"}} for name in ("data", "old")]
    site = cloud_site(
        group("sweep", "g6.xlarge", on_demand(0, 4)),
        scheduler="kubernetes",
        kubernetes=kubernetes,
        storage=storage,
    )
    return build_plan(spec(cloud=[site]), CATALOG)


def example(path: str) -> Callable[[], FleetPlan]:
    return lambda: build_plan(load_fleet(path, root=ROOT).spec, CATALOG)


FLEETS: dict[str, Callable[[], FleetPlan]] = {
    "launched by Slurm": launched,
    "drained by a budget": drained,
    "scaled by Cluster Autoscaler": scaled,
    "with buckets that pods mount": mounted,
    **{name: example(f"docs/examples/{name}/fleet.yaml") for name in ("enterprise", "trainium")},
}


def policies(plan: FleetPlan, mocks: Mocks) -> Iterator[tuple[str, dict[str, Any]]]:
    settings = StackSettings("sandbox", "sandbox", False, None, {}, {})
    with emulated_aws():
        made = record(lambda: build_fleet(plan, settings), mocks)
    for each in made:
        for value in each.inputs.values():
            if isinstance(value, str) and value.startswith("{") and '"Statement"' in value:
                yield f"{each.type} {each.name}", json.loads(value)


@pytest.mark.parametrize("plan", FLEETS.values(), ids=FLEETS)
def test_policies_of_a_fleet_can_all_match(
    plan: Callable[[], FleetPlan], request: pytest.FixtureRequest
) -> None:
    # A block of the emulated AWS starts at hours of its own: one example asks for another.
    found = list(policies(plan(), EchoMocks() if "trainium" in request.node.name else MotoMocks()))
    assert found
    wrong = [f"{name}: {each}" for name, policy in found for each in judge(policy) if each != DOCUMENTED]
    assert wrong == []


def test_policies_for_the_state_can_all_match() -> None:
    settings = BackendSettings("atlas-prod", "123456789012", "aws", "us-east-1", "atlas-state", "alias/atlas")
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    for name, policy in backend_policies(settings, key, "gpufleet", "prod").items():
        assert judge(policy) == [], name


def allow(action: str, *resources: str, **condition: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": [action], "Resource": list(resources), "Condition": condition}
    return {"Version": "2012-10-17", "Statement": [statement]}


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        (allow("ec2:LaunchInstances", "*"), "ec2:LaunchInstances: no such action"),
        (
            allow("ec2:CreateFleet", "arn:aws:ec2:us-east-1:123456789012:fleet/*"),
            "ec2:CreateFleet: no instance among arn:aws:ec2:us-east-1:123456789012:fleet/*",
        ),
        (
            allow("ec2:DescribeInstances", "arn:aws:ec2:us-east-1:123456789012:instance/*"),
            "ec2:DescribeInstances: knows no resource but *",
        ),
        (
            allow("ec2:CreateFleet", "*", ArnEquals={"ec2:LaunchTemplate": "x"}),
            "ec2:CreateFleet: never sets ec2:LaunchTemplate",
        ),
        (
            allow("s3:GetObject", "arn:aws:s3:::bucket"),
            "s3:GetObject: no accesspointobject, object among arn:aws:s3:::bucket",
        ),
    ],
)
def test_right_that_can_never_match_is_named(policy: dict[str, Any], wrong: str) -> None:
    assert judge(policy) == [wrong]
