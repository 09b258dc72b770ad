"""Which site a resource belongs to: by tag, by its children, by its parent, by its name."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gpufleet.engine.api import Changes, Op, PlannedResource, ResourceEvent, RunResult
from gpufleet.plan.models import FleetPlan
from gpufleet.report.sites import changes_by_site, sites_of

STACK = "urn:pulumi:sandbox::gpufleet::pulumi:pulumi:Stack::gpufleet-sandbox"


def urn(kind: str, name: str) -> str:
    return f"urn:pulumi:sandbox::gpufleet::{kind}::{name}"


def resource(kind: str, name: str, parent: str = STACK, tags: Any = None) -> PlannedResource:
    return PlannedResource(
        urn=urn(kind, name),
        type=kind,
        name=name,
        op=Op.CREATE,
        custom=True,
        inputs={"tags": tags} if tags is not None else {},
        parent=parent,
    )


def event(made: PlannedResource, op: Op = Op.CREATE, status: Any = "done") -> ResourceEvent:
    return ResourceEvent(made.urn, made.type, made.name, op, status, made.parent)


STACK_RESOURCE = PlannedResource(STACK, "pulumi:pulumi:Stack", "gpufleet-sandbox", Op.CREATE, False, {})


def site_of(plan: FleetPlan, wanted: PlannedResource, *others: PlannedResource) -> str | None:
    return sites_of([STACK_RESOURCE, wanted, *others], [], plan)[wanted.urn]


def with_site(plan: FleetPlan, name: str) -> FleetPlan:
    return replace(plan, cloud=(*plan.cloud, replace(plan.cloud[0], site=name)))


def test_tag_has_precedence_over_the_name(plan: FleetPlan) -> None:
    made = resource("aws:ec2/vpc:Vpc", "atlas-sandbox-use1-vpc", tags={"gpufleet:site": "usw2"})
    assert site_of(plan, made) == "usw2"


def test_unknown_tags_do_not_decide(plan: FleetPlan) -> None:
    for tags in ("[unknown]", {"gpufleet:site": None}, {}):
        made = resource("aws:ec2/vpc:Vpc", "atlas-sandbox-use1-vpc", tags=tags)
        assert site_of(plan, made) == "use1"


def test_component_belongs_to_the_site_of_its_children(plan: FleetPlan) -> None:
    component = resource("gpufleet:x:Y", "anything")
    inner = resource("gpufleet:x:Z", "inner", component.urn)
    child = resource("aws:ec2/vpc:Vpc", "vpc", inner.urn, tags={"gpufleet:site": "usw2"})
    assert site_of(plan, component, inner, child) == "usw2"
    assert site_of(plan, inner, component, child) == "usw2"


def test_resource_without_tags_belongs_to_the_site_of_its_parent(plan: FleetPlan) -> None:
    component = resource("gpufleet:x:Y", "anything")
    tagged = resource("aws:ec2/vpc:Vpc", "vpc", component.urn, tags={"gpufleet:site": "usw2"})
    rule = resource("aws:ec2/route:Route", "route", component.urn)
    assert site_of(plan, rule, component, tagged) == "usw2"


def test_name_decides_last_and_the_longest_site_name_matches(plan: FleetPlan) -> None:
    longer = with_site(plan, "use1-b")
    assert site_of(longer, resource("pulumi:providers:aws", "atlas-sandbox-use1-b")) == "use1-b"
    assert site_of(longer, resource("pulumi:providers:aws", "atlas-sandbox-use1")) == "use1"
    # A node group called "b" of the site use1 is not the site use1-b.
    group = resource("gpufleet:node_group:NodeGroup", "atlas-sandbox-use1-b")
    template = resource("aws:ec2/launchTemplate:LaunchTemplate", "t", group.urn, {"gpufleet:site": "use1"})
    assert site_of(longer, group, template) == "use1"


def test_name_that_only_starts_like_a_site_belongs_to_no_site(plan: FleetPlan) -> None:
    assert site_of(plan, resource("pulumi:providers:aws", "atlas-sandbox-use10")) is None
    assert site_of(plan, resource("aws:budgets/budget:Budget", "atlas-sandbox-budget")) is None


def test_stack_belongs_to_no_site_even_if_all_its_children_do(plan: FleetPlan) -> None:
    child = resource("aws:ec2/vpc:Vpc", "vpc", tags={"gpufleet:site": "use1"})
    budget = resource("aws:budgets/budget:Budget", "budget")
    sites = sites_of([STACK_RESOURCE, child, budget], [event(STACK_RESOURCE)], plan)
    assert sites.get(STACK) is None
    assert sites[budget.urn] is None


def test_changes_are_counted_by_site_in_plan_order(plan: FleetPlan) -> None:
    first = resource("aws:ec2/vpc:Vpc", "atlas-sandbox-usw2-vpc")
    second = resource("aws:ec2/vpc:Vpc", "atlas-sandbox-use1-vpc")
    third = resource("aws:ec2/subnet:Subnet", "atlas-sandbox-use1-subnet")
    gone = resource("aws:ec2/vpc:Vpc", "old", tags={"gpufleet:site": "former"})
    events = [
        event(STACK_RESOURCE, Op.SAME),
        event(first, Op.DELETE),
        event(second, Op.SAME),
        event(third, Op.CREATE_REPLACEMENT),
        event(third, Op.REPLACE),
        event(third, Op.DELETE_REPLACED),
        event(gone, Op.DELETE),
    ]
    result = RunResult("embedded", "preview", True, Changes(), 1.0, resources=(first, second, third, gone))
    groups = changes_by_site(result, events, plan)
    assert [group.site for group in groups] == ["use1", "usw2", "former", None]
    assert groups[0].changes == Changes(replace=1, same=1)
    assert [item.op for item in groups[0].events] == [Op.REPLACE]
    assert groups[1].changes == Changes(delete=1)
    assert groups[2].changes == Changes(delete=1)
    assert groups[3].changes == Changes(same=1)
    assert groups[3].events == ()


def test_failed_and_skipped_steps_are_not_changes(plan: FleetPlan) -> None:
    made = resource("aws:ec2/vpc:Vpc", "atlas-sandbox-use1-vpc")
    result = RunResult("embedded", "up", False, Changes(), 1.0)
    for status in ("started", "failed", "skipped"):
        groups = changes_by_site(result, [event(made, status=status)], plan)
        assert all(group.changes == Changes() for group in groups)
