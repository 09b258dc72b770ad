"""Charts and images that the Kubernetes roles name, compared with those of the catalog."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.catalog import Catalog, load_catalog
from tests.unit.ansible.gpu_roles import Role
from tests.unit.ansible.test_kubernetes_gpu_templates import role as gpu_role


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


@pytest.mark.parametrize("cni", ["calico", "cilium", "flannel"])
def test_charts_of_networks_are_those_that_the_role_installs(catalog: Catalog, cni: str) -> None:
    wanted = catalog.lock("2026.11").cni[cni]
    member = {"name": "ctl01", "address": "10.90.0.11"}
    role = Role(
        "kubernetes_control_plane",
        inventory_hostname="ctl01",
        kubernetes_control_plane_cni=cni,
        kubernetes_control_plane_cni_version=wanted,
        kubernetes_control_plane_members=[member],
    )
    installed = role.value("kubernetes_control_plane__chart")
    chart = catalog.images[cni, wanted].chart
    assert chart is not None
    assert (installed["chart"], installed["version"], installed["repository"]) == (
        chart.name,
        chart.version,
        chart.repository,
    )


def releases(**more: Any) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in gpu_role(**more).value("kubernetes_gpu__releases")}


@pytest.mark.parametrize("component", ["gpu-operator", "network-operator", "kueue"])
def test_charts_of_operators_are_those_that_the_role_installs(catalog: Catalog, component: str) -> None:
    lock = catalog.lock("2026.11")
    chart = catalog.images[component, getattr(lock, component.replace("-", "_"))].chart
    assert chart is not None
    direct, mirrored = (
        releases()[component],
        releases(kubernetes_gpu_chart_mirror="http://m/charts")[component],
    )
    named = (
        direct["chart"] if direct["chart"].startswith("oci:") else f"{direct['repository']}/{direct['chart']}"
    )
    assert (named, direct["version"]) == (f"{chart.repository}/{chart.name}", chart.version)
    assert mirrored["chart"] == f"http://m/charts/{chart.file}"


def test_images_that_roles_name_are_in_the_catalog(catalog: Catalog) -> None:
    lock = catalog.lock("2026.11")
    parts = catalog.images["network-operator", lock.network_operator].parts
    assert named_by(virtual_functions=0) == set(parts["shared-adapters"])
    of_functions = named_by(virtual_functions=8)
    assert of_functions and of_functions < set(parts["virtual-functions"])


def named_by(*, virtual_functions: int) -> set[str]:
    """Full names of the images in the policy of the Network Operator."""
    policy, *_ = gpu_role(
        kubernetes_gpu_fabric_kind="roce",
        kubernetes_gpu_interfaces=["eth0"],
        kubernetes_gpu_virtual_functions=virtual_functions,
    ).value("kubernetes_gpu__fabric")
    spec = policy["spec"]
    found = [spec.get("rdmaSharedDevicePlugin"), *spec.get("secondaryNetwork", {}).values()]
    return {f"{item['repository']}/{item['image']}:{item['version']}" for item in found if item}
