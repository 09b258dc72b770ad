"""Pulumi's Engine service for programs and providers: log lines and the root resource."""

from __future__ import annotations

import re
import threading

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from gpufleet.engine.api import Severity
from gpufleet.engine.embedded.reporter import Reporter

# The version of the Pulumi protocol that this engine implements: programs may require one.
PROTOCOL_VERSION = (3, 260, 0)

_SEVERITIES: dict[int, Severity] = {
    engine_pb2.DEBUG: "debug",
    engine_pb2.INFO: "info",
    engine_pb2.WARNING: "warning",
    engine_pb2.ERROR: "error",
}


class EngineService(engine_pb2_grpc.EngineServicer):
    """The service of one run."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._lock = threading.Lock()
        self._root = ""
        self.silent = threading.Event()

    def Log(  # noqa: N802 - gRPC method names
        self, request: engine_pb2.LogRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Pass a line on, except the program's message after its own rejection."""
        severity = _SEVERITIES.get(request.severity, "info")
        if severity != "debug" and not (severity == "error" and self.silent.is_set()):
            self._reporter.log(severity, request.message.rstrip("\n"), request.urn)
        return empty_pb2.Empty()

    def GetRootResource(  # noqa: N802
        self, request: engine_pb2.GetRootResourceRequest, context: grpc.ServicerContext
    ) -> engine_pb2.GetRootResourceResponse:
        """Return the resource that is the parent of everything without one."""
        with self._lock:
            return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(  # noqa: N802
        self, request: engine_pb2.SetRootResourceRequest, context: grpc.ServicerContext
    ) -> engine_pb2.SetRootResourceResponse:
        """Store that resource."""
        with self._lock:
            self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def StartDebugging(  # noqa: N802
        self, request: engine_pb2.StartDebuggingRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Report how to reach the debugger."""
        self._reporter.log("info", request.message)
        return empty_pb2.Empty()

    def RequirePulumiVersion(  # noqa: N802
        self, request: engine_pb2.RequirePulumiVersionRequest, context: grpc.ServicerContext
    ) -> engine_pb2.RequirePulumiVersionResponse:
        """Check that the protocol version is in the range that the program requires."""
        wanted = request.pulumi_version_range
        version = ".".join(map(str, PROTOCOL_VERSION))
        if not in_range(PROTOCOL_VERSION, wanted):
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the embedded engine implements Pulumi {version}, and the program requires {wanted}",
            )
        return engine_pb2.RequirePulumiVersionResponse()


_COMPARISON = re.compile(r"(>=|<=|!=|==|=|>|<|!)?\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")


def in_range(version: tuple[int, int, int], wanted: str) -> bool:
    """Return whether a version is in a range: comparisons joined by spaces (and) and `||` (or)."""
    return any(_satisfies(version, part) for part in wanted.split("||"))


def _satisfies(version: tuple[int, int, int], conjunction: str) -> bool:
    for operator, *numbers in _COMPARISON.findall(conjunction):
        bound = tuple(int(number or 0) for number in numbers)
        holds = {
            ">=": version >= bound,
            "<=": version <= bound,
            ">": version > bound,
            "<": version < bound,
            "!": version != bound,
            "!=": version != bound,
        }.get(operator, version == bound)
        if not holds:
            return False
    return True
