"""Karpenter in the stack of a fleet: its role, its pools in the place of node groups, and their price."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.components.node_pool import NODE_CLASS, POOL
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.models import FleetSpec
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, record
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.pricing.test_one_price import assert_one_price
from tests.unit.stacks.moto_mocks import simulated_actions

NAME = "atlas-test-use1"


def fleet(autoscaler: dict[str, Any] | None, on_breach: str = "notify", **kubernetes: Any) -> FleetSpec:
    settings = {"private_cidrs": ["10.60.0.0/24"], **kubernetes}
    if autoscaler is not None:
        settings["autoscaler"] = autoscaler
    site = cloud_site(
        group("sweep", ["g6e.xlarge", "g6e.2xlarge"], spot(0, 4, "on-demand")),
        group("serve", "g6.xlarge", on_demand(1, 3), user_data=["#!/bin/sh\ntrue\n"]),
        group("train", "p5.48xlarge", on_demand(0, 2), zones=["us-east-1a"], network="efa"),
        group("held", "g6.xlarge", odcr(1), zones=["us-east-1a"]),
        scheduler="kubernetes",
        kubernetes=settings,
    )
    return spec(cloud=[site], budget={"monthly": "900000 USD", "on_breach": on_breach})


def build(found: FleetPlan) -> Recording:
    return record(
        lambda: build_fleet(found, StackSettings("sandbox", "test", False, None, {}, {})), EchoMocks()
    )


def plan(**more: Any) -> FleetPlan:
    return build_plan(fleet({"kind": "karpenter"}, **more), CATALOG)


@pytest.fixture(scope="module")
def made() -> Recording:
    return build(plan(on_breach="stop-scale-out"))


def test_groups_that_can_change_are_pools_and_the_others_node_groups(made: Recording) -> None:
    node_groups = {each.name for each in made.of("aws:eks/nodeGroup:NodeGroup")}
    assert node_groups == {f"{NAME}-held", f"{NAME}-system"}
    pools = {each.inputs["metadata"]["name"] for each in made.of(POOL)}
    assert pools == {"sweep", "serve", "serve.always", "train"}
    classes = {each.name.removeprefix(f"{NAME}-") for each in made.of(NODE_CLASS)}
    assert classes == {"sweep", "serve", "train"}
    templates = {each.name for each in made.of("LaunchTemplate")}
    assert templates == {f"{NAME}-held", f"{NAME}-system"}
    assert made.of("ClusterAutoscaler") == []


def test_nodes_get_what_the_node_group_had(made: Recording) -> None:
    before = build(build_plan(fleet(None), CATALOG))
    for name in ("serve", "train"):
        template = before.one("LaunchTemplate", f"{NAME}-{name}").inputs
        old = before.one("aws:eks/nodeGroup:NodeGroup", f"{NAME}-{name}").inputs
        new = made.one(NODE_CLASS, f"{NAME}-{name}").inputs["spec"]
        pool = made.one(POOL, f"{NAME}-{name}").inputs["spec"]["template"]
        assert new["amiSelectorTerms"] == [{"id": template["imageId"]}]
        assert [each["id"] for each in new["subnetSelectorTerms"]] == old["subnetIds"]
        security = template["networkInterfaces"][0]["securityGroups"]
        assert [each["id"] for each in new["securityGroupSelectorTerms"]] == security
        tags = next(iter(template["tagSpecifications"]))["tags"]
        assert new["tags"] == tags
        assert pool["metadata"]["labels"] == old["labels"]
        assert {each["key"] for each in pool["spec"]["taints"]} == {each["key"] for each in old["taints"]}
    interfaces = before.one("LaunchTemplate", f"{NAME}-train").inputs["networkInterfaces"]
    found = made.one(NODE_CLASS, f"{NAME}-train").inputs["spec"]["networkInterfaces"]
    assert len(found) == len(interfaces) == 33


def test_user_data_has_the_users_part_only(made: Recording) -> None:
    """Karpenter writes the NodeConfig by which a node joins, and the one that stripes its drives."""
    text = made.one(NODE_CLASS, f"{NAME}-serve").inputs["spec"]["userData"]
    assert text.count("Content-Type: text/x-shellscript") == 1
    assert "NodeConfig" not in text
    assert made.one(NODE_CLASS, f"{NAME}-serve").inputs["spec"]["instanceStorePolicy"] == "RAID0"


def test_pods_start_once_they_have_a_role(made: Recording) -> None:
    association = made.one("PodIdentityAssociation", f"{NAME}-karpenter")
    assert association.inputs["serviceAccount"] == "karpenter"
    component = made.one("gpufleet:kubernetes:Karpenter")
    assert association.urn in component.dependencies
    assert made.one("Deployment", f"{NAME}-karpenter").parent == component.urn


def test_pools_follow_karpenter_and_are_deleted_before_it(made: Recording) -> None:
    deployment = made.one("Deployment", f"{NAME}-karpenter")
    definitions = made.one("Release", f"{NAME}-karpenter-definitions")
    assert definitions.urn in deployment.dependencies
    for each in made.of(NODE_CLASS):
        assert {deployment.urn, definitions.urn} <= set(each.dependencies)


def test_spent_budget_has_a_policy_for_each_group_that_denies_its_launches(made: Recording) -> None:
    policies = made.of("aws:iam/policy:Policy")
    found = {each.inputs["name"]: json.loads(each.inputs["policy"]) for each in policies}
    assert set(found) == {f"{NAME}-{each}-stop" for each in ("sweep", "serve", "train")}
    (statement,) = found[f"{NAME}-sweep-stop"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert set(statement["Action"]) == {"ec2:RunInstances", "ec2:CreateFleet"}
    assert statement["Condition"] == {"StringEquals": {"aws:RequestTag/gpufleet:node-group": "sweep"}}
    role = made.one("aws:iam/role:Role", f"{NAME}-karpenter")
    assert role.inputs["name"] == f"{NAME}-karpenter"
    # Else a policy that the function attached would keep the role and the policy from being deleted.
    assert role.inputs["forceDetachPolicies"] is True
    assert {each.urn for each in policies} <= set(role.dependencies)
    assert build(plan()).of("aws:iam/policy:Policy") == []


def test_phased_site_gets_the_role_and_no_manifests() -> None:
    built = build(plan(access="phased"))
    assert built.one("PodIdentityAssociation", f"{NAME}-karpenter")
    assert built.of("Deployment") == built.of(POOL) == []


@pytest.mark.parametrize("preview", [True, False])
def test_plan_and_stack_have_one_price(preview: bool) -> None:
    assert_one_price(fleet({"kind": "karpenter"}), preview=preview)
    assert_one_price(fleet({"kind": "karpenter"}, access="phased"), preview=preview)


@pytest.fixture(scope="module")
def reserved() -> Recording:
    wanted = {"kind": "karpenter", "reserved_nodes": "node-pools"}
    return build(build_plan(fleet(wanted, on_breach="stop-scale-out"), CATALOG))


def test_reservation_is_the_one_of_the_node_group_and_its_nodes_are_a_pool(
    made: Recording, reserved: Recording
) -> None:
    kind = "aws:ec2/capacityReservation:CapacityReservation"
    (before,), (after,) = made.of(kind), reserved.of(kind)
    assert (after.urn, after.inputs) == (before.urn, before.inputs)
    assert {each.name for each in reserved.of("aws:eks/nodeGroup:NodeGroup")} == {f"{NAME}-system"}
    pool, own = (reserved.one(each, f"{NAME}-held").inputs["spec"] for each in (POOL, NODE_CLASS))
    template = made.one("LaunchTemplate", f"{NAME}-held").inputs["capacityReservationSpecification"]
    held = template["capacityReservationTarget"]["capacityReservationId"]
    assert own["capacityReservationSelectorTerms"] == [{"id": held}]
    assert pool["limits"] == {"nodes": "1", "cpu": "4", "nvidia.com/gpu": "1"}
    others = [each for each in reserved.of(NODE_CLASS) if each.name != f"{NAME}-held"]
    assert not any("capacityReservationSelectorTerms" in each.inputs["spec"] for each in others)


def test_karpenter_uses_reservations_only_where_a_pool_has_one(made: Recording, reserved: Recording) -> None:
    def reads(built: Recording) -> tuple[bool, bool]:
        pod = built.one("Deployment", f"{NAME}-karpenter").inputs["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        gates = next(each["value"] for each in container["env"] if each["name"] == "FEATURE_GATES")
        policy = next(each for each in built.of("RolePolicy") if each.name.startswith(f"{NAME}-karpenter"))
        return "ReservedCapacity=true" in gates, "capacity-reservation/" in str(policy.inputs["policy"])

    assert (reads(made), reads(reserved)) == ((False, False), (True, True))


def test_spent_budget_does_not_stop_what_is_paid_for(reserved: Recording) -> None:
    policies = {each.inputs["name"] for each in reserved.of("aws:iam/policy:Policy")}
    assert policies == {f"{NAME}-{each}-stop" for each in ("sweep", "serve", "train")}


def test_preflight_asks_for_policies_only_with_karpenter_and_a_budget_that_stops() -> None:
    def actions(autoscaler: dict[str, Any], on_breach: str) -> set[str]:
        return simulated_actions(build_plan(fleet(autoscaler, on_breach), CATALOG))

    karpenter: dict[str, Any] = {"kind": "karpenter"}
    stopping = actions(karpenter, "stop-scale-out")
    assert {each for each in stopping if "Policy" in each and each.startswith("iam:Create")} == {
        "iam:CreatePolicy"
    }
    assert "iam:CreatePolicy" not in actions(karpenter, "notify")
    assert "iam:CreatePolicy" not in actions({}, "stop-scale-out")
    assert "autoscaling:CreateOrUpdateTags" not in actions(karpenter, "notify")
