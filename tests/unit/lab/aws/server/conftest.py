"""A sandbox for each test, stopped after the test in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY

Client = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "sandbox"
    yield folder
    daemon.stop(folder)


@pytest.fixture
def client() -> Client:
    def make(
        endpoint: daemon.Endpoint, service: str, region: str = "us-east-1", key: str = ACCESS_KEY_ID
    ) -> Any:
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=endpoint.url,
            aws_access_key_id=key,
            aws_secret_access_key=SECRET_ACCESS_KEY,
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )

    return make
