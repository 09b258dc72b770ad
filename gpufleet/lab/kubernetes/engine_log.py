"""Lines of the provider in the engine's own diagnostics."""

from __future__ import annotations

import sys

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class EngineLog:
    """Logs to the engine at `address`; to standard error without one."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._logged: set[tuple[str, str]] = set()

    def info(self, message: str, urn: str = "") -> None:
        """Log `message` once; `urn` is the resource that it is about."""
        if (message, urn) in self._logged:
            return
        self._logged.add((message, urn))
        if not self._address:
            sys.stderr.write(f"{message}\n")
            return
        request = engine_pb2.LogRequest(severity=engine_pb2.INFO, message=message, urn=urn)
        try:
            with grpc.insecure_channel(self._address) as channel:
                engine_pb2_grpc.EngineStub(channel).Log(request, timeout=10)
        except grpc.RpcError:
            # A failed log call must not fail the operation.
            sys.stderr.write(f"{message}\n")
