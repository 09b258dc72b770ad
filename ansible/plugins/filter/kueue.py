"""Values and objects of Kueue: quotas of teams for the GPUs of a Kubernetes site."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.rack.plugins.filter.kubernetes_teams import (
    PRIORITIES,
    TEAM_LABEL,
    Object,
    class_name,
    meta,
)

API = "kueue.x-k8s.io/v1beta2"
THOUSANDTHS = "gpufleet.io/gpu-thousandths"
"""Common unit of all kinds of GPU shares, used if a site has several kinds."""

WHOLE_SITE = "gpufleet-all"
QUEUE = "default"
"""Default queue of a namespace, for jobs without a queue name (Kueue, "Setup LocalQueue defaulting")."""

FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "kubeflow.org/pytorchjob",
    "trainer.kubeflow.org/trainjob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "deployment",
    "statefulset",
)


def kueue_configuration(pools: Sequence[Mapping[str, Any]], thousandths: Mapping[str, int]) -> Object:
    """Configuration of Kueue (config.kueue.x-k8s.io/v1beta2).

    Kueue manages all jobs in namespaces of teams, also those without a queue name, and no other namespace.
    Processors and memory have no quota: resources that no queue declares are not counted.
    """
    resources: Object = {"quotaCheckStrategy": "IgnoreUndeclared"}
    if len(pools) > 1:
        resources["transformations"] = [
            {"input": name, "strategy": "Retain", "outputs": {THOUSANDTHS: str(count)}}
            for name, count in thousandths.items()
        ]
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchExpressions": [{"key": TEAM_LABEL, "operator": "Exists"}]},
        "integrations": {"frameworks": list(FRAMEWORKS)},
        "resources": resources,
    }


def kueue_values(
    pools: Sequence[Mapping[str, Any]],
    thousandths: Mapping[str, int],
    *,
    version: str,
    members: int = 1,
) -> Object:
    """Values of the Kueue chart: the manager runs on the control plane, not on GPU nodes."""
    replicas = min(members, 2)
    configuration = json.dumps(kueue_configuration(pools, thousandths), indent=1)
    return {
        "enableCertManager": False,
        "controllerManager": {
            "replicas": replicas,
            "podDisruptionBudget": {"enabled": replicas > 1},
            "manager": {"image": {"repository": "registry.k8s.io/kueue/kueue", "tag": f"v{version}"}},
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        },
        "managerConfig": {"controllerManagerConfigYaml": configuration},
    }


def kueue_objects(
    teams: Sequence[Mapping[str, Any]],
    pools: Sequence[Mapping[str, Any]],
    *,
    site: str,
    levels: Sequence[str] = (),
) -> list[Object]:
    """Topology, flavors (one per node group), workload priorities, and a queue per team in one cohort.

    Jobs of a team use its guaranteed GPUs and borrow idle GPUs of others up to the limit of the team. The
    owner of a guarantee gets it back by preempting borrowers.
    """
    found: list[Object] = []
    if levels:
        topology = {"levels": [{"nodeLabel": level} for level in levels]}
        found.append({"apiVersion": API, "kind": "Topology", "metadata": meta(site), "spec": topology})
    found += [_flavor(pool, site if levels else "") for pool in pools]
    if len(pools) > 1:
        found.append({"apiVersion": API, "kind": "ResourceFlavor", "metadata": meta(WHOLE_SITE), "spec": {}})
    found += [
        {
            "apiVersion": API,
            "kind": "WorkloadPriorityClass",
            "metadata": meta(class_name(level)),
            "value": value,
            "description": f"Jobs of {level} priority",
        }
        for level, value in PRIORITIES.items()
    ]
    for team in teams:
        name = team["name"]
        found += [
            {
                "apiVersion": API,
                "kind": "ClusterQueue",
                "metadata": meta(name),
                "spec": {
                    "cohortName": site,
                    "namespaceSelector": {"matchLabels": {TEAM_LABEL: name}},
                    "queueingStrategy": "BestEffortFIFO",
                    "preemption": {
                        "withinClusterQueue": "LowerPriority",
                        "reclaimWithinCohort": "Any",
                        "borrowWithinCohort": {
                            "policy": "LowerPriority",
                            # Jobs of high priority keep borrowed GPUs.
                            "maxPriorityThreshold": PRIORITIES["normal"],
                        },
                    },
                    "resourceGroups": _resource_groups(team, pools),
                },
            },
            {
                "apiVersion": API,
                "kind": "LocalQueue",
                "metadata": meta(QUEUE, name),
                "spec": {"clusterQueue": name},
            },
        ]
    return found


def _flavor(pool: Mapping[str, Any], topology: str) -> Object:
    taints = [dict(taint) for taint in pool["taints"]]
    # Jobs of a queue can run wherever it has quota: they tolerate the taints.
    tolerations = [{**taint, "operator": "Equal"} for taint in taints]
    spec: Object = {"nodeLabels": {"gpufleet.io/node-group": pool["name"]}}
    spec |= {"nodeTaints": taints, "tolerations": tolerations} if taints else {}
    spec |= {"topologyName": topology} if topology else {}
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": meta(pool["name"]), "spec": spec}


def _resource_groups(team: Mapping[str, Any], pools: Sequence[Mapping[str, Any]]) -> list[Object]:
    """One group per resource with its flavors, and a common group if there are several."""
    groups: dict[str, list[Object]] = {}
    for pool in pools:
        guaranteed = team["guaranteed"].get(pool["name"], 0)
        most = min(team["gpus"], pool["gpus"])
        quota = {
            "name": pool["resource"],
            "nominalQuota": str(guaranteed * pool["per_gpu"]),
            "borrowingLimit": str((most - guaranteed) * pool["per_gpu"]),
        }
        groups.setdefault(pool["resource"], []).append({"name": pool["name"], "resources": [quota]})
    found = [{"coveredResources": [name], "flavors": flavors} for name, flavors in groups.items()]
    if len(pools) > 1:
        whole = {"name": THOUSANDTHS, "nominalQuota": str(1000 * team["gpus"]), "borrowingLimit": "0"}
        flavors = [{"name": WHOLE_SITE, "resources": [whole]}]
        found.append({"coveredResources": [THOUSANDTHS], "flavors": flavors})
    return found


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {
            "kueue_objects": kueue_objects,
            "kueue_values": kueue_values,
        }
