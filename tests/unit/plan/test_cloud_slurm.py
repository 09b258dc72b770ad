"""Cloud nodes that the Slurm of a rack site launches: controllers, times, and the jobs that may burst."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpufleet.plan.cloud_slurm import (
    BurstPlan,
    CloudSlurmPlan,
    node_prefix,
    partition_name,
    plan_cloud_slurm,
)
from tests.unit.plan.fleets import cloud_site, group, on_demand, rack_site, spec

IDENTITY = "arn:aws:iam::111122223333:role/dc1-controllers"
BURST: dict[str, Any] = {"teams": ["research"], "monthly": "500.50 USD"}
RACK: dict[str, Any] = {
    "controllers": "ctl[01-02]",
    "addresses": {"ctl01": "10.60.0.11", "ctl02": "10.60.0.12"},
    "network": "10.60.0.0/22",
    "teams": [{"name": "research", "gpus": 8}],
}


def planned(cloud: dict[str, Any] | None = None, /, **rack: Any) -> CloudSlurmPlan | None:
    """The plan of a site with two groups and these settings of `slurm`, beside a rack site."""
    groups = [group("sweep", "g6.xlarge", on_demand(0, 2)), group("big", "p5.48xlarge", on_demand(0, 1))]
    settings = {"controllers": "dc1", "identity": IDENTITY} if cloud is None else cloud
    fleet = spec(cloud=[cloud_site(*groups, slurm=settings or None)], onprem=[rack_site(**{**RACK, **rack})])
    return plan_cloud_slurm(fleet, fleet.cloud[0])


def bursting(rack: dict[str, Any] | None = None, **burst: Any) -> BurstPlan:
    settings = {"controllers": "dc1", "identity": IDENTITY, "burst": BURST | burst}
    found = planned(settings, **(rack or {}))
    assert found is not None and found.burst is not None
    return found.burst


def test_controllers_are_known_by_address_and_port() -> None:
    found = planned()
    assert found is not None
    assert (found.controllers, found.network, found.identity) == ("dc1", "10.60.0.0/22", IDENTITY)
    assert found.addresses == ("10.60.0.11:6817", "10.60.0.12:6817")
    assert found.munge_parameter == "/gpufleet/atlas/test/use1/munge-key"
    assert found.burst is None


def test_site_without_slurm_or_with_an_unknown_rack_site_has_no_plan() -> None:
    assert planned({}) is None
    assert planned({"controllers": "dc2", "identity": IDENTITY}) is None


def test_rack_site_without_controllers_or_a_network_has_none() -> None:
    found = planned(controllers=None, network=None, addresses={})
    assert found is not None
    assert (found.addresses, found.network) == ((), "")


def test_times_are_seconds() -> None:
    times = {"suspend_after": "10 min", "resume_within": "1 h", "retry_after": "90 s"}
    found = planned({"controllers": "dc1", "identity": IDENTITY, **times})
    assert found is not None
    assert (found.suspend_s, found.resume_s, found.retry_s) == (600, 3600, 90)


def test_burst_without_partitions_and_groups_is_for_all_of_them() -> None:
    found = bursting({"slurm": {"partitions": [{"name": "gpu"}, {"name": "long"}]}}, after="5 min")
    assert (found.teams, found.partitions, found.groups) == (
        ("research",),
        ("gpu", "long"),
        ("sweep", "big"),
    )
    assert (found.after_s, found.monthly) == (300, Decimal("500.50"))


def test_burst_with_partitions_and_groups_is_for_those() -> None:
    rack = {"slurm": {"partitions": [{"name": "gpu"}, {"name": "long"}]}}
    found = bursting(rack, partitions=["long"], groups=["big"])
    assert (found.partitions, found.groups) == (("long",), ("big",))


def test_nodes_are_named_after_their_site_and_group() -> None:
    assert partition_name("use1", "sweep") == "use1-sweep"
    assert node_prefix("use1", "sweep") == "use1-sweep-"
