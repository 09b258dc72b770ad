from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, isolated_environ, sandbox_env
from gpufleet.lab.aws.server.guard import access_key, refusal

FOREIGN = "AKIAIOSFODNN7EXAMPLE"
SIGNED = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY_ID}/20261121/us-east-1/ec2/aws4_request, Signature=x"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[daemon.Endpoint]:
    root = tmp_path_factory.mktemp("guarded")
    yield daemon.ensure(root)
    daemon.stop(root)


def _get(endpoint: daemon.Endpoint, path: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("ec2", "describe_vpcs"),
        ("eks", "list_clusters"),
        ("s3", "list_buckets"),
        ("fsx", "describe_file_systems"),
        ("iam", "list_roles"),
        ("sqs", "list_queues"),
        ("sts", "get_caller_identity"),
        ("logs", "describe_log_groups"),
    ],
)
def test_real_account_key_is_refused_in_every_protocol(
    endpoint: daemon.Endpoint, client: Any, service: str, operation: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(client(endpoint, service, key=FOREIGN), operation)()
    error = refused.value.response
    assert error["Error"]["Code"] == "AccessDenied"
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert ACCESS_KEY_ID in error["Error"]["Message"]
    assert FOREIGN not in error["Error"]["Message"]


def test_refused_request_changes_nothing(endpoint: daemon.Endpoint, client: Any) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        client(endpoint, "s3", key=FOREIGN).create_bucket(Bucket="never-made")
    assert client(endpoint, "s3").list_buckets()["Buckets"] == []


def test_host_name_other_than_loopback_is_refused(endpoint: daemon.Endpoint) -> None:
    port = endpoint.url.rpartition(":")[2]
    status, body = _get(endpoint, "/", {"Host": f"evil.example:{port}", "Authorization": SIGNED})
    assert status == 403
    assert "loopback" in body


def test_unsigned_request_is_refused(endpoint: daemon.Endpoint) -> None:
    status, body = _get(endpoint, "/some-bucket/some-key", {})
    assert status == 403
    assert "unsigned" in body


def test_control_api_of_moto_is_not_reachable(endpoint: daemon.Endpoint) -> None:
    assert _get(endpoint, "/moto-api/data.json", {"Authorization": SIGNED})[0] == 404
    assert _get(endpoint, "/moto-api/data.json", {})[0] == 403


@pytest.mark.parametrize("verb", ["health", "reset"])
def test_web_page_cannot_control_the_server(endpoint: daemon.Endpoint, verb: str) -> None:
    assert _get(endpoint, f"/_gpufleet/{verb}", {})[0] == 403


def test_get_request_does_not_reset(endpoint: daemon.Endpoint) -> None:
    assert _get(endpoint, "/_gpufleet/reset", {"X-Gpufleet-Sandbox": "1"})[0] == 404


def test_presigned_url_works_without_a_header(endpoint: daemon.Endpoint, client: Any) -> None:
    s3 = client(endpoint, "s3")
    s3.create_bucket(Bucket="presigned")
    s3.put_object(Bucket="presigned", Key="k", Body=b"content")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "presigned", "Key": "k"})
    assert _get(endpoint, url.removeprefix(endpoint.url), {}) == (200, "content")
    s3.delete_object(Bucket="presigned", Key="k")
    s3.delete_bucket(Bucket="presigned")


def test_unsupported_operation_is_reported(endpoint: daemon.Endpoint, client: Any) -> None:
    with pytest.raises(ClientError) as refused:
        client(endpoint, "ec2").describe_verified_access_groups()
    assert refused.value.response["Error"]["Code"] == "NotImplemented"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert "no such operation" in refused.value.response["Error"]["Message"]


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "bucket.localhost:4566", "[::1]:80"])
def test_loopback_names_are_accepted(host: str) -> None:
    assert refusal({"HTTP_HOST": host, "HTTP_AUTHORIZATION": SIGNED}) == ""


@pytest.mark.parametrize("host", ["", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example:80"])
def test_other_names_are_refused(host: str) -> None:
    assert "loopback" in refusal({"HTTP_HOST": host, "HTTP_AUTHORIZATION": SIGNED})


@pytest.mark.parametrize(
    ("environ", "key"),
    [
        ({"HTTP_AUTHORIZATION": SIGNED}, ACCESS_KEY_ID),
        ({"HTTP_AUTHORIZATION": f"AWS {FOREIGN}:signature"}, FOREIGN),
        ({"QUERY_STRING": f"X-Amz-Credential={FOREIGN}%2F20261121%2Fus-east-1%2Fs3%2Faws4_request"}, FOREIGN),
        ({"QUERY_STRING": f"AWSAccessKeyId={FOREIGN}&Signature=x"}, FOREIGN),
        ({"HTTP_AUTHORIZATION": "Bearer token"}, None),
        ({}, None),
    ],
)
def test_access_key_is_found_anywhere_in_a_request(environ: dict[str, str], key: str | None) -> None:
    assert access_key(environ) == key


def test_environment_of_a_child_has_no_user_profile() -> None:
    endpoint = daemon.Endpoint("http://127.0.0.1:1", 1)
    mine = {
        "AWS_PROFILE": "prod",
        "AWS_ENDPOINT_URL_EC2": "https://ec2",
        "AWS_ROLE_ARN": "arn",
        "HOME": "/home/me",
    }
    environ = isolated_environ(endpoint, mine)
    assert environ["HOME"] == "/home/me"
    assert environ["AWS_ENDPOINT_URL"] == endpoint.url
    assert {"AWS_PROFILE", "AWS_ENDPOINT_URL_EC2", "AWS_ROLE_ARN"}.isdisjoint(environ)
    assert set(environ) == {"HOME", *sandbox_env(endpoint)}


def test_environment_points_every_credentials_file_to_an_empty_one() -> None:
    environ = sandbox_env(daemon.Endpoint("http://127.0.0.1:1", 1))
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        assert Path(environ[name]).read_bytes() == b""
    assert environ["AWS_ACCESS_KEY_ID"] == ACCESS_KEY_ID
    assert environ["AWS_EC2_METADATA_DISABLED"] == "true"
    assert environ["AWS_SESSION_TOKEN"] == ""
