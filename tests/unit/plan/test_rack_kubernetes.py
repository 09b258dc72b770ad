"""Kubernetes of a rack site: its control plane, groups of nodes, and the labels of nodes."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.rack_kubernetes import plan_kubernetes
from gpufleet.plan.rack_models import RackKubernetesPlan

from .test_rack import site

CLUSTER: dict[str, Any] = {"version": "1.35", "endpoint": "10.0.0.1"}


def planned(*, groups: list[dict[str, Any]] | None = None, **changes: Any) -> RackKubernetesPlan:
    fields = {
        "nodes": "dgx[1-4]",
        "scheduler": "kubernetes",
        "kubernetes": CLUSTER | {"node_groups": groups or []},
    }
    found = plan_kubernetes(site(**fields | changes))
    assert found is not None
    return found


def labels(plan: RackKubernetesPlan, host: str, *names: str) -> dict[str, str]:
    """The labels of a host without their prefix: those of `names`."""
    found = {key.removeprefix("gpufleet.io/"): value for key, value in plan.node_labels[host].items()}
    return {key: value for key, value in found.items() if key in names}


def test_slurm_site_has_no_cluster() -> None:
    assert plan_kubernetes(site()) is None


def test_control_plane_is_the_site_s_controllers() -> None:
    assert planned(controllers="ctl[01-03]").members == ("ctl01", "ctl02", "ctl03")
    assert planned(controllers=None).members == ()


def test_memory_for_the_system_is_in_mib() -> None:
    assert planned(kubernetes=CLUSTER | {"reserved_memory_gib": 8}).reserved_memory_mib == 8192


def test_nodes_that_no_group_names_are_a_group_of_their_own() -> None:
    some = planned(groups=[{"name": "serve", "nodes": "dgx[1-3]"}])
    assert [(each.name, each.hosts) for each in some.node_groups] == [
        ("serve", ("dgx1", "dgx2", "dgx3")),
        ("gpu", ("dgx4",)),
    ]
    every = planned(groups=[{"name": "serve", "nodes": "dgx[1-5]"}])
    assert [each.name for each in every.node_groups] == ["serve"]
    assert list(every.node_labels) == ["dgx1", "dgx2", "dgx3", "dgx4"], "the site has no more nodes"


def test_group_has_the_profile_into_which_gpus_of_its_nodes_are_divided() -> None:
    mig = [
        {"nodes": "dgx1", "profiles": {}},
        {"nodes": "dgx[2-4]", "profiles": {"3g.40gb": 2}},
    ]
    found = planned(groups=[{"name": "whole", "nodes": "dgx1"}], mig=mig)
    assert [(each.name, each.mig_profile, each.mig_devices) for each in found.node_groups] == [
        ("whole", None, 1),
        ("gpu", "3g.40gb", 2),
    ]
    assert [(each.mig_profile, each.mig_devices) for each in planned().node_groups] == [(None, 1)]


def test_labels_name_the_group_and_the_rack_of_a_node() -> None:
    plan = planned(
        groups=[{"name": "serve", "nodes": "dgx1", "labels": {"tier": "online"}}],
        racks=[{"name": "r1", "nodes": "dgx[1-2]"}],
    )
    names = ("site", "system", "rack", "node-group", "tier", "leaf")
    common = {"site": "dc1", "system": "dgx-h100"}
    assert labels(plan, "dgx1", *names) == common | {"rack": "r1", "node-group": "serve", "tier": "online"}
    assert labels(plan, "dgx2", *names) == common | {"rack": "r1", "node-group": "gpu"}
    assert labels(plan, "dgx3", *names) == common | {"node-group": "gpu"}


def test_labels_name_the_leaf_of_each_rail() -> None:
    switches = [
        {"name": "a0", "rail": 0, "nodes": "dgx[1-2]"},
        {"name": "a1", "rail": 1, "nodes": "dgx[1-2]"},
        {"name": "b", "nodes": "dgx3"},
        {"name": "spare", "rail": 0},
    ]
    plan = planned(fabric={"kind": "infiniband", "speed": "ndr", "switches": switches})
    names = ("leaf", "rail-0", "rail-1", "rail-None")
    assert labels(plan, "dgx1", *names) == {"leaf": "unit-a0", "rail-0": "a0", "rail-1": "a1"}
    assert labels(plan, "dgx3", *names) == {"leaf": "b"}
    assert labels(plan, "dgx4", *names) == {"leaf": "unit-unknown"}
