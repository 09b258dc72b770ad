"""The provider as a process: its start, and its responses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

import gpufleet
from gpufleet.lab.aws.provider import VERSION
from tests.unit.lab.aws.provider.driver import as_struct

PLUGIN = Path(gpufleet.__file__).parent / "lab" / "plugin" / "pulumi-resource-aws"
REAL_KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.fixture(params=["module", "plugin"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = (
        [sys.executable, "-m", "gpufleet.lab.aws.provider"] if request.param == "module" else [str(PLUGIN)]
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    env |= {"GPUFLEET_PYTHON": sys.executable, "AWS_ACCESS_KEY_ID": REAL_KEY}
    running = subprocess.Popen(
        [*command, "127.0.0.1:1"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield running
    running.terminate()
    running.communicate(timeout=30)


def test_plugin_process_prints_its_port_and_answers(process: subprocess.Popen[str], endpoint: str) -> None:
    assert process.stdout is not None
    begun = time.monotonic()
    port = int(process.stdout.readline())
    assert time.monotonic() - begun < 30
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        assert stub.GetPluginInfo(empty_pb2.Empty()).version == VERSION == "7.51.1"
        assert '"name": "aws"' in stub.GetSchema(provider_pb2.GetSchemaRequest()).schema
        stub.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1"))
        assert stub.Handshake(provider_pb2.ProviderHandshakeRequest()).accept_secrets
        with pytest.raises(grpc.RpcError) as caught:
            stub.Configure(provider_pb2.ConfigureRequest(args=as_struct({"region": "us-east-1"})))
        assert "AWS_ACCESS_KEY_ID AKIA... is not the sandbox's own key" in caught.value.details()
        assert REAL_KEY not in caught.value.details()
        bad = provider_pb2.CheckRequest(urn="urn", news=as_struct({"regoin": "x"}))
        assert "aws:regoin" in stub.CheckConfig(bad).failures[0].reason


def test_plugin_is_stored_where_no_real_stack_looks_for_it() -> None:
    assert os.access(PLUGIN, os.X_OK)
    assert not (Path(sys.executable).parent / "pulumi-resource-aws").exists()


def test_provider_starts_without_importing_pulumi_aws() -> None:
    code = (
        "import sys, gpufleet.lab.aws.provider.server as s;"
        "print([m for m in ('pulumi_aws', 'moto', 'boto3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
