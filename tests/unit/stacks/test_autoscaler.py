"""The autoscaler in the stack of a fleet: its role, its groups by priority, and what stays without it."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.stacks.autoscaler import priorities
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.pricing.test_one_price import assert_one_price
from tests.unit.stacks.moto_mocks import simulated_actions

NAME = "atlas-test-use1"


def fleet(autoscaler: dict[str, Any] | None, **kubernetes: Any) -> Any:
    settings = {"private_cidrs": ["10.60.0.0/24"], **kubernetes}
    if autoscaler is not None:
        settings["autoscaler"] = autoscaler
    site = cloud_site(
        group("sweep", "g6.xlarge", spot(0, 4, "on-demand")),
        group("serve", "g6.xlarge", on_demand(1, 2)),
        group("held", "g6.xlarge", odcr(1), zones=["us-east-1a"]),
        scheduler="kubernetes",
        kubernetes=settings,
    )
    return spec(cloud=[site])


def plan(autoscaler: dict[str, Any] | None, **kubernetes: Any) -> FleetPlan:
    return build_plan(fleet(autoscaler, **kubernetes), CATALOG)


def build(found: FleetPlan) -> Recording:
    return record(
        lambda: build_fleet(found, StackSettings("sandbox", "test", False, None, {}, {})), EchoMocks()
    )


@pytest.fixture(scope="module")
def made() -> Recording:
    return build(plan({}))


def urns(built: Recording) -> set[str]:
    return {each.urn for each in built}


def test_autoscaler_adds_resources_and_renames_none(made: Recording) -> None:
    before = urns(build(plan(None)))
    assert before < urns(made)
    added = {each.type.rpartition(":")[2] for each in made if each.urn not in before}
    assert added == {
        *("PodRole", "Role", "RolePolicy", "PodIdentityAssociation", "Tag", "ClusterAutoscaler"),
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding", "ConfigMap"),
        *("PodDisruptionBudget", "NetworkPolicy", "Deployment"),
    }


def test_fleet_file_without_one_builds_the_stack_of_before() -> None:
    assert urns(build(plan(None))) == urns(build(plan({"kind": "none"})))


def test_launch_templates_do_not_change(made: Recording) -> None:
    """Nodes would be replaced, one after the other."""
    before = {each.name: each.inputs for each in build(plan(None)).of("LaunchTemplate")}
    assert {each.name: each.inputs for each in made.of("LaunchTemplate")} == before


def test_tagged_groups_are_those_that_can_change(made: Recording) -> None:
    found = {each.inputs["autoscalingGroupName"] for each in made.of("aws:autoscaling/tag:Tag")}
    assert found == {f"eks-{NAME}-{each}" for each in ("sweep", "sweep-fallback", "serve", "system")}
    values = {each.inputs["tag"]["value"] for each in made.of("aws:autoscaling/tag:Tag")}
    assert values == {NAME}


def test_pods_start_once_they_have_a_role(made: Recording) -> None:
    association = made.one("PodIdentityAssociation", f"{NAME}-scaling")
    assert association.inputs["serviceAccount"] == "cluster-autoscaler"
    assert association.inputs["namespace"] == "kube-system"
    component = made.one("ClusterAutoscaler")
    assert association.urn in component.dependencies
    assert made.one("Deployment", f"{NAME}-scaling").parent == component.urn


def test_spot_comes_before_on_demand_and_its_fallback_last() -> None:
    (site,) = plan({}).cloud
    assert priorities(NAME, site) == {
        40: [f"{NAME}-system"],
        30: [f"{NAME}-sweep"],
        20: [f"{NAME}-serve"],
        10: [f"{NAME}-sweep-fallback"],
    }


def test_phased_site_gets_the_role_and_no_manifests() -> None:
    built = build(plan({}, access="phased"))
    assert built.one("PodIdentityAssociation", f"{NAME}-scaling")
    assert built.of("Deployment") == []


@pytest.mark.parametrize("preview", [True, False])
def test_it_costs_nothing(preview: bool) -> None:
    """Its pods run on system nodes, which are priced at their maximum."""
    assert_one_price(fleet({}), preview=preview)


def test_preflight_asks_for_tags_of_groups_only_with_an_autoscaler() -> None:
    added = {"autoscaling:CreateOrUpdateTags", "autoscaling:DescribeTags"}
    assert simulated_actions(plan({})) - simulated_actions(plan(None)) == added
