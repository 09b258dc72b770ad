"""Unsupported features with their messages, and how an error ends a call of the program."""

from __future__ import annotations

from typing import Any

import grpc
from pulumi.runtime.proto import resource_pb2

from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.urns import PROVIDER_PREFIX
from gpufleet.engine.errors import RunInterruptedError, StepFailedError, UnsupportedError
from gpufleet.errors import GpufleetError


class RefusalRecorder:
    """Turns an error into the end of the call; an unsupported feature first ends the whole run."""

    def __init__(self, deployment: Deployment, context: grpc.ServicerContext) -> None:
        self._deployment = deployment
        self._context = context

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, GpufleetError):
            if isinstance(error, RunInterruptedError):
                self._context.abort(grpc.StatusCode.UNAVAILABLE, error.message)
            if not isinstance(error, StepFailedError):
                # UNAVAILABLE makes the SDK end the program without a stack trace.
                self._deployment.refuse(error)
                self._context.abort(grpc.StatusCode.UNAVAILABLE, error.message)
            self._context.abort(grpc.StatusCode.UNKNOWN, error.message)
        if isinstance(error, Exception):
            self._deployment.refuse(error)
            self._context.abort(grpc.StatusCode.UNAVAILABLE, f"internal error: {error}")


def refuse_unsupported(request: resource_pb2.RegisterResourceRequest) -> None:
    """Raise `UnsupportedError` for a registration that only the Pulumi CLI can serve."""
    name = f"resource '{request.name}'"
    if request.remote:
        raise UnsupportedError(f"{name} is a remote component ({request.type})")
    if request.transforms:
        raise UnsupportedError(f"{name} has transforms")
    if request.state_migrations:
        raise UnsupportedError(f"{name} has state migrations")
    if request.replace_with:
        raise UnsupportedError(f"{name} has the option replace_with")
    if request.HasField("replacement_trigger"):
        raise UnsupportedError(f"{name} has the option replacement_trigger")
    if request.HasField("hooks") and request.hooks.ListFields():
        raise UnsupportedError(f"{name} has hooks")
    if request.envVarMappings:
        raise UnsupportedError(f"{name} maps environment variables")
    if request.type.startswith(PROVIDER_PREFIX) and request.importId:
        raise UnsupportedError(f"{name} is a provider with the option import")
