"""One cluster for all tests here, from bare hosts to GPUs for pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rack.kubernetes.cluster import ALL, NEXT, Cluster, of_whole_life
from tests.rack.lab import Lab


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what takes minutes on this cluster unless it is asked."""
    skip = pytest.mark.skip(f"the life of a cluster is not asked: {ALL}=all asks it")
    for item in items:
        if item.get_closest_marker("whole_life") and not of_whole_life():
            item.add_marker(skip)


@pytest.fixture(scope="session")
def cluster(
    can_hold_racks: None, racks_up: dict[str, Lab], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The cluster after its first and second run, with NVIDIA's device plugin."""
    made = Cluster.up(tmp_path_factory.mktemp("cluster"), (NEXT,) if of_whole_life() else ())
    racks_up["cluster"] = made.site.lab
    try:
        made.first = made.configure()
        made.install_device_plugin()
        made.second = made.configure()
        yield made
    finally:
        if "cluster" in racks_up:
            racks_up.pop("cluster").down()
