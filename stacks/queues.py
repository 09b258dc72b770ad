"""The queues of a site: Kueue with its objects, and the controllers of further kinds of jobs."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from gpufleet.components.team_queues import TeamQueues, TeamQueuesArgs
from gpufleet.plan.kueue import priority_policy
from gpufleet.plan.models import CloudSitePlan, KubernetesPlan
from gpufleet.plan.names import QUEUES_SUFFIX
from gpufleet.plan.queues import queue_objects, queue_values

_REPLICAS = 2
"""Managers of Kueue, of which one leads: a node of the system group may be drained."""


def build_queues(
    name: str,
    site: CloudSitePlan,
    settings: KubernetesPlan,
    namespaces: Mapping[str, pulumi.Output[str]],
    opts: pulumi.ResourceOptions,
) -> TeamQueues | None:
    """Deploy Kueue with a queue in each of the teams' `namespaces`; None for a site without queues."""
    plan = settings.queues
    if plan is None:
        return None
    return TeamQueues(
        f"{name}{QUEUES_SUFFIX}",
        TeamQueuesArgs(
            version=plan.kueue,
            values=queue_values(plan, settings.teams, _REPLICAS),
            objects=queue_objects(site.site, plan, settings.teams),
            policies=priority_policy(),
            namespaces=namespaces,
            jobset_version=plan.jobset or "",
            leader_worker_set_version=plan.leader_worker_set or "",
            labels={"gpufleet.io/site": site.site},
        ),
        opts,
    )
