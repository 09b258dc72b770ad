"""Serves the aws provider over gRPC."""

from __future__ import annotations

import os

import grpc.aio

from gpufleet.lab import protocol
from gpufleet.lab.aws.provider import VERSION
from gpufleet.lab.aws.provider.assumed import ASSUMES, AssumingAwsProvider
from gpufleet.lab.aws.provider.provider import AwsProvider


async def start(provider: AwsProvider, engine_address: str = "") -> tuple[grpc.aio.Server, int]:
    """Start a server on a free port of the loopback interface; return it with the port."""
    return await protocol.start(provider, VERSION, engine_address)


def main(arguments: list[str]) -> int:
    """Serve until it is ended; print the port as the first line, as plugins do."""
    kind = AssumingAwsProvider if os.environ.get(ASSUMES) else AwsProvider
    return protocol.serve(lambda _engine: kind(), VERSION, arguments)
