"""The user's program as a separate process, and the services that it calls."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from pulumi.runtime.proto import engine_pb2_grpc, resource_pb2_grpc

from gpufleet.engine.embedded.connection import CHANNEL_OPTIONS
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.engine_service import EngineService
from gpufleet.engine.embedded.monitor import Monitor
from gpufleet.engine.forks import Process
from gpufleet.engine.plugins import pump

_EXECUTOR = Path(__file__).with_name("exec_program.py")


class Services:
    """The gRPC server of a run, on its own loopback port."""

    def __init__(self, parallel: int) -> None:
        # The SDK keeps 4 calls per unit of parallelism open; providers log in addition.
        self._pool = ThreadPoolExecutor(max_workers=max(1, parallel) * 4 + 16, thread_name_prefix="rpc")
        self._server = grpc.server(self._pool, options=CHANNEL_OPTIONS)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{self.port}"

    def start(self, engine: EngineService, monitor: Monitor) -> None:
        """Start serving."""
        engine_pb2_grpc.add_EngineServicer_to_server(engine, self._server)
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, self._server)
        self._server.start()

    def stop(self) -> None:
        """Stop serving; running calls are cut off."""
        self._server.stop(None).wait()
        self._pool.shutdown(wait=True, cancel_futures=True)


class Program:
    """The running program of a run; its output goes to the reporter."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._process = _start(context)
        self._pumps = [pump(stream, self._log) for stream in (self._process.stdout, self._process.stderr)]

    def _log(self, line: str) -> None:
        # The output of a program that is being ended is not useful.
        if not self._context.cancelled.is_set():
            self._context.reporter.log("info", line)

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        try:
            code = self._wait()
        finally:
            self._context.processes.end(self._process)
        for thread in self._pumps:
            thread.join()
        return code

    def _wait(self) -> int:
        while True:
            try:
                return self._process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                if self._context.cancelled.is_set():
                    return 1


def _start(context: RunContext) -> Process:
    request = context.request
    command = [
        sys.executable,
        "-u",
        str(_EXECUTOR),
        *("--monitor", context.engine_address, "--engine", context.engine_address),
        *("--project", request.project, "--stack", request.stack, "--organization", "organization"),
        *("--root-directory", str(request.project_root.resolve())),
        *("--parallel", str(request.parallel)),
        *(("--dry-run",) if context.program_previews else ()),
        str(request.program_dir.resolve()),
    ]
    env = {
        **context.env,
        "PULUMI_CONFIG": json.dumps(dict(request.config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(sorted(request.secret_config)),
    }
    return context.processes.start(command, env=env, cwd=request.program_dir)
