"""The queue of AWS's notices about the nodes of a site, and the role of their handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.components.cluster import EksCluster
from gpufleet.components.identity import PodRole, PodRoleArgs
from gpufleet.components.notice_queue import PATTERNS, REBALANCE, NoticeQueue, NoticeQueueArgs
from gpufleet.kinds import NOTICES_NAMESPACE, NOTICES_SERVICE_ACCOUNT
from gpufleet.plan.interruptions import InterruptionsPlan
from gpufleet.plan.models import CloudSitePlan
from gpufleet.plan.names import NOTICES_SUFFIX


@dataclass(frozen=True)
class NoticeParts:
    """The queue of a site; and on Kubernetes what its handler's pod needs before it starts."""

    queue: NoticeQueue
    role: PodRole | None
    settings: Mapping[str, Any]


def build_notices(
    name: str, site: CloudSitePlan, cluster: EksCluster | None, opts: pulumi.ResourceOptions
) -> NoticeParts | None:
    """Create the queue and role of a site that acts on notices; None for other sites."""
    wanted = site.interruptions
    if wanted is None:
        return None
    label = f"{name}{NOTICES_SUFFIX}"
    queue = NoticeQueue(
        label,
        NoticeQueueArgs(
            queue=wanted.queue,
            notices=[each for each in PATTERNS if each != REBALANCE or wanted.rebalance != "ignore"],
            cluster_name=None if cluster is None else cluster.cluster_name,
            tags=site.tags,
        ),
        opts,
    )
    role = None
    if cluster is not None:
        role = PodRole(
            label,
            PodRoleArgs(
                cluster_name=cluster.cluster_name,
                namespace=NOTICES_NAMESPACE,
                service_account=NOTICES_SERVICE_ACCOUNT,
                statements=queue.statements,
                tags=site.tags,
            ),
            opts,
        )
    return NoticeParts(queue, role, handler_settings(site, wanted))


def handler_settings(site: CloudSitePlan, wanted: InterruptionsPlan) -> dict[str, Any]:
    """Return the settings of the handler, without its queue's address, which AWS makes."""
    return {
        "region": site.region,
        "scheduler": site.scheduler,
        "tags": {key: value for key, value in site.tags.items() if key in _OWNER},
        "checkpoint_s": wanted.checkpoint_s,
        "rebalance": wanted.rebalance,
        "maintenance_s": wanted.maintenance_s,
    }


_OWNER = ("gpufleet:fleet", "gpufleet:environment", "gpufleet:site")
"""Tags that only this site's nodes have."""
