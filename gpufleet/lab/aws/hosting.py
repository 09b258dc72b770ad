"""Aws providers in the process of a throwaway account.

A provider sends hundreds of requests for one fleet. Between two processes, most of their time is HTTP and
switches between threads that wait for each other; here a request is a call.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from gpufleet.lab.aws.provider.assumed import ASSUMES, AssumingAwsProvider
from gpufleet.lab.aws.provider.provider import AwsProvider
from gpufleet.lab.aws.provider.server import start
from gpufleet.lab.aws.server.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpufleet.lab.aws.server.app import SandboxApp

START_TIMEOUT_S = 60.0
_WORKERS = 2
"""Threads of a provider. Requests wait for nothing but each other, as the account answers one at a time."""


class ProviderHost:
    """Starts providers for the account of `app`. They serve until this process ends."""

    def __init__(self, app: SandboxApp) -> None:
        self._transport = Transport(app)
        self._loop = asyncio.new_event_loop()
        self._servers: list[Any] = []
        threading.Thread(target=self._loop.run_forever, name="sandbox-providers", daemon=True).start()

    def start(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """Start a provider with a plugin's environment. Return its port."""
        kind = AssumingAwsProvider if environ.get(ASSUMES) else AwsProvider
        provider = kind(environ, self._transport, workers=_WORKERS)
        server, port = asyncio.run_coroutine_threadsafe(start(provider), self._loop).result(START_TIMEOUT_S)
        self._servers.append(server)
        return {"port": port}
