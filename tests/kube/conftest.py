"""One API server for all tests here, and the provider on top of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpufleet.components.cluster_base import PRIORITIES, priority_class
from gpufleet.lab.kubernetes.rest import Rest
from tests.kube.build import asked_minors
from tests.kube.cluster import ApiServerProcess
from tests.unit.lab.aws.provider.driver import Engine
from tests.unit.lab.kubernetes.conftest import Server


@pytest.fixture(scope="package", params=asked_minors())  # an idle server still uses CPU
def api_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServerProcess]:
    made = ApiServerProcess(tmp_path_factory.mktemp("kube"), minor=request.param)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def rest(api_server: ApiServerProcess) -> Rest:
    return api_server.rest()


@pytest.fixture(scope="module")
def without_priorities(api_server: ApiServerProcess) -> None:
    """For stacks, whose PriorityClasses have the names of those that tests of racks leave on this server."""
    rest = api_server.rest()
    for priority in PRIORITIES:
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{priority_class(priority)}"
        if rest.find(path):
            rest.call("DELETE", path)


@pytest.fixture
def engine(api_server: ApiServerProcess, tmp_path, monkeypatch) -> Iterator[Engine]:
    """The provider over gRPC, applying to the API server."""
    monkeypatch.setenv("GPUFLEET_KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.setenv("GPUFLEET_SANDBOX_DIR", str(tmp_path))
    server = Server()
    made = Engine(server.port)
    made.configure(clusterIdentifier="test")
    yield made
    made.close()
    server.stop()
