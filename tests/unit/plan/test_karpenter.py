"""Karpenter of a site: which groups are node pools, their limits, and what their nodes are called."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.plan.models import CloudSitePlan, KubernetesPlan, NodePoolPlan
from tests.unit.plan.fleets import block, group, odcr, on_demand, plan_of, spot


def plan(*groups: dict[str, Any], karpenter: dict[str, Any] | None = None, **site: Any) -> CloudSitePlan:
    settings: dict[str, Any] = {
        "private_cidrs": ["10.60.0.0/24"],
        "autoscaler": {"kind": "karpenter", **(karpenter or {})},
    }
    return plan_of(*groups, scheduler="kubernetes", kubernetes=settings, **site).cloud[0]


def pool(*groups: dict[str, Any], **settings: Any) -> NodePoolPlan:
    (found,) = plan(*groups, karpenter=settings).node_groups
    assert found.node_pool is not None
    return found.node_pool


def cluster(site: CloudSitePlan) -> KubernetesPlan:
    assert site.kubernetes is not None
    return site.kubernetes


def test_image_is_that_of_the_channel_with_its_digest() -> None:
    found = cluster(plan(group("sweep", "g6.xlarge", spot(0, 4)))).karpenter
    assert found is not None
    repository, version, digest = found.image.replace("@", ":", 1).split(":", 2)
    assert repository == "public.ecr.aws/karpenter/controller"
    assert version == found.version
    assert digest.startswith("sha256:")
    assert not found.static_capacity


@pytest.mark.parametrize("autoscaler", [None, {}, {"kind": "none"}])
def test_other_sites_have_none(autoscaler: dict[str, Any] | None) -> None:
    settings: dict[str, Any] = {"private_cidrs": ["10.60.0.0/24"]}
    if autoscaler is not None:
        settings["autoscaler"] = autoscaler
    site = plan_of(
        group("sweep", "g6.xlarge", spot(0, 4)), scheduler="kubernetes", kubernetes=settings
    ).cloud[0]
    assert cluster(site).karpenter is None
    assert site.node_groups[0].node_pool is None


def test_slurm_site_has_no_pools() -> None:
    karpenter = {"autoscaler": {"kind": "karpenter"}}
    (site,) = plan_of(group("sweep", "g6.xlarge", spot(0, 4)), kubernetes=karpenter).cloud
    assert (site.kubernetes, site.node_groups[0].node_pool) == (None, None)


def test_cluster_without_settings_has_no_pools() -> None:
    (site,) = plan_of(group("sweep", "g6.xlarge", spot(0, 4)), scheduler="kubernetes").cloud
    assert site.node_groups[0].node_pool is None


def test_groups_whose_size_belongs_to_something_else_stay_node_groups() -> None:
    site = plan(
        group("scaled", "g6.xlarge", on_demand(0, 2)),
        group("steady", "g6.xlarge", on_demand(2, 2)),
        group("steady-spot", "g6.xlarge", spot(2, 2, "on-demand")),
        group("drawn", "g6.xlarge", on_demand(0, 2)),
        group("undrawn", "g6.xlarge", on_demand(0, 2)),
        group("held", "g6.xlarge", odcr(1), zones=["us-east-1a"]),
        group("bought", "p5.48xlarge", block(1), zones=["us-east-1a"]),
        ordered_capacity=[{"name": "order", "nodes": 2, "groups": ["drawn", "undrawn"]}],
    )
    found = {each.name for each in site.node_groups if each.node_pool is not None}
    assert found == {"scaled", "steady-spot"}
    assert all(each.autoscaled is None for each in site.node_groups)
    assert cluster(site).autoscaler is None
    assert not cluster(site).scales_system_nodes


def test_reservations_and_blocks_are_pools_if_the_fleet_file_says_so() -> None:
    held = {"id": "cr-0123456789abcdef0", "zone": "us-east-1a"}
    arn = "arn:aws:resource-groups:us-east-1:111122223333:group/a"
    site = plan(
        group("made", "g6.xlarge", odcr(2), zones=["us-east-1a"]),
        group("held", "g6.xlarge", odcr(2, **held)),
        group("of-a-group", "g6.xlarge", odcr(2, group=arn)),
        group("bought", "p5.48xlarge", block(1), zones=["us-east-1a"]),
        group("theirs", "p5.48xlarge", block(1, start=None, **held)),
        group("drawn", "g6.xlarge", odcr(2), zones=["us-east-1a"]),
        group("steady", "g6.xlarge", on_demand(2, 2)),
        group("sweep", "g6.xlarge", spot(0, 2)),
        ordered_capacity=[{"name": "order", "nodes": 2, "groups": ["drawn"]}],
        karpenter={"reserved_nodes": "node-pools"},
    )
    pools = {each.name: each.node_pool for each in site.node_groups if each.node_pool is not None}
    assert set(pools) == {"made", "held", "bought", "theirs", "sweep"}
    assert {name for name, found in pools.items() if found.reserved} == set(pools) - {"sweep"}
    made = pools["made"]
    assert (made.capacity_types, made.always, made.most) == (("reserved",), 0, 2)
    assert made.limits == {"nodes": 2, "cpu": 8, "nvidia.com/gpu": 2}
    # Pods that any pool could take start on what is paid for.
    assert made.weight > pools["sweep"].weight
    karpenter = cluster(site).karpenter
    assert karpenter is not None
    assert (karpenter.reserved_capacity, karpenter.static_capacity) == (True, False)


def test_site_without_such_pools_does_not_turn_reservations_on() -> None:
    site = plan(group("sweep", "g6.xlarge", spot(0, 2)), karpenter={"reserved_nodes": "node-pools"})
    karpenter = cluster(site).karpenter
    assert karpenter is not None and not karpenter.reserved_capacity


def test_limits_count_devices_and_vcpus_besides_nodes() -> None:
    found = pool(group("train", "p5.48xlarge", on_demand(0, 3), zones=["us-east-1a"]))
    assert found.limits == {"nodes": 3, "cpu": 576, "nvidia.com/gpu": 24}
    assert pool(group("cpu", "m7i.xlarge", on_demand(0, 3))).limits == {"nodes": 3, "cpu": 12}
    assert pool(group("neuron", "inf2.24xlarge", on_demand(0, 3))).limits == {
        "nodes": 3,
        "cpu": 288,
        "aws.amazon.com/neuron": 18,
    }


def test_fraction_of_a_gpu_is_limited_by_vcpus() -> None:
    assert pool(group("tiny", "g6f.xlarge", on_demand(0, 2))).limits == {"nodes": 2, "cpu": 8}
    some = pool(group("mixed", ["g6.xlarge", "g6f.xlarge"], spot(0, 2)))
    assert some.limits == {"nodes": 2, "cpu": 8}, "not every type has a whole one"


def test_vcpus_are_those_of_the_largest_type() -> None:
    found = pool(group("sweep", ["g6e.xlarge", "g6e.4xlarge"], spot(0, 4)))
    assert found.limits == {"nodes": 4, "cpu": 64, "nvidia.com/gpu": 4}


def test_minimum_is_a_part_of_its_own_that_always_runs() -> None:
    site = plan(group("serve", "g6.xlarge", on_demand(2, 5)))
    found = site.node_groups[0].node_pool
    assert found is not None
    assert (found.always, found.most, found.limits["nodes"]) == (2, 5, 3)
    karpenter = cluster(site).karpenter
    assert karpenter is not None
    assert karpenter.static_capacity
    steady = pool(group("steady", "g6.xlarge", spot(2, 2, "on-demand")))
    assert (steady.always, steady.most, steady.limits) == (2, 2, {}), "no nodes besides"


def test_spot_that_falls_back_buys_both_and_its_nodes_have_no_label_of_one_kind() -> None:
    site = plan(
        group("both", "g6.xlarge", spot(0, 4, "on-demand")),
        group("spot", "g6.xlarge", spot(0, 4)),
        group("demand", "g6.xlarge", on_demand(0, 4)),
    )
    pools = {each.name: each.node_pool for each in site.node_groups if each.node_pool is not None}
    assert {name: each.capacity_types for name, each in pools.items()} == {
        "both": ("spot", "on-demand"),
        "spot": ("spot",),
        "demand": ("on-demand",),
    }
    labels = {each.name: each.labels for each in site.node_groups}
    assert "gpufleet.io/capacity" not in labels["both"]
    assert labels["spot"]["gpufleet.io/capacity"] == "spot"
    assert labels["demand"]["gpufleet.io/capacity"] == "on-demand"
    assert pools["both"].weight == pools["spot"].weight > pools["demand"].weight


def test_jobs_on_accelerators_stay_where_they_are() -> None:
    assert not pool(group("train", "g6.xlarge", on_demand(0, 2))).moves_pods
    assert not pool(group("neuron", "inf2.24xlarge", on_demand(0, 2))).moves_pods
    assert pool(group("cpu", "m7i.xlarge", on_demand(0, 2))).moves_pods


def test_settings_follow_the_fleet_file() -> None:
    plain = group("sweep", "g6.xlarge", spot(0, 4))
    assert pool(plain).ends_after_s == 600
    assert pool(plain).changed_nodes == "one-at-a-time"
    assert pool(plain, scale_down_after="30 min").ends_after_s == 1800
    assert pool(plain, scale_down=False).ends_after_s is None
    assert pool(plain, changed_nodes="when-idle").changed_nodes == "when-idle"
