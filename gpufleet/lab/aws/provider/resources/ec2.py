"""Shared parts of the EC2 handlers: tags at creation and after, and descriptions by id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpufleet.lab.aws.provider.errors import is_missing
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.mapper import tag_list
from gpufleet.lab.aws.provider.waiting import settle, until, until_gone
from gpufleet.lab.aws.provider.wire import Props

DELETE_TIMEOUT_S = 300.0
_STILL_USED = "DependencyViolation|InUse|ResourceInUse"


def tag_spec(resource_type: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TagSpecifications parameter for one resource; empty without tags."""
    tags = inputs.get("tags") or {}
    if not tags:
        return {}
    return {"TagSpecifications": [{"ResourceType": resource_type, "Tags": tag_list(tags)}]}


def retag(aws: Aws, rid: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Change the tags of a resource from `old` to `new`."""
    before, after = old.get("tags") or {}, new.get("tags") or {}
    gone = [{"Key": key} for key in before if key not in after]
    set_now = {key: value for key, value in after.items() if before.get(key) != value}
    if gone:
        aws.client("ec2").delete_tags(Resources=[rid], Tags=gone)
    if set_now:
        aws.client("ec2").create_tags(Resources=[rid], Tags=tag_list(set_now))


def find(describe: Callable[..., Any], key: str, **parameters: Any) -> Props | None:
    """Return the one item of a description, or None if it does not exist (any more)."""
    try:
        found: list[Props] = describe(**parameters)[key]
    except Exception as error:
        if is_missing(error):
            return None
        raise
    return found[0] if found else None


def remove(call: Callable[[], Any], gone: Callable[[], Any], what: str) -> None:
    """Delete, with retries while the resource is still in use, and wait until it is gone."""
    settle(call, codes=_STILL_USED, timeout_s=5.0)
    until_gone(gone, timeout_s=DELETE_TIMEOUT_S, what=f"the deletion of {what}")


def await_state(
    read: Callable[[], Props | None], field: str, wanted: set[str], *, timeout_s: float, what: str
) -> None:
    """Wait until a field of a description has one of the wanted values; TimeoutError with its last value."""

    def probe() -> bool | None:
        found = read()
        return True if found is not None and found.get(field) in wanted else None

    until(probe, timeout_s=timeout_s, what=f"{what} becoming {' or '.join(sorted(wanted))}")
