"""The cluster is upgraded by one minor while pods run; afterwards it is one of the next minor."""

from __future__ import annotations

import pytest

from tests.kube.build import MINOR, version
from tests.rack.kubernetes.client import lost, writing
from tests.rack.kubernetes.cluster import MEMBERS, NEXT, NODES, Cluster, job_of
from tests.rack.operations.operating import operate
from tests.rack.site import Site

pytestmark = pytest.mark.whole_life


def test_cluster_is_upgraded_by_one_minor_with_pods_running(cluster: Cluster) -> None:
    fleet = cluster.site.checkout / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace(f'version: "{MINOR}"', f'version: "{NEXT}"'))
    # The role of the members keeps the fleet file's release; packages and containerd stay.
    assert {role for _, role, _ in Site.changes(cluster.configure())} <= {"kubernetes_control_plane"}
    cluster.apply(job_of("training", "research", pods=1, gpus=8))
    cluster.wait("the job runs", lambda: active(cluster) == 1)
    with writing(cluster) as written:
        result = operate(cluster.site, "upgrade_kubernetes", "-o", "batch=1")
    assert result["states"] == dict.fromkeys((*MEMBERS, *NODES), "done")
    assert written.not_read == lost(cluster, written) == set()
    cluster.wait("all nodes are ready", lambda: cluster.ready_nodes() == {*MEMBERS, *NODES})
    nodes = cluster.get("nodes")["items"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {f"v{version(NEXT)}"}
    # Its node was drained; the job's pod started again, on one node or the other.
    cluster.wait("the job runs again", lambda: active(cluster) == 1)
    servers = cluster.get("pods", "-n", "kube-system", "-l", "component=kube-apiserver")["items"]
    images = {pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in servers}
    assert (len(servers), images) == (3, {f"v{version(NEXT)}"})
    # The members get kubeadm's configuration of the release, and nothing is restarted under pods.
    stored = {(role, task) for _, role, task in Site.changes(cluster.configure())}
    assert stored == {("kubernetes_control_plane", "Apply the kubeadm configuration")}
    assert Site.changes(cluster.configure()) == set()


def active(cluster: Cluster) -> int:
    """The number of the job's running pods."""
    pods = cluster.get("pods", "-n", "research", "-l", "job-name=training")["items"]
    return sum(pod["status"]["phase"] == "Running" for pod in pods)
