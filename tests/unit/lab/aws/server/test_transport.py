"""Requests of clients in the server's process get the answers of those over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from werkzeug.serving import make_server

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.server.handler import QuietHandler
from gpufleet.lab.aws.server.transport import Transport

# Of HTTP: the connection, not the request.
_OF_CONNECTION = {
    *("REMOTE_PORT", "werkzeug.socket", "wsgi.input", "wsgi.errors", "SERVER_SOFTWARE"),
    *("HTTP_AMZ_SDK_INVOCATION_ID", "HTTP_AUTHORIZATION", "HTTP_X_AMZ_DATE", "HTTP_EXPECT"),
}


class Recorder:
    """An application that keeps the environment and the body of each request."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.status = "200 OK"
        self.headers = [("Content-Type", "text/xml"), ("x-amz-request-id", "r1")]
        self.body = b"<Answer/>"

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.seen.append({**environ, "body": body})
        start_response(self.status, self.headers)
        return [self.body]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def address(recorder: Recorder) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, recorder, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def _client(address: str, service: str, transport: Transport | None = None) -> Any:
    session = botocore.session.Session()
    made = session.create_client(
        service,
        "us-east-1",
        endpoint_url=address,
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=SECRET_ACCESS_KEY,
        config=Config(retries={"total_max_attempts": 1}, proxies={}, s3={"addressing_style": "path"}),
    )
    if transport is not None:
        made.meta.events.register_first("before-send", transport)
    return made


@pytest.mark.parametrize(
    ("service", "operation", "parameters"),
    [
        ("ec2", "describe_vpcs", {"VpcIds": ["vpc-1"], "Filters": [{"Name": "tag:ü", "Values": ["a b"]}]}),
        ("kms", "create_key", {"Description": "key of 'a'"}),
        ("eks", "describe_nodegroup", {"clusterName": "c", "nodegroupName": "with space/slash"}),
        ("eks", "list_nodegroups", {"clusterName": "c", "maxResults": 5}),
        ("s3", "head_object", {"Bucket": "bucket", "Key": "a/b +c"}),
        ("s3", "put_object", {"Bucket": "bucket", "Key": "k", "Body": b"content", "Metadata": {"a_b": "1"}}),
        ("s3", "put_bucket_tagging", {"Bucket": "b", "Tagging": {"TagSet": [{"Key": "k", "Value": "v"}]}}),
    ],
)
def test_application_gets_the_same_environment(
    recorder: Recorder, address: str, service: str, operation: str, parameters: dict[str, Any]
) -> None:
    recorder.body = b"{}" if service in {"kms", "eks"} else b"<Answer/>"
    for transport in (None, Transport(recorder)):
        getattr(_client(address, service, transport), operation)(**parameters)
    over_http, in_process = (
        {key: value for key, value in each.items() if key not in _OF_CONNECTION} for each in recorder.seen
    )
    # Without a body, HTTP has no length of it.
    over_http.setdefault("CONTENT_LENGTH", "0")
    assert in_process == over_http


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("200 OK", b"<DescribeVpcsResponse><vpcSet/></DescribeVpcsResponse>"),
        (
            "400 Bad",
            b"<Response><Errors><Error><Code>C</Code><Message>m</Message></Error></Errors></Response>",
        ),
        ("503 Busy", b""),
    ],
)
def test_client_gets_the_same_answer(recorder: Recorder, address: str, status: str, body: bytes) -> None:
    recorder.status, recorder.body = status, body
    answers = []
    for transport in (None, Transport(recorder)):
        try:
            answer = _client(address, "ec2", transport).describe_vpcs()
        except ClientError as error:
            answer = {**error.response, "message": str(error)}
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        for of_server in ("server", "date", "connection", "content-length"):
            headers.pop(of_server, None)
        answers.append(answer)
    assert answers[0] == answers[1]


def test_answer_to_head_has_no_body(recorder: Recorder) -> None:
    recorder.status = "404 Not Found"
    with pytest.raises(ClientError, match="404"):
        _client("http://127.0.0.1:1", "s3", Transport(recorder)).head_bucket(Bucket="bucket")


def test_error_of_the_application_reaches_the_client(recorder: Recorder) -> None:
    def broken(_environ: dict[str, Any], _start: Any) -> list[bytes]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _client("http://127.0.0.1:1", "ec2", Transport(broken)).describe_vpcs()
