"""Shared parts of the EKS handlers: waiting for states and updates, and tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.errors import CloudError
from gpufleet.lab.aws.provider.errors import is_missing
from gpufleet.lab.aws.provider.handler import Aws
from gpufleet.lab.aws.provider.resources import tagging
from gpufleet.lab.aws.provider.waiting import until
from gpufleet.lab.aws.provider.wire import Props

CREATE_TIMEOUT_S = 3600.0
_FAILED = ("FAILED", "DEGRADED", "CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED")


def optional(call: Callable[[], Any]) -> Any:
    """Return the answer of a describing call, or None if the resource does not exist."""
    try:
        return call()
    except Exception as error:
        if is_missing(error):
            return None
        raise


def await_active(describe: Callable[[], Props], what: str) -> Props:
    """Wait until a description is ACTIVE. Raises CloudError with AWS' reasons if it fails."""

    def probe() -> Props | None:
        found = describe()
        status = str(found.get("status"))
        if status in _FAILED:
            raise CloudError(
                f"{what} is {status}: {_issues(found)}", remedy="correct the cause and run up again"
            )
        return found if status == "ACTIVE" else None

    return until(probe, timeout_s=CREATE_TIMEOUT_S, what=f"{what} becoming active")


def _issues(found: Props) -> str:
    issues = (found.get("health") or {}).get("issues") or []
    return "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues) or "no reason given"


def await_update(aws: Aws, update: Props | None, **of: str) -> None:
    """Wait for an update that EKS runs in the background. `of` identifies the cluster and its resource."""
    if not update or update.get("status") in {None, "Successful"}:
        return
    eks = aws.client("eks")

    def probe() -> bool | None:
        found = eks.describe_update(updateId=update["id"], **of)["update"]
        if found["status"] in {"Failed", "Cancelled"}:
            reasons = "; ".join(str(item.get("errorMessage")) for item in found.get("errors") or ())
            raise CloudError(f"the update {found.get('type')} of {of['name']} {found['status']}: {reasons}")
        return True if found["status"] == "Successful" else None

    until(probe, timeout_s=CREATE_TIMEOUT_S, what=f"the update of {of['name']}")


def retag(aws: Aws, arn: str, old: Props, new: Props) -> None:
    """Change the tags of an EKS resource to those of `new`."""
    tagging.retag(aws.client("eks"), {"resourceArn": arn}, old, new, tags="tags", keys="tagKeys", form=dict)
