"""Shared parts of the EKS extensions: the cluster, data kept on it, paging, updates."""

from __future__ import annotations

import functools
import secrets
import uuid
from typing import TYPE_CHECKING, Any

import moto.eks.utils
from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params

if TYPE_CHECKING:
    from collections.abc import Iterable


# moto makes a session for each role that it checks, which takes most of that request's time.
moto.eks.utils.Session = functools.cache(moto.eks.utils.Session)


def clusters_of(call: Call) -> dict[str, Any]:
    """moto's clusters of the caller's account and region, by name."""
    from moto.eks.models import eks_backends

    found: dict[str, Any] = eks_backends[call.account][call.region].clusters
    return found


def cluster_of(call: Call) -> Any:
    """Return moto's cluster of the request; EKS's own error if there is none."""
    name = str(call.params.get("clusterName") or call.params.get("name"))
    cluster = clusters_of(call).get(name)
    if cluster is None:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.")
    return cluster


def part(cluster: Any, name: str) -> dict[str, Any]:
    """Return a named dictionary on moto's cluster object, which is deleted with the cluster."""
    kept: dict[str, Any] = vars(cluster).setdefault(f"gpufleet_{name}", {})
    return kept


def arn(call: Call, path: str) -> str:
    """The ARN of an EKS resource."""
    return f"arn:{call.partition}:eks:{call.region}:{call.account}:{path}"


def page(call: Call, items: Iterable[Any]) -> tuple[list[Any], str | None]:
    """One page of `items` by maxResults and nextToken, and the token of the next page."""
    every = list(items)
    start = int(call.params.get("nextToken") or 0)
    end = start + int(call.params.get("maxResults") or 100)
    return every[start:end], str(end) if end < len(every) else None


def record_update(cluster: Any, kind: str, params: Params, owner: str = "") -> Params:
    """Record a completed update, which DescribeUpdate returns to waiters."""
    update: Params = {
        "id": str(uuid.uuid4()),
        "status": "Successful",
        "type": kind,
        "params": [{"type": key, "value": str(value)} for key, value in params.items() if value is not None],
        "createdAt": utcnow(),
        "errors": [],
    }
    part(cluster, "updates")[update["id"]] = {"update": update, "owner": owner}
    return update


def short_id() -> str:
    """The random part of an EKS ARN or association id."""
    return secrets.token_hex(9)[:17]
