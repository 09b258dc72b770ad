"""The stack program on the shipped environments: requirements of every resource of a fleet."""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pulumi_aws
import pytest
from pulumi.output import Unknown
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.load import load_fleet
from gpufleet.stacks.program import build_fleet
from gpufleet.stacks.settings import StackSettings
from tests.unit.components.recording import EchoMocks, Recording, Registration, record

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = ("sandbox", "dev", "prod")


@cache
def plan(environment: str) -> FleetPlan:
    return build_plan(load_fleet(environment, root=ROOT).spec, load_catalog())


@cache
def built(environment: str, protect: bool = True) -> Recording:
    settings = StackSettings("sandbox", environment, protect, None, {}, {})
    return record(lambda: build_fleet(plan(environment), settings))


def taggable(resource: Registration) -> bool:
    """Whether pulumi_aws gives the type a `tags` input."""
    if not resource.type.startswith("aws:"):
        return False
    _, module, name = resource.type.split(":")
    # A module named like a keyword of Python ends in an underscore.
    folder = module.split("/")[0]
    kind = getattr(getattr(pulumi_aws, f"{folder}_" if keyword.iskeyword(folder) else folder), name)
    return "tags" in inspect.signature(kind._internal_init).parameters


def aws_resources(environment: str) -> Iterator[Registration]:
    return (r for r in built(environment) if r.type.startswith("aws:"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_taggable_resource_has_the_fleet_tags_and_a_name(environment: str) -> None:
    wanted = dict(plan(environment).tags).items()
    checked = 0
    for resource in aws_resources(environment):
        if not taggable(resource):
            continue
        tags = resource.inputs.get("tags") or {}
        if isinstance(tags, list):
            assert all(tag["propagateAtLaunch"] for tag in tags)
            tags = {tag["key"]: tag["value"] for tag in tags}
        assert wanted <= tags.items(), resource.name
        assert tags.get("Name"), resource.name
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_launched_resources_have_the_fleet_tags(environment: str) -> None:
    for template in built(environment).of("LaunchTemplate"):
        specifications = {s["resourceType"]: s["tags"] for s in template.inputs["tagSpecifications"]}
        kinds = specifications.keys() - {"spot-instances-request"}
        assert kinds == {"instance", "volume", "network-interface"}
        for tags in specifications.values():
            assert dict(plan(environment).tags).items() <= tags.items()


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_resource_of_a_site_is_a_child_of_a_component(environment: str) -> None:
    for resource in aws_resources(environment):
        assert "gpufleet:" in resource.parent, resource.name


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_aws_resource_uses_the_provider_of_its_region(environment: str) -> None:
    for resource in aws_resources(environment):
        assert resource.provider.rpartition("::")[0].endswith(
            tuple(f"::{p.name}" for p in built(environment).of("pulumi:providers:aws"))
        ), resource.name


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_nothing_is_open_to_the_world(environment: str) -> None:
    for resource in aws_resources(environment):
        inputs = resource.inputs
        kind = resource.type.rpartition(":")[2]
        if kind == "SecurityGroupIngressRule":
            assert inputs.get("cidrIpv4") != "0.0.0.0/0", resource.name
            assert "cidrIpv6" not in inputs, resource.name
        if kind in ("SecurityGroup", "DefaultSecurityGroup"):
            assert not inputs.get("ingress"), resource.name
        if kind == "Subnet":
            assert inputs["mapPublicIpOnLaunch"] is False
        if kind == "LaunchTemplate":
            for interface in inputs["networkInterfaces"]:
                assert interface.get("associatePublicIpAddress") != "true"
        if kind == "Cluster":
            assert inputs["vpcConfig"]["endpointPublicAccess"] is False


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_policy_has_a_wildcard_action_and_resource(environment: str) -> None:
    checked = 0
    for policy in built(environment).of("aws:iam/rolePolicy:RolePolicy"):
        for statement in json.loads(policy.inputs["policy"])["Statement"]:
            everything = "*" in statement["Resource"] if isinstance(statement["Resource"], str) else False
            assert not (everything and any("*" in action for action in statement["Action"])), policy.name
            checked += 1
    assert checked


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_interfaces_of_each_group_match_the_plan(environment: str) -> None:
    templates = {t.name: t.inputs for t in built(environment).of("LaunchTemplate")}
    for group in plan(environment).node_groups:
        name = f"{plan(environment).fleet}-{environment}-{group.site}-{group.name}"
        layout = [
            (i["networkCardIndex"], i["deviceIndex"], i["interfaceType"])
            for i in templates[name]["networkInterfaces"]
        ]
        assert layout == [
            (i.network_card_index, i.device_index, i.interface_type) for i in group.network_interfaces
        ]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_only_efa_groups_are_in_the_efa_security_group(environment: str) -> None:
    templates = {t.name: t.inputs for t in built(environment).of("LaunchTemplate")}
    for group in plan(environment).node_groups:
        prefix = f"{plan(environment).fleet}-{environment}-{group.site}"
        for interface in templates[f"{prefix}-{group.name}"]["networkInterfaces"]:
            assert (f"{prefix}-efa-id" in interface["securityGroups"]) == group.efa


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_capacity_block_launches_into_a_placement_group(environment: str) -> None:
    for template in built(environment).of("LaunchTemplate"):
        if template.inputs.get("instanceMarketOptions", {}).get("marketType") == "capacity-block":
            assert "placement" not in template.inputs


def test_sandbox_has_every_component_purchase_option_and_storage_kind() -> None:
    kinds = {r.type for r in built("sandbox")}
    assert {k for k in kinds if k.startswith("gpufleet:")} == {
        "gpufleet:budget:BudgetGuard",
        "gpufleet:capacity:CapacityBlock",
        "gpufleet:capacity:OnDemandReservation",
        "gpufleet:cluster:EksCluster",
        "gpufleet:identity:IamRoles",
        "gpufleet:identity:PodRole",
        "gpufleet:kubernetes:ClusterBase",
        "gpufleet:network:Network",
        "gpufleet:node_group:NodeGroup",
        "gpufleet:storage:Bucket",
        "gpufleet:storage:SharedStorage",
    }
    types = {g.inputs["capacityType"] for g in built("sandbox").of("aws:eks/nodeGroup:NodeGroup")}
    assert types == {"ON_DEMAND", "SPOT", "CAPACITY_BLOCK"}
    deployments = {f.inputs["deploymentType"] for f in built("sandbox").of("LustreFileSystem")}
    assert deployments == {"PERSISTENT_2", "PERSISTENT_1", "SCRATCH_2"}


def test_storage_and_paid_capacity_are_protected_by_default() -> None:
    kept = ("LustreFileSystem", "Bucket", "CapacityBlockReservation", "CapacityBlockOffering")
    for kind in kept:
        for resource in built("sandbox", True).of(kind):
            if resource.custom:
                assert resource.protect, resource.name
    assert not [r.name for r in built("sandbox", False) if r.protect]


def test_on_premises_sites_create_no_cloud_resource() -> None:
    names = {site.site for site in plan("sandbox").onprem}
    assert names
    for resource in built("sandbox"):
        assert not names & set(resource.name.split("-")), resource.name


def test_two_builds_of_one_plan_register_the_same_resources() -> None:
    settings = StackSettings("sandbox", "sandbox", True, None, {}, {})
    again = record(lambda: build_fleet(plan("sandbox"), settings))
    first = {r.urn: r.inputs for r in built("sandbox")}
    assert {r.urn: r.inputs for r in again} == first


class FirstPreviewMocks(EchoMocks):
    """A first preview: ids and computed outputs do not exist yet."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return "", dict(args.inputs)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_first_preview_registers_the_same_resources_with_unknown_ids(environment: str) -> None:
    settings = StackSettings("sandbox", environment, True, None, {}, {})
    foreseen = record(lambda: build_fleet(plan(environment), settings), FirstPreviewMocks(), preview=True)
    assert {r.urn for r in foreseen} == {r.urn for r in built(environment)}
    assert {type(subnet.inputs["vpcId"]) for subnet in foreseen.of("Subnet")} == {Unknown}


class StoppedMocks(EchoMocks):
    """The budget was spent: two groups are stopped, one of them without nodes."""

    def call(self, args: MockCallArgs) -> Any:
        if args.token != "aws:ssm/getParametersByPath:getParametersByPath":
            return super().call(args)
        assert args.args["path"] == "/gpufleet/atlas/sandbox"
        groups = {"atlas-sandbox-use1-sweep": [4, 1, 0], "atlas-sandbox-usw2-burst": [2, 1, 1]}
        value = json.dumps({"since": "2030-05-04", "groups": groups})
        return {"names": ["/gpufleet/atlas/sandbox/stopped-groups"], "values": [value]}


def test_stopped_groups_keep_their_maximum_and_all_else_is_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = StackSettings("sandbox", "sandbox", True, None, {}, {})
    again = record(lambda: build_fleet(plan("sandbox"), settings), StoppedMocks())
    first = {r.urn: r for r in built("sandbox")}
    assert {r.urn for r in again} == first.keys()
    differ = {r.name: r for r in again if r.inputs != first[r.urn].inputs}
    assert differ.keys() == {"atlas-sandbox-use1-sweep", "atlas-sandbox-usw2-burst"}
    sweep, burst = differ["atlas-sandbox-use1-sweep"], differ["atlas-sandbox-usw2-burst"]
    assert sweep.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 1, "desiredSize": 0}
    assert (burst.inputs["maxSize"], burst.inputs["desiredCapacity"]) == (1, 1)
    # The size is sent too: Pulumi's last known one could end running nodes.
    assert sweep.ignore_changes == burst.ignore_changes == ()
    assert "atlas-sandbox-use1-sweep, atlas-sandbox-usw2-burst grow no more" in caplog.text
