"""Fleets whose resources are judged: between them they have every component that has a policy in IAM."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, NamedTuple

from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.spec.load import load_fleet
from tests.collected import ROOT
from tests.unit.components.recording import Recording
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec, spot
from tests.unit.plan.random_fleets import LAUNCHED, SLURM_RACK

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


class Built(NamedTuple):
    """What the program of a fleet made."""

    plan: FleetPlan
    made: Recording
    actions: Set[str]
    """Of the calls that made it; none where nothing answers calls."""
