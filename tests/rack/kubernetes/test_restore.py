"""A snapshot of etcd is restored onto all members of the running cluster."""

from __future__ import annotations

import pytest

from tests.rack.kubernetes.cluster import MEMBERS, NODES, Cluster, pod_of
from tests.rack.operations.operating import failures, operate
from tests.rack.site import Site

pytestmark = pytest.mark.whole_life


def test_snapshot_is_restored_onto_all_members(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "earlier")
    cluster.apply(pod_of("earlier", "exec sleep 3600", nodeName=NODES[0]))
    cluster.wait("the earlier pod runs", lambda: running(cluster, "earlier"))
    operate(cluster.site, "backup")
    (backup,) = (cluster.site.checkout / ".gpufleet" / "backups").glob("etcd-*")

    cluster.kubectl("delete", "configmap", "earlier")
    cluster.kubectl("create", "configmap", "later")
    cluster.apply(pod_of("later", "exec sleep 3600", nodeName=NODES[0]))
    cluster.wait("the later pod runs", lambda: running(cluster, "later"))
    refused = operate(cluster.site, "restore", "-o", f"backup={backup}", code=4)
    assert "what was changed since would be gone" in failures(refused)
    started = running(cluster, "earlier")

    restored = operate(cluster.site, "restore", "-o", f"backup={backup}", "-o", "discard_newer=true")
    assert restored["states"] == dict.fromkeys(MEMBERS, "done")
    cluster.wait("all nodes are ready", lambda: cluster.ready_nodes() == {*MEMBERS, *NODES})
    names = {item["metadata"]["name"] for item in cluster.get("configmaps")["items"]}
    assert "earlier" in names and "later" not in names
    # A pod that the snapshot has goes on in its container; one that it does not have is ended.
    assert running(cluster, "earlier") == started
    cluster.wait("the later pod is ended", lambda: "later" not in containers(cluster))
    assert Site.changes(cluster.configure()) == set()
    cluster.kubectl("delete", "pod", "earlier")


def running(cluster: Cluster, pod: str) -> str:
    """The id of a running pod's container, empty for a pod that does not run."""
    status = cluster.get("pod", pod)["status"]
    return status["containerStatuses"][0]["containerID"] if status["phase"] == "Running" else ""


def containers(cluster: Cluster) -> list[str]:
    """The names of pods whose containers run on the first node."""
    return cluster.site.lab.sh(
        NODES[0], "crictl pods --state Ready -o json | jq -r '.items[].metadata.name'"
    ).split()
