"""The executable that the Pulumi CLI starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc

from gpufleet.lab.kubernetes import VERSION

PLUGINS = Path(__file__).resolve().parents[4] / "gpufleet" / "lab" / "plugin"


def test_plugin_on_path_prints_its_port_and_has_the_version_of_the_sdk():
    import importlib.metadata

    path = shutil.which("pulumi-resource-kubernetes", path=str(PLUGINS))
    assert path is not None, "it is not executable"
    process = subprocess.Popen(
        [path, ""], stdout=subprocess.PIPE, text=True, env=os.environ | {"GPUFLEET_PYTHON": sys.executable}
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            found = provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty()).version
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
    assert found == VERSION == importlib.metadata.version("pulumi-kubernetes")
