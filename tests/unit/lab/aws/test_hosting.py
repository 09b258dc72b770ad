"""Aws providers in the server of a throwaway account."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import botocore.session
import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.provider import VERSION
from gpufleet.verdict.scratch import scratch
from tests.unit.lab.aws.provider.driver import as_struct

_URN = "urn:pulumi:dev::lab::aws:ec2/vpc:Vpc::main"


def _start(env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gpufleet.lab.aws.hosted_provider", "127.0.0.1:1"],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _create(stub: Any, region: str) -> Any:
    stub.Configure(provider_pb2.ConfigureRequest(args=as_struct({"region": region})))
    inputs = as_struct({"cidrBlock": "10.0.0.0/16"})
    checked = stub.Check(
        provider_pb2.CheckRequest(urn=_URN, type="aws:ec2/vpc:Vpc", name="main", news=inputs)
    )
    assert not checked.failures
    request = provider_pb2.CreateRequest(
        urn=_URN, type="aws:ec2/vpc:Vpc", name="main", properties=checked.inputs
    )
    return stub.Create(request)


def test_providers_of_two_processes_share_the_account_of_its_clients() -> None:
    with scratch() as own:
        env, url = own.account.env, own.account.endpoint.url
        processes = {region: _start(env) for region in ("us-east-1", "us-west-2")}
        try:
            for region, process in processes.items():
                assert process.stdout is not None
                with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
                    stub = provider_pb2_grpc.ResourceProviderStub(channel)
                    assert stub.GetPluginInfo(empty_pb2.Empty()).version == VERSION
                    made = _create(stub, region)
                keys = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}
                ec2 = botocore.session.Session().create_client("ec2", region, endpoint_url=url, **keys)
                assert ec2.describe_vpcs(VpcIds=[made.id])["Vpcs"][0]["CidrBlock"] == "10.0.0.0/16"
        finally:
            for process in processes.values():
                process.terminate()
                process.communicate(timeout=30)


def test_hosted_provider_gets_the_environment_of_its_process() -> None:
    with scratch() as own:
        process = _start({**own.account.env, "AWS_ACCESS_KEY_ID": "AKIA" + "IOSFODNN7EXAMPLE"})
        try:
            assert process.stdout is not None
            with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
                stub = provider_pb2_grpc.ResourceProviderStub(channel)
                try:
                    stub.Configure(provider_pb2.ConfigureRequest(args=as_struct({"region": "us-east-1"})))
                except grpc.RpcError as error:
                    assert "AWS_ACCESS_KEY_ID AKIA... is not the sandbox's own key" in error.details()
                else:
                    raise AssertionError("real credentials were accepted")
        finally:
            process.terminate()
            process.communicate(timeout=30)


def test_hosted_provider_without_its_account_says_so() -> None:
    process = _start({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err == "the emulated AWS at http://127.0.0.1:9 has started no provider\n"
