"""boto3 clients of the sandbox: created on first use, one per service and region, with fixed credentials."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import botocore.session
from botocore.config import Config
from botocore.loaders import Loader, create_loader

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.provider.retries import RetryPolicy

_CONFIG = Config(
    connect_timeout=5,
    read_timeout=60,
    max_pool_connections=40,
    # No retries of botocore's own: it repeats a creation whose answer was lost. See retries.
    retries={"mode": "standard", "total_max_attempts": 1},
    s3={"addressing_style": "path"},
    # The sandbox's address is on loopback: a proxy of the user's environment must not receive requests.
    proxies={},
)


def _loader() -> Loader:
    """Return a loader of botocore's models that has read what a client of any service needs, and STS's."""
    loader = create_loader()
    for name in ("endpoints", "partitions"):
        loader.load_data(name)
    for kind in ("service-2", "endpoint-rule-set-1"):
        loader.load_service_model("sts", kind)
    return loader


_LOADER = _loader()
"""Of this process: forked providers have it already, and all ask STS for the account."""


class Clients:
    """Clients for one endpoint. Thread-safe; the environment's own AWS settings are never read.

    With `transport`, a handler of botocore's event `before-send`, requests are not sent but answered by it.
    """

    def __init__(self, endpoint: str, transport: Callable[..., Any] | None = None) -> None:
        self.endpoint = endpoint
        self._transport = transport
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._clients: dict[tuple[str, str], Any] = {}
        # No profile of the environment: it does not exist in any file here.
        session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
        session.set_config_variable("config_file", "/dev/null")
        session.set_config_variable("credentials_file", "/dev/null")
        session.register_component("data_loader", _LOADER)
        self._session = session
        self._account = ""
        self._retry_policy = RetryPolicy()

    def get(self, service: str, region: str) -> Any:
        """The client of a service in a region."""
        key = (service, region)
        client = self._clients.get(key)
        if client is not None:
            return client
        with self._lock:
            if key not in self._clients:
                made = self._session.create_client(
                    service,
                    region_name=region,
                    endpoint_url=self.endpoint,
                    aws_access_key_id=ACCESS_KEY_ID,
                    aws_secret_access_key=SECRET_ACCESS_KEY,
                    config=_CONFIG,
                )
                self._retry_policy.watch(made)
                if self._transport is not None:
                    made.meta.events.register_first("before-send", self._transport)
                self._clients[key] = made
            return self._clients[key]

    def end_block(self, reservation_id: str) -> None:
        """End an emulated Capacity Block, with the sandbox's own request, not AWS's."""
        address = urlsplit(self.endpoint)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
        try:
            path = f"/_gpufleet/end-block/{quote(reservation_id)}"
            connection.request("POST", path, headers={"X-Gpufleet-Sandbox": "1"})
            connection.getresponse().read()
        finally:
            connection.close()

    def endpoint_data(self) -> dict[str, Any]:
        """Return botocore's own list of partitions, regions and their descriptions."""
        data: dict[str, Any] = _LOADER.load_data("endpoints")
        return data

    def account(self, region: str) -> str:
        """Return the account number, requested once."""
        with self._asking:
            if not self._account:
                self._account = str(self.get("sts", region).get_caller_identity()["Account"])
            return self._account
