"""The contents of the emulated account: every user resource, listed through AWS's own API.

Tests use it after a destroy: the list must be empty. Resources that AWS itself creates in an account (default
VPCs, main route tables, AWS's own keys and policies) are not listed, nor are those that only remain visible
for a while (terminated instances, cancelled reservations).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import botocore.session
from botocore.config import Config

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY
from gpufleet.lab.aws.daemon import Endpoint
from gpufleet.lab.aws.inventory import ec2, regional, worldwide
from gpufleet.lab.aws.inventory.model import Clients, InventoryResource, Lister

__all__ = ["BOUND", "InventoryResource", "list_resources"]

BOUND = frozenset({"ec2:capacity-block"})
"""Services whose resources cannot be deleted: a Capacity Block is paid upfront and ends by itself."""

_HOME = "us-east-1"


def list_resources(
    endpoint: Endpoint | str, regions: Iterable[str], tags: Mapping[str, str] | None = None
) -> list[InventoryResource]:
    """Return all resources in the account's `regions` and its global services that have all of `tags`.

    Without tags: everything that is not AWS's own. Each entry is (service, id, tags), sorted; the service is
    like `ec2:subnet`. Exclude those of `BOUND` if only deletable resources matter. Raises botocore's
    ClientError if the endpoint rejects the request.
    """
    url = endpoint if isinstance(endpoint, str) else endpoint.url
    found = list(_everything(url, sorted(set(regions))))
    wanted = dict(tags or {})
    return sorted(one for one in found if wanted.items() <= one.tags.items())


def _everything(url: str, regions: list[str]) -> Iterator[InventoryResource]:
    for region in regions:
        yield from _run(_clients(url, region), [*ec2.LISTERS, *regional.LISTERS], region)
    yield from _run(_clients(url, _HOME), worldwide.LISTERS, "")


@cache
def _session() -> Any:
    """Return one session for the process: reading service models takes seconds."""
    return botocore.session.Session()


def _run(clients: Clients, listers: list[tuple[str, Lister]], region: str) -> Iterator[InventoryResource]:
    for service, lister in listers:
        for found_id, tags in lister(clients):
            yield InventoryResource(service, found_id, tags, region)


@lru_cache(maxsize=4)
def _clients(url: str, region: str) -> Clients:
    config = Config(retries={"total_max_attempts": 1}, proxies={})

    @cache
    def client(service: str) -> Any:
        return _session().create_client(
            service,
            region_name=region,
            endpoint_url=url,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
            config=config,
        )

    return client
