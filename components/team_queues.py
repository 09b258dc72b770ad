"""TeamQueues: Kueue with a queue per team, and the controllers of JobSet and LeaderWorkerSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.base import Component
from gpufleet.kinds import JOBSET_CHART, KUEUE_CHART, LEADER_WORKER_SET_CHART

Object = Mapping[str, Any]
"""A Kubernetes object as a manifest has it."""

_SYSTEM = {"gpufleet.io/node-group": "system"}


@dataclass(frozen=True, kw_only=True)
class TeamQueuesArgs:
    """Inputs of `TeamQueues`.

    `values` are those of the chart of Kueue `version`. Each of `objects` (topologies, flavors, priorities,
    queues) comes after those that it names; those of a namespace are for the team of `namespaces` with its
    name. `policies` are admission policies. `jobset_version` and `leader_worker_set_version` are empty where
    the cluster has no such controller.
    """

    version: str
    values: Mapping[str, Any]
    objects: Sequence[Object]
    policies: Sequence[Object] = ()
    namespaces: Mapping[str, pulumi.Input[str]]
    jobset_version: str = ""
    leader_worker_set_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class TeamQueues(Component):
    """Kueue and its objects. These follow its chart, which has their definitions and what checks them, and
    are deleted before it."""

    def __init__(self, name: str, args: TeamQueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:kubernetes:TeamQueues", name, {}, opts)
        self._name, self._labels = name, {"app.kubernetes.io/managed-by": "gpufleet", **args.labels}
        self._custom_objects(args.policies, {}, [])
        if args.jobset_version:
            self._release("jobset", JOBSET_CHART, args.jobset_version, jobset_values(args.jobset_version))
        if args.leader_worker_set_version:
            version = args.leader_worker_set_version
            self._release("lws", LEADER_WORKER_SET_CHART, version, leader_worker_set_values(version))
        kueue = self._release("kueue", KUEUE_CHART, args.version, args.values)
        self._custom_objects(args.objects, args.namespaces, [kueue])
        self.register_outputs({})

    def _release(self, part: str, chart: str, version: str, values: Mapping[str, Any]) -> k8s.helm.v3.Release:
        """Deploy a chart in a namespace of its own, whose pods have no rights on their node."""
        namespace = k8s.core.v1.Namespace(
            f"{self._name}-{part}",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=f"{part}-system",
                labels={**self._labels, "pod-security.kubernetes.io/enforce": "restricted"},
            ),
            opts=self.child(),
        )
        return k8s.helm.v3.Release(
            f"{self._name}-{part}",
            name=part,
            chart=chart,
            version=version,
            namespace=f"{part}-system",
            timeout=900,
            values=values,
            opts=self.child(depends_on=[namespace]),
        )

    def _custom_objects(
        self,
        objects: Sequence[Object],
        namespaces: Mapping[str, pulumi.Input[str]],
        after: Sequence[pulumi.Resource],
    ) -> None:
        """Create the objects, each after those that it may name, and delete it before them.

        Their kinds may be those of a chart: a preview before it shows the objects as declared.
        """
        before: dict[str, list[pulumi.Resource]] = {}
        for item in objects:
            kind, name = item["kind"], item["metadata"]["name"]
            team = item["metadata"].get("namespace", "")
            needed = [one for earlier in _NEEDS.get(kind, ()) for one in before.get(earlier, ())]
            metadata: dict[str, Any] = {"name": name, "labels": self._labels}
            if team:
                metadata["namespace"] = namespaces[team]
            made = pulumi.CustomResource(
                f"kubernetes:{item['apiVersion']}:{kind}",
                "-".join(part for part in (self._name, kind.lower(), team, name) if part),
                {**item, "metadata": metadata},
                self.child(depends_on=[*after, *needed]),
            )
            before.setdefault(kind, []).append(made)


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "ResourceFlavor": ("Topology",),
    "Cohort": ("ResourceFlavor",),
    "ClusterQueue": ("ResourceFlavor", "Cohort"),
    "LocalQueue": ("ClusterQueue",),
    "ValidatingAdmissionPolicyBinding": ("ValidatingAdmissionPolicy",),
}
"""Kinds that an object names. Kueue keeps a flavor as long as a queue names it."""


def jobset_values(version: str) -> dict[str, Any]:
    """Return the values of JobSet's chart."""
    return {
        "image": _image("jobset/jobset", version),
        "controller": {"nodeSelector": _SYSTEM, "replicas": 2, "podDisruptionBudget": {"enabled": True}},
    }


def leader_worker_set_values(version: str) -> dict[str, Any]:
    """Return the values of LeaderWorkerSet's chart."""
    return {
        "image": {"manager": _image("lws/lws", version)},
        "nodeSelector": _SYSTEM,
        "replicaCount": 2,
        "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }


def _image(name: str, version: str) -> dict[str, str]:
    return {"repository": f"registry.k8s.io/{name}", "tag": f"v{version}", "pullPolicy": "IfNotPresent"}
