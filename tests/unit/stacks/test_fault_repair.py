"""NVSentinel in the stack of a fleet: what it adds, what the GPU Operator gets, and what stays without it."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec
from tests.unit.pricing.test_one_price import assert_one_price

NAME = "atlas-test-use1"


def fleet(repair: dict[str, Any] | None, **kubernetes: Any) -> Any:
    settings = {"private_cidrs": ["10.60.0.0/24"], "gpu_stack": "gpu-operator", **kubernetes}
    if repair is not None:
        settings["fault_repair"] = repair
    tainted = group("serve", "g6.xlarge", on_demand(1, 2)) | {"taints": [{"key": "dedicated"}]}
    return spec(cloud=[cloud_site(tainted, scheduler="kubernetes", kubernetes=settings)])


def build(repair: dict[str, Any] | None, **kubernetes: Any) -> Recording:
    found = build_plan(fleet(repair, **kubernetes), CATALOG)
    settings = StackSettings("sandbox", "test", False, None, {}, {})
    return record(lambda: build_fleet(found, settings), EchoMocks())


def urns(built: Recording) -> set[str]:
    return {each.urn for each in built}


def test_it_adds_a_release_and_for_actions_what_its_database_needs() -> None:
    before, detecting, draining = urns(build(None)), urns(build({})), urns(build({"action": "drain"}))
    assert before < detecting < draining
    assert {each.rpartition("::")[2] for each in detecting - before} == {f"{NAME}-repair"}
    assert {each.rpartition("::")[2] for each in draining - detecting} == {
        f"{NAME}-repair",
        f"{NAME}-repair-cert-manager",
    }


def test_fleet_file_without_one_builds_the_stack_of_before() -> None:
    made, none = build(None), build({"kind": "none"})
    assert urns(made) == urns(none)
    operator = made.one("Release", f"{NAME}-base-gpu-operator").inputs
    assert operator == none.one("Release", f"{NAME}-base-gpu-operator").inputs
    assert "dcgm" not in operator["values"]


def test_gpu_operator_offers_its_dcgm_to_nvsentinel() -> None:
    made = build({})
    assert made.one("Release", f"{NAME}-base-gpu-operator").inputs["values"]["dcgm"] == {"enabled": True}
    tolerated = made.one("Release", f"{NAME}-repair").inputs["values"]["global"]["tolerations"]
    assert {each["key"] for each in tolerated} == {"nvidia.com/gpu", "dedicated"}


def test_phased_site_gets_no_release() -> None:
    assert build({"action": "drain"}, access="phased").of("Release") == []


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize("action", ["detect", "drain"])
@pytest.mark.parametrize("access", ["direct", "phased"])
def test_volumes_of_its_database_are_left_out_of_the_price_alike(
    preview: bool, action: str, access: str
) -> None:
    assert_one_price(fleet({"action": action}, access=access), preview=preview)
