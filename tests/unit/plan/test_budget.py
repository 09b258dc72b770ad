"""Node groups whose size a breach of the budget stops, and those that it drains."""

from __future__ import annotations

import pytest

from gpufleet.plan import build_plan
from tests.unit.plan.fleets import CATALOG, cloud_site, group, odcr, on_demand, spec, spot
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK

GROUPS = (
    group("rest", "g6.xlarge", on_demand(0, 2), team="a"),
    group("held", "g6.xlarge", odcr(2)),
    group("sweep", "g6.xlarge", spot(0, 2)),
    group("falls", "g6.xlarge", spot(0, 2, "on-demand"), team="a"),
)
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
