"""Tags of existing resources, for the services that differ only in the names of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpufleet.lab.aws.provider.mapper import tag_list


def retag(
    client: Any,
    identity: Mapping[str, str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    tags: str = "Tags",
    keys: str = "TagKeys",
    form: Callable[[Mapping[str, str]], Any] = tag_list,
    suffix: str = "resource",
) -> None:
    """Change the tags of a resource from `old` to `new`.

    `tags` and `keys` are the service's parameter names, `form` makes its form of tags from a map, `suffix` is
    the end of its operation names.
    """
    before, after = old.get("tags") or {}, new.get("tags") or {}
    gone = sorted(key for key in before if key not in after)
    fresh = {key: str(value) for key, value in after.items() if before.get(key) != value}
    if gone:
        getattr(client, f"untag_{suffix}")(**identity, **{keys: gone})
    if fresh:
        getattr(client, f"tag_{suffix}")(**identity, **{tags: form(fresh)})
