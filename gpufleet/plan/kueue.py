"""Kueue's configuration and objects for the teams of a site, the same in the cloud and on racks.

Sources: kubernetes-sigs/kueue v0.19.2 (API v1beta2, configuration, topology aware scheduling).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpufleet.kinds import PRIORITIES, PRIORITY_LABEL, TEAM_LABEL, priority_class
from gpufleet.plan.gpu_quotas import GpuPool, guarantees, thousandths
from gpufleet.plan.rack_models import TaintPlan

API = "kueue.x-k8s.io/v1beta2"
QUEUE = "default"
"""Default queue of a namespace, for jobs without a queue name (Kueue, "Setup LocalQueue defaulting")."""

GPU_SUM = "gpufleet.io/gpu-thousandths"
NEURON_SUM = "gpufleet.io/neuron-thousandths"
"""Common unit of all kinds of GPU shares or Neuron devices, used if a site has several flavors of them."""

WHOLE_SITE = "gpufleet-all"
"""The flavor of the common units: any node."""

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
"""Kinds of jobs that Kueue manages as soon as the cluster has them."""

Object = dict[str, Any]


class Flavor(Struct, frozen=True):
    """Nodes whose devices are alike: those of `pool`, which Kueue selects by `labels`.

    `topology` is the name of the Topology by which it places pods on them; empty for none.
    """

    pool: GpuPool
    labels: Mapping[str, str]
    taints: tuple[TaintPlan, ...] = ()
    topology: str = ""


class Devices(Struct, frozen=True):
    """Flavors whose devices count towards one limit of each team, and the resource of their sum.

    `limits` has whole devices by team. The sum is only counted with several flavors.
    """

    flavors: tuple[Flavor, ...]
    limits: Mapping[str, int]
    sum_resource: str = GPU_SUM

    @property
    def summed(self) -> bool:
        """Whether a team's limit holds for several flavors together."""
        return len(self.flavors) > 1

    def guaranteed(self) -> dict[str, dict[str, int]]:
        """Return team -> flavor -> whole devices that the team gets at any time."""
        return guarantees(self.limits, [flavor.pool for flavor in self.flavors])


def kueue_configuration(devices: Sequence[Devices]) -> Object:
    """Configuration of Kueue (config.kueue.x-k8s.io/v1beta2).

    Kueue manages all jobs in namespaces of teams, also those without a queue name, and no other namespace.
    Processors and memory have no quota: resources that no queue declares are not counted.
    """
    resources: Object = {"quotaCheckStrategy": "IgnoreUndeclared"}
    sums = [
        {"input": name, "strategy": "Retain", "outputs": {each.sum_resource: str(count)}}
        for each in devices
        if each.summed
        for name, count in thousandths([flavor.pool for flavor in each.flavors]).items()
    ]
    if sums:
        resources["transformations"] = sums
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
    devices: Sequence[Devices],
    version: str,
    *,
    replicas: int,
    node_selector: Mapping[str, str],
    tolerations: Sequence[Mapping[str, str]] = (),
) -> Object:
    """Values of the Kueue chart: the manager runs on the nodes of `node_selector`, not on GPU nodes."""
    return {
        "enableCertManager": False,
        "controllerManager": {
            "replicas": replicas,
            "podDisruptionBudget": {"enabled": replicas > 1},
            "manager": {"image": {"repository": "registry.k8s.io/kueue/kueue", "tag": f"v{version}"}},
            "nodeSelector": dict(node_selector),
            "tolerations": [dict(each) for each in tolerations],
        },
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(kueue_configuration(devices), indent=1)},
    }


def kueue_objects(
    site: str,
    teams: Sequence[str],
    devices: Sequence[Devices],
    topologies: Mapping[str, Sequence[str]],
) -> list[Object]:
    """Topologies, flavors, workload priorities, and a queue per team in the cohort `site`.

    Jobs of a team use its guaranteed devices and borrow idle devices of others up to the limit of the team.
    The owner of a guarantee gets it back by preempting borrowers. Devices that are guaranteed to no team are
    the cohort's own, for all to borrow.
    """
    found = [
        _object("Topology", name, spec={"levels": [{"nodeLabel": level} for level in levels]})
        for name, levels in topologies.items()
    ]
    found += [_flavor(flavor) for each in devices for flavor in each.flavors]
    if any(each.summed for each in devices):
        found.append(_object("ResourceFlavor", WHOLE_SITE, spec={}))
    found += [
        _object(
            "WorkloadPriorityClass",
            priority_class(level),
            value=value,
            description=f"Jobs of {level} priority",
        )
        for level, value in PRIORITIES.items()
    ]
    guaranteed = [(each, each.guaranteed()) for each in devices]
    if shared := [group for each, of_teams in guaranteed for group in _shared(each, of_teams)]:
        found.append(_object("Cohort", site, spec={"resourceGroups": shared}))
    for name in teams:
        groups = [group for each, of_teams in guaranteed for group in _groups(each, name, of_teams[name])]
        if sums := [each for each in devices if each.summed]:
            groups.append(_sums(sums, name))
        spec = {
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
            "resourceGroups": groups,
        }
        found += [
            _object("ClusterQueue", name, spec=spec),
            _object("LocalQueue", QUEUE, name, spec={"clusterQueue": name}),
        ]
    return found


def priority_policy() -> list[Object]:
    """Refuse jobs of a team with a workload priority above that of the team: Kueue does not check it."""
    levels = sorted(PRIORITIES, key=lambda level: PRIORITIES[level])
    allowed = {
        level: [priority_class(one) for one in levels[: place + 1]] for place, level in enumerate(levels)
    }
    name = "gpufleet-workload-priority"
    label = "kueue.x-k8s.io/priority-class"
    api = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["*"],
    }
    level = f"namespaceObject.metadata.labels['{PRIORITY_LABEL}']"
    validation = {
        "expression": f"object.metadata.labels['{label}'] in variables.allowed",
        "messageExpression": f"'priority ' + object.metadata.labels['{label}'] + ' is above the team\\'s:"
        " one of ' + variables.allowed.join(', ') + ' is allowed'",
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchExpressions": [{"key": PRIORITY_LABEL, "operator": "Exists"}]},
            "objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
            "resourceRules": [rule],
        },
        "variables": [{"name": "allowed", "expression": f"{json.dumps(allowed)}[{level}]"}],
        "validations": [validation],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        _object("ValidatingAdmissionPolicy", name, api=api, spec=policy),
        _object("ValidatingAdmissionPolicyBinding", name, api=api, spec=binding),
    ]


def _object(kind: str, name: str, namespace: str = "", *, api: str = API, **fields: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def _flavor(flavor: Flavor) -> Object:
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in flavor.taints]
    # Jobs of a queue can run wherever it has quota: they tolerate the taints.
    tolerations = [{**taint, "operator": "Equal"} for taint in taints]
    spec: Object = {"nodeLabels": dict(flavor.labels)}
    spec |= {"nodeTaints": taints, "tolerations": tolerations} if taints else {}
    spec |= {"topologyName": flavor.topology} if flavor.topology else {}
    return _object("ResourceFlavor", flavor.pool.name, spec=spec)


def _groups(devices: Devices, team: str, guaranteed: Mapping[str, int]) -> list[Object]:
    """One group per resource, with its flavors."""
    quotas = []
    for pool in (flavor.pool for flavor in devices.flavors):
        own = guaranteed.get(pool.name, 0)
        most = min(devices.limits[team], pool.gpus)
        quotas.append(
            (
                pool,
                {
                    "nominalQuota": str(own * pool.per_gpu),
                    "borrowingLimit": str((most - own) * pool.per_gpu),
                },
            )
        )
    return _by_resource(quotas)


def _shared(devices: Devices, guaranteed: Mapping[str, Mapping[str, int]]) -> list[Object]:
    """The devices that no team is guaranteed, by resource and flavor."""
    left = [
        (flavor.pool, flavor.pool.gpus - sum(own[flavor.pool.name] for own in guaranteed.values()))
        for flavor in devices.flavors
    ]
    return _by_resource(
        [(pool, {"nominalQuota": str(count * pool.per_gpu)}) for pool, count in left if count > 0]
    )


def _by_resource(quotas: Sequence[tuple[GpuPool, Object]]) -> list[Object]:
    groups: dict[str, list[Object]] = {}
    for pool, quota in quotas:
        flavor = {"name": pool.name, "resources": [{"name": pool.resource, **quota}]}
        groups.setdefault(pool.resource, []).append(flavor)
    return [{"coveredResources": [name], "flavors": flavors} for name, flavors in groups.items()]


def _sums(devices: Sequence[Devices], team: str) -> Object:
    """The group of the common units: no flavor may be in two groups."""
    quotas = [
        {"name": each.sum_resource, "nominalQuota": str(1000 * each.limits[team]), "borrowingLimit": "0"}
        for each in devices
    ]
    flavor = {"name": WHOLE_SITE, "resources": quotas}
    return {"coveredResources": [each.sum_resource for each in devices], "flavors": [flavor]}
