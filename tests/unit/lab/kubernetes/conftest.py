"""The provider served over gRPC, configured for a folder of the test's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.lab import protocol
from gpufleet.lab.kubernetes import VERSION
from gpufleet.lab.kubernetes.provider import KubernetesProvider
from tests.unit.lab.aws.provider.driver import Engine


class Server:
    """The kubernetes provider's gRPC server on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server, self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    @staticmethod
    async def _start() -> Any:
        return await protocol.start(KubernetesProvider(), VERSION)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(None), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Server()
    made = Engine(server.port)
    yield made
    made.close()
    server.stop()


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sandbox's folder; the environment names no cluster."""
    monkeypatch.setenv("GPUFLEET_SANDBOX_DIR", str(tmp_path))
    monkeypatch.delenv("GPUFLEET_KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nonexistent/never-read")
    return tmp_path


@pytest.fixture
def rendering(engine: Engine, sandbox: Path) -> Engine:
    engine.configure(clusterIdentifier="test")
    return engine
