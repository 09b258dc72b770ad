"""Images of charts that helm renders with the roles' values, compared with those of the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from tests.kube import cluster_programs
from tests.kube.test_kubernetes_gpu import nvidia, rendered, values_of

LOCK = load_catalog().lock("2026.11")
# Parts of the GPU Operator that it deploys with `sandboxWorkloads` only (controllers/state_manager.go).
SANDBOX = {
    *("vgpuManager", "vgpuDeviceManager", "vfioManager", "kataManager", "ccManager"),
    *("sandboxDevicePlugin", "kataSandboxDevicePlugin"),
}


def images_in(item: Any) -> Iterator[str]:
    """Images of pods, and of enabled parts of an operator's object."""
    if isinstance(item, list):
        for each in item:
            yield from images_in(each)
    elif isinstance(item, dict) and item.get("enabled") is not False:
        image = item.get("image")
        if isinstance(image, str):
            yield f"{item['repository']}/{image}:{item['version']}" if "repository" in item else image
        for name, value in item.items():
            if name not in SANDBOX:
                yield from images_in(value)


def of_objects(made: list[dict[str, Any]]) -> set[str]:
    """Images of all objects but definitions, whose schemas have fields of that name."""
    return set(images_in([item for item in made if item["kind"] != "CustomResourceDefinition"]))


def test_flannel_runs_the_images_of_the_catalog() -> None:
    made = rendered(cluster_programs.flannel_chart(), {"podCidr": "10.244.0.0/16"})
    assert of_objects(made) == set(load_catalog().images["flannel", cluster_programs.FLANNEL].images)


def test_gpu_operator_runs_the_images_of_the_catalog_and_no_others() -> None:
    # The chart of a release has its version where that of the repository has a development tag.
    version = {"version": f"v{LOCK.gpu_operator}"}
    values = values_of("gpu-operator")
    values |= {"operator": values["operator"] | version, "validator": version}
    assert of_objects(rendered(nvidia("gpu-operator"), values)) == set(
        load_catalog().images["gpu-operator", LOCK.gpu_operator].images
    )


@pytest.mark.parametrize("functions", [0, 8])
def test_network_operator_runs_the_images_of_the_catalog_and_no_others(functions: int) -> None:
    known = load_catalog().images["network-operator", LOCK.network_operator]
    values = values_of("network-operator", kubernetes_gpu_virtual_functions=functions)
    found = of_objects(rendered(nvidia("network-operator"), values))
    parts = set(known.parts["virtual-functions"]) if functions else set()
    assert set(known.images) <= found <= set(known.images) | parts
    assert any("sriov-network-operator" in name for name in found) == bool(functions)
