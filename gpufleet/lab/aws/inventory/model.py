"""An inventory entry, and functions that list one kind of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Clients = Callable[[str], Any]
"""Service name of boto3 -> client."""

Lister = Callable[[Clients], Iterator[tuple[str, dict[str, str]]]]
"""Lists (id, tags) of one kind of resource."""


@dataclass(frozen=True, order=True)
class InventoryResource:
    """One resource. Unpacks as (service, id, tags); `region` is empty for global services."""

    service: str
    id: str
    tags: dict[str, str] = field(compare=False)
    region: str = ""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.service, self.id, self.tags))


def tag_dict(tags: Iterable[dict[str, Any]] | None, key: str = "Key", value: str = "Value") -> dict[str, str]:
    """AWS's list of tags as a dictionary."""
    return {tag[key]: tag.get(value, "") for tag in tags or []}


def pages(client: Any, operation: str, result: str, **parameters: Any) -> Iterator[Any]:
    """Yield every item of an operation, with or without a paginator in botocore."""
    if client.can_paginate(operation):
        for page in client.get_paginator(operation).paginate(**parameters):
            yield from page.get(result) or []
    else:
        yield from getattr(client, operation)(**parameters).get(result) or []
