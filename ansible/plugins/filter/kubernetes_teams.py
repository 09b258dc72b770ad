"""Teams of a Kubernetes site: namespaces, quotas and priorities that the API server enforces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.rack.plugins.filter.kubernetes_isolation import (
    isolation_of,
    network_policy,
    service_account,
)

Object = dict[str, Any]

PRIORITIES: Mapping[str, int] = {"low": 1_000, "normal": 10_000, "high": 100_000}
"""Values of the priority classes, as in the cloud; far below those of Kubernetes (2,000,000,000)."""

SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
"""Kubernetes' own classes, above those of gpufleet. Only quotas restrict them to namespaces."""

TEAM_LABEL = "gpufleet.io/team"
PRIORITY_LABEL = "gpufleet.io/priority"


def class_name(priority: str) -> str:
    """The priority class of a team's level."""
    return f"gpufleet-{priority}"


def meta(name: str, namespace: str = "") -> Object:
    """Metadata of an object."""
    found: Object = {"name": name}
    return found | ({"namespace": namespace} if namespace else {})


def priority_objects(_site: Any = None) -> list[Object]:
    """Priority classes of Kubernetes. None is the default."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": meta(class_name(level)),
            "value": value,
            "globalDefault": False,
            "description": f"Jobs of {level} priority",
        }
        for level, value in PRIORITIES.items()
    ]


def team_objects(
    teams: Sequence[Mapping[str, Any]],
    pools: Sequence[Mapping[str, Any]],
    *,
    pod_security: str,
    network: Mapping[str, Any],
) -> list[Object]:
    """Namespaces with their isolation, and quotas on GPUs and on priorities above that of the team.

    `pod_security` is the level of their pods. `network` is described in `network_policy`; empty for none.
    """
    found: list[Object] = []
    for team in teams:
        name = team["name"]
        above = [class_name(level) for level in _levels() if PRIORITIES[level] > PRIORITIES[team["priority"]]]
        found += [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": name,
                    "labels": {
                        TEAM_LABEL: name,
                        PRIORITY_LABEL: team["priority"],
                        "pod-security.kubernetes.io/warn": "restricted",
                        **isolation_of(team, pod_security),
                    },
                },
            },
            service_account(name),
            *([network_policy(team, network)] if network else []),
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": meta("gpus", name),
                "spec": {"hard": _hard(team, pools)},
            },
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": meta("no-higher-priority", name),
                "spec": {
                    "hard": {"pods": "0"},
                    "scopeSelector": {
                        "matchExpressions": [
                            {
                                "scopeName": "PriorityClass",
                                "operator": "In",
                                "values": [*above, *SYSTEM_PRIORITIES],
                            }
                        ]
                    },
                },
            },
        ]
    return found


def _levels() -> list[str]:
    return sorted(PRIORITIES, key=lambda level: PRIORITIES[level])


def _hard(team: Mapping[str, Any], pools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Upper limit of each resource from the team's GPUs; GPUs have their own limit."""
    most = {"nvidia.com/gpu": 1}
    for pool in pools:
        most[pool["resource"]] = max(most.get(pool["resource"], 0), pool["per_gpu"])
    return {f"requests.{resource}": str(team["gpus"] * per_gpu) for resource, per_gpu in most.items()}


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {
            "kubernetes_priority_objects": priority_objects,
            "kubernetes_team_objects": team_objects,
        }
