"""The provider against a sandbox server of the test session's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.provider.clients import Clients
from tests.unit.lab.aws.provider.driver import Engine, Server
from tests.unit.lab.aws.provider.world import REGION, World

DEFAULT_TAGS = {"team": "ml-platform"}


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root: Path = tmp_path_factory.mktemp("aws")
    yield daemon.ensure(root).url
    daemon.stop(root)


@pytest.fixture(scope="session")
def engine(endpoint: str) -> Iterator[Engine]:
    server = Server()
    engine = Engine(server.port)
    engine.configure(region=REGION, endpoints=[{"ec2": endpoint}], defaultTags={"tags": DEFAULT_TAGS})
    yield engine
    engine.close()
    server.stop()


@pytest.fixture(scope="session")
def clients(endpoint: str) -> Clients:
    return Clients(endpoint)


@pytest.fixture(scope="session")
def world(engine: Engine, clients: Clients) -> World:
    return World(engine, clients)
