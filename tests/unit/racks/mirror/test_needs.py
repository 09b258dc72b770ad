"""What sites need from a mirror: what their fleet file installs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.catalog import Catalog
from gpufleet.errors import InputError
from gpufleet.plan.models import FabricPlan, FleetPlan, OnPremSitePlan
from gpufleet.plan.rack import plan_rack
from gpufleet.racks.mirror.needs import Needs, needs_of
from tests.unit.racks.conftest import declared_site

MELLANOX = "nvcr.io/nvidia/mellanox/"
Make = Callable[..., Any]


def site(make_rack: Make, name: str = "dc1", *, roce: bool = False, **kubernetes: Any) -> OnPremSitePlan:
    """A rack site with Kubernetes."""
    operators = {"operators": kubernetes.pop("operators")} if "operators" in kubernetes else {}
    fabric: dict[str, Any] = (
        {"kind": "roce", "speed": "400gbe", "rails": ["mlx5_0"], "interfaces": ["eth0"]}
        if roce
        else {"kind": "infiniband", "speed": "ndr"}
    )
    declared = declared_site(
        scheduler="kubernetes",
        fabric=fabric,
        kubernetes={"version": "1.35", "cni": "flannel", "network_policies": False} | kubernetes | operators,
    )
    plan = FabricPlan(fabric["kind"], fabric["speed"], "rail-optimized")
    made: OnPremSitePlan = make_rack(site=name, scheduler="kubernetes", rack=plan_rack(declared), fabric=plan)
    return made


def names(needs: Needs) -> set[str]:
    return {image.name for image in needs.images}


def test_a_site_needs_its_release_its_network_and_its_operators(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    needs = needs_of(make_fleet(site(make_rack)), catalog)
    wanted = [
        *catalog.images["kubernetes", "1.35.4"].images,
        *catalog.images["flannel", "0.28.4"].images,
        *catalog.images["kueue", "0.19.2"].images,
        *catalog.images["gpu-operator", "26.7.0"].images,
        *catalog.images["network-operator", "26.4.0"].images,
        f"{MELLANOX}k8s-rdma-shared-dev-plugin:network-operator-v26.4.0",
    ]
    assert sorted(names(needs)) == sorted(wanted)
    assert [chart.chart.file for chart in needs.charts] == [
        "flannel-v0.28.4.tgz",
        "gpu-operator-v26.7.0.tgz",
        "kueue-0.19.2.tgz",
        "network-operator-26.4.0.tgz",
    ]
    order = [(image.component, image.name) for image in needs.images]
    assert order == sorted(order)


def test_what_a_site_does_not_install_is_not_needed(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    bare = site(
        make_rack,
        kueue=False,
        operators={"gpu_operator": False, "network_operator": False},
    )
    needs = needs_of(make_fleet(bare), catalog)
    assert {image.component for image in needs.images} == {"kubernetes", "flannel"}
    assert [chart.chart.name for chart in needs.charts] == ["flannel"]


def test_node_feature_discovery_comes_from_one_of_the_operators(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    def discovery(**operators: bool) -> list[str]:
        plan: FleetPlan = make_fleet(site(make_rack, operators=operators))
        return [name for name in names(needs_of(plan, catalog)) if "node-feature-discovery" in name]

    assert discovery() == ["registry.k8s.io/nfd/node-feature-discovery:v0.19.0"]
    assert discovery(gpu_operator=False) == [f"{MELLANOX}node-feature-discovery:network-operator-v26.4.0"]


def test_virtual_functions_need_the_sriov_operator_instead_of_the_shared_plugin(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    found = names(needs_of(make_fleet(site(make_rack, roce=True)), catalog))
    assert f"{MELLANOX}sriov-network-operator:network-operator-v26.4.0" in found
    assert not [name for name in found if "shared-dev-plugin" in name]


def test_sites_share_images_and_each_says_which_are_its_own(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    plan = make_fleet(site(make_rack, "dc1"), site(make_rack, "dc2", version="1.36"), make_rack(site="slurm"))
    needs = needs_of(plan, catalog)
    sites = {image.name: image.sites for image in needs.images}
    assert sites["registry.k8s.io/kueue/kueue:v0.19.2"] == ("dc1", "dc2")
    assert sites["registry.k8s.io/pause:3.10.1"] == ("dc1",)
    assert sites["registry.k8s.io/pause:3.10.2"] == ("dc2",)
    assert names(needs_of(plan, catalog, "dc2")) == {image.name for image in needs.images_of("dc2")}


def test_a_note_goes_with_names_that_were_not_verified(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    needs = needs_of(make_fleet(site(make_rack, cni="calico", network_policies=True)), catalog)
    noted = {image.component for image in needs.images if image.note}
    assert noted == {item.component for item in catalog.images.values() if not item.verified}
    assert all(image.to_json()["verified"] is not bool(image.note) for image in needs.images)


def test_a_fleet_without_kubernetes_and_another_site_are_refused(
    make_rack: Make, make_fleet: Make, catalog: Catalog
) -> None:
    with pytest.raises(InputError, match="test has no rack site with Kubernetes"):
        needs_of(make_fleet(make_rack()), catalog)
    with pytest.raises(InputError, match="no rack site 'dc9' with Kubernetes") as caught:
        needs_of(make_fleet(site(make_rack)), catalog, "dc9")
    assert caught.value.remedy == "use one of dc1"
