"""The budget: node groups that a breach stops or drains, and reports of unusual cost."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.budget_models import AnomaliesPlan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK

GROUPS = (
    group("rest", "g6.xlarge", on_demand(0, 2), team="a"),
    group("held", "g6.xlarge", odcr(2)),
    group("sweep", "g6.xlarge", spot(0, 2)),
    group("falls", "g6.xlarge", spot(0, 2, "on-demand"), team="a"),
)
MONTHLY: dict[str, object] = {"monthly": "1000 USD"}
IMAGE = {"image": "ami-0123456789abcdef0"}
OWN = {f"atlas-test-use1-{name}" for name in ("rest", "sweep", "falls")}


@pytest.mark.parametrize(
    ("site", "more"),
    [
        (cloud_site(*GROUPS), {"falls-fallback"}),
        (cloud_site(*GROUPS, scheduler="kubernetes"), {"system", "falls-fallback"}),
        # The controllers fall back themselves, and so does Karpenter.
        (cloud_site(*({**each, **IMAGE} for each in GROUPS), slurm=LAUNCHED), set()),
        (
            cloud_site(*GROUPS, scheduler="kubernetes", kubernetes={"autoscaler": {"kind": "karpenter"}}),
            {"system"},
        ),
    ],
    ids=["groups", "EKS", "Slurm launches", "Karpenter"],
)
def test_breach_stops_what_is_not_paid_for_anyway(site: dict[str, object], more: set[str]) -> None:
    racks = [SLURM_RACK] if site.get("slurm") else []
    budget = build_plan(spec(cloud=[site], onprem=racks), CATALOG).budget
    growing = {each.name: each.team for each in budget.growing_groups}
    assert set(growing) == OWN | {f"atlas-test-use1-{name}" for name in more}
    assert (growing["atlas-test-use1-rest"], growing["atlas-test-use1-sweep"]) == ("a", None)
    assert {each.name for each in budget.spot_groups} == {"atlas-test-use1-sweep", "atlas-test-use1-falls"}


@pytest.mark.parametrize(
    ("on_breach", "groups", "functions"),
    [
        ("notify", GROUPS, ()),
        ("stop-scale-out", GROUPS, ("stop",)),
        ("drain-spot", GROUPS, ("stop", "drain")),
        # Nothing to drain, and nothing to stop.
        ("drain-spot", GROUPS[:2], ("stop",)),
        ("drain-spot", GROUPS[1:2], ()),
    ],
)
def test_function_of_a_breach_writes_logs_where_it_has_something_to_do(
    on_breach: str, groups: tuple[dict[str, object], ...], functions: tuple[str, ...]
) -> None:
    plan = build_plan(spec(cloud=[cloud_site(*groups)], budget={**MONTHLY, "on_breach": on_breach}), CATALOG)
    assert [each.name for each in plan.log_groups] == [
        f"/aws/lambda/atlas-test-budget-{function}" for function in functions
    ]
    assert plan.budget.stops_growth is ("stop" in functions)
    assert plan.budget.drains_spot is ("drain" in functions)


@pytest.mark.parametrize(
    ("budget", "percent"),
    [
        ({"on_breach": "drain-spot"}, 110),
        ({"on_breach": "drain-spot", "drain_spot_at": "125%"}, 125),
        ({"on_breach": "stop-scale-out", "drain_spot_at": "125%"}, None),
    ],
)
def test_spot_nodes_drain_from_110_percent_or_the_declared_share(
    budget: dict[str, object], percent: int | None
) -> None:
    assert build_plan(spec(budget=MONTHLY | budget), CATALOG).budget.drain_spot_at == percent


def test_unusual_cost_is_reported_where_the_fleet_file_says_so() -> None:
    declared = {"anomalies": {"above": "50 USD"}}
    assert build_plan(spec(budget=MONTHLY | declared), CATALOG).budget.anomalies == AnomaliesPlan(
        Decimal(50), None
    )
    assert build_plan(spec(), CATALOG).budget.anomalies is None
