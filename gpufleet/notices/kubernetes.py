"""Kubernetes as the handler sees it: its API, by a service account.

A gang is the pods of one job: those with the same value of one of `GANG_LABELS` in a namespace. A pod without
such a label is a gang of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote

from gpufleet.notices.events import RANKS, Kind
from gpufleet.notices.kubernetes_api import KubernetesApi, KubernetesApiError
from gpufleet.notices.scheduler import DrainedNode, Instance, RunningJob, SchedulerError

INTERRUPTION = "gpufleet.io/interruption"
"""Annotation of a node that this handler cordoned: the kind of notice."""

DEADLINE = "gpufleet.io/interruption-deadline"
"""Annotation of such a node: when its instance ends (epoch seconds)."""

CHECKPOINT_BY = "gpufleet.io/checkpoint-by"
"""Annotation of pods that shall write a checkpoint: until when (RFC 3339)."""

CHECKPOINTED_AT = "gpufleet.io/checkpointed-at"
"""Annotation by which one pod of a gang acknowledges: when (epoch seconds)."""

GANG_LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
)

MOUNTS = "mount-s3"
"""The namespace of Mountpoint for Amazon S3, whose pods hold the volumes of others and end after them."""

QUARANTINED = "quarantineHealthEventIsCordoned"
"""Annotation of a node that NVSentinel's fault-quarantine cordoned: "True". It takes any uncordon before its
own for an operator's word, and drops the fault (NVIDIA/NVSentinel, docs/cancelling-breakfix.md)."""

ALREADY_CORDONED = "quarantineHealthEventCordonPreExisting"
"""Its annotation of a node that another user had cordoned: "True". It does not uncordon such a node."""

CLOCKS_S = 5
GRACE_S = 5
PARALLEL = 16
_ENDED = ("Succeeded", "Failed")


class Requests(Protocol):
    """What is needed of the API."""

    def list(self, path: str, query: str = "") -> Sequence[Mapping[str, Any]]:
        """Return all items of a list."""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Send a request. Raises ApiError."""


@dataclass
class KubernetesScheduler:
    """The cluster of a site."""

    api: Requests
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(PARALLEL))

    @classmethod
    def in_cluster(cls) -> KubernetesScheduler:
        """Return the cluster of this pod."""
        return cls(KubernetesApi.in_cluster())

    def nodes(self, instances: Sequence[Instance]) -> Mapping[str, str]:
        """Find nodes by their providerID (`aws:///us-east-1a/i-0123456789abcdef0`)."""
        names = {}
        for node in self._list("/api/v1/nodes"):
            provider = str(node.get("spec", {}).get("providerID", ""))
            if provider.startswith("aws://"):
                names[provider.rpartition("/")[2]] = str(node["metadata"]["name"])
        return {each.id: names[each.id] for each in instances if each.id in names}

    def drain(self, nodes: Mapping[str, float | None], kind: Kind) -> Mapping[str, str]:
        """Cordon nodes, and write why, so that the notes can be lost with the handler's node.

        A node that NVSentinel cordoned first gets a mark: else NVSentinel ends this cordon with its own.
        """
        requests, quarantined = [], []
        for node, deadline in nodes.items():
            notes = {INTERRUPTION: kind, DEADLINE: None if deadline is None else f"{deadline:.0f}"}
            body = {"metadata": {"annotations": notes}, "spec": {"unschedulable": True}}
            requests.append((node, "PATCH", _node_path(node), body))

        def look(node: str, answer: Mapping[str, Any]) -> None:
            notes = _notes(answer)
            if notes.get(QUARANTINED) == "True" and ALREADY_CORDONED not in notes:
                change = {"annotations": {ALREADY_CORDONED: "True"}} | _as_read(answer)
                quarantined.append((node, "PATCH", _node_path(node), {"metadata": change}))

        failed = self._all(requests, look)
        return failed | self._all(quarantined)

    def drained(self) -> Sequence[DrainedNode]:
        """Read which nodes this handler cordoned, and why."""
        found = []
        for node in self._list("/api/v1/nodes"):
            notes = node["metadata"].get("annotations") or {}
            instance = str(node.get("spec", {}).get("providerID", "")).rpartition("/")[2]
            deadline = str(notes.get(DEADLINE, ""))
            for kind in RANKS:
                if notes.get(INTERRUPTION) == kind and instance:
                    until = float(deadline) if deadline.isdecimal() else None
                    found.append(DrainedNode(instance, str(node["metadata"]["name"]), kind, until))
        return found

    def release(self, nodes: Collection[str]) -> None:
        """Uncordon nodes that this handler cordoned, unless NVSentinel has a reason of its own: it ends that.

        A node that changed since it was read is a conflict, and tried again.
        """
        requests = []
        for node in self._list("/api/v1/nodes"):
            name, notes = str(node["metadata"]["name"]), _notes(node)
            if name not in nodes or INTERRUPTION not in notes:
                continue
            change: dict[str, Any] = {INTERRUPTION: None, DEADLINE: None}
            body: dict[str, Any] = {"metadata": {"annotations": change} | _as_read(node)}
            if notes.get(QUARANTINED) == "True":
                change[ALREADY_CORDONED] = None
            else:
                body["spec"] = {"unschedulable": None}
            requests.append((name, "PATCH", _node_path(name), body))
        failed = self._all(requests)
        if failed:
            raise SchedulerError("; ".join(failed.values()))

    def jobs(self, nodes: Collection[str]) -> Sequence[RunningJob]:
        """Return the gangs on the nodes. `run` names their pods there: later pods are another run."""
        gangs: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for pod in self._on(nodes):
            meta = pod["metadata"]
            gangs[_gang(pod)].append((str(pod["spec"]["nodeName"]), str(meta["name"]), str(meta["uid"])))
        return [
            RunningJob(gang, json.dumps(sorted(pods)), frozenset(node for node, _, _ in pods))
            for gang, pods in gangs.items()
        ]

    def _on(self, nodes: Collection[str]) -> list[Mapping[str, Any]]:
        if len(nodes) > PARALLEL:
            found: Iterable[Mapping[str, Any]] = self._list("/api/v1/pods")
        else:
            found = (
                pod
                for node in nodes
                for pod in self._list("/api/v1/pods", f"fieldSelector=spec.nodeName%3D{quote(node)}")
            )
        return [pod for pod in found if pod["spec"].get("nodeName") in nodes and _is_work(pod)]

    def signal(self, jobs: Sequence[RunningJob], deadline: float) -> Mapping[str, str]:
        """Annotate all pods of each gang; a downward API volume shows it to them."""
        until = datetime.fromtimestamp(deadline, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        body = {"metadata": {"annotations": {CHECKPOINT_BY: until}}}
        return self._all(
            (job.id, "PATCH", _pod_path(pod), body) for job in jobs for pod in self._members(job.id)
        )

    def acknowledged(self, jobs: Mapping[str, tuple[RunningJob, float]]) -> Mapping[str, str]:
        """Read the pods: one annotation newer than the signal is enough; a gang without its pods is done."""
        answers = {}
        for key, (job, signalled) in jobs.items():
            members = self._members(key)
            alive = {str(pod["metadata"]["uid"]) for pod in members if _is_work(pod)}
            if not alive & {uid for _, _, uid in json.loads(job.run)}:
                answers[key] = "finished"
            elif any(_time_of(pod) >= signalled - CLOCKS_S for pod in members):
                answers[key] = "acknowledged"
        return answers

    def move(self, job: RunningJob, nodes: Collection[str]) -> str:
        """Delete the gang's pods on the nodes, only those that were signalled: their owner makes others."""
        namespace = job.id.partition("/")[0]
        deleted = 0
        for node, name, uid in json.loads(job.run):
            if node not in nodes:
                continue
            options = {"gracePeriodSeconds": GRACE_S, "preconditions": {"uid": uid}}
            try:
                self.api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", options)
            except KubernetesApiError as error:
                if error.status not in (404, 409):
                    raise SchedulerError(f"pod {namespace}/{name}: {error}") from None
            else:
                deleted += 1
        return "requeued" if deleted else "finished"

    def _members(self, gang: str) -> Sequence[Mapping[str, Any]]:
        namespace, _, rest = gang.partition("/")
        path = f"/api/v1/namespaces/{namespace}/pods"
        label, equals, value = rest.rpartition("=")
        if equals:
            return self._list(path, f"labelSelector={quote(label, safe='')}%3D{quote(value)}")
        return self._list(path, f"fieldSelector=metadata.name%3D{quote(rest)}")

    def _list(self, path: str, query: str = "") -> Sequence[Mapping[str, Any]]:
        try:
            return self.api.list(path, query)
        except KubernetesApiError as error:
            raise SchedulerError(f"{path}: {error}") from None

    def _all(
        self,
        requests: Iterable[tuple[str, str, str, Mapping[str, Any]]],
        look: Callable[[str, Mapping[str, Any]], None] = lambda owner, answer: None,
    ) -> dict[str, str]:
        """Send requests (owner, method, path, body) side by side; return what failed, by owner.

        `look` gets the owner and the answer of those that succeeded.
        """

        def send(request: tuple[str, str, str, Mapping[str, Any]]) -> tuple[str, str]:
            owner, method, path, body = request
            try:
                look(owner, self.api.call(method, path, body))
            except KubernetesApiError as error:
                # What is gone needs nothing.
                return owner, "" if error.status == 404 else f"{path}: {error}"
            return owner, ""

        return {owner: error for owner, error in self.pool.map(send, list(requests)) if error}


def _node_path(node: str) -> str:
    return f"/api/v1/nodes/{quote(node)}"


def _notes(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node.get("metadata", {}).get("annotations") or {}


def _as_read(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata by which the API refuses a change of a node that is no longer as it was read."""
    return {"resourceVersion": str(node["metadata"]["resourceVersion"])}


def _pod_path(pod: Mapping[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _gang(pod: Mapping[str, Any]) -> str:
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    for label in GANG_LABELS:
        if label in labels:
            return f"{meta['namespace']}/{label}={labels[label]}"
    return f"{meta['namespace']}/{meta['name']}"


def _is_work(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is moved: not ended, nor of a DaemonSet, the kubelet itself, or a volume."""
    meta = pod["metadata"]
    if meta["namespace"] == MOUNTS:
        return False
    if pod.get("status", {}).get("phase") in _ENDED or meta.get("deletionTimestamp"):
        return False
    if "kubernetes.io/config.mirror" in (meta.get("annotations") or {}):
        return False
    return not any(owner.get("kind") in ("DaemonSet", "Node") for owner in meta.get("ownerReferences") or ())


def _time_of(pod: Mapping[str, Any]) -> float:
    text = str((pod["metadata"].get("annotations") or {}).get(CHECKPOINTED_AT, ""))
    return float(text) if text.isdecimal() else 0.0
