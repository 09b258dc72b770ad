"""From bare hosts to a cluster of three members and two nodes: real kubeadm, kubelets, etcd and flannel."""

from __future__ import annotations

from tests.rack.kubernetes.cluster import MEMBERS, NODES, Cluster, pod_of
from tests.rack.site import Site


def test_bare_hosts_become_a_cluster_and_a_second_run_changes_nothing(cluster: Cluster) -> None:
    assert cluster.first["failed_hosts"] == cluster.second["failed_hosts"] == []
    assert Site.changes(cluster.second) == set()
    cluster.wait("all nodes are ready", lambda: cluster.ready_nodes() == {*MEMBERS, *NODES})
    nodes = cluster.get("nodes")["items"]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes} == {"v1.35.4"}


def test_each_member_has_its_own_api_server_and_a_part_of_etcd(cluster: Cluster) -> None:
    pods = cluster.get("pods", "-n", "kube-system")["items"]
    for part in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        names = {pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith(part)}
        assert names == {f"{part}-{member}" for member in MEMBERS}
    bound = {
        word.partition("=")[2]
        for pod in pods
        if pod["metadata"]["name"].startswith("kube-apiserver")
        for word in pod["spec"]["containers"][0]["command"]
        if word.startswith("--bind-address=")
    }
    assert bound == {cluster.site.lab.rack.site.host(member).ip for member in MEMBERS}


def test_no_token_that_lets_a_host_join_is_left(cluster: Cluster) -> None:
    """Tokens of kubeadm that only limit the life of uploaded certificates have no usages."""
    tokens = [
        item
        for item in cluster.get("secrets", "-n", "kube-system")["items"]
        if item["type"] == "bootstrap.kubernetes.io/token"
    ]
    usable = [item["metadata"]["name"] for item in tokens if "usage-bootstrap-authentication" in item["data"]]
    assert usable == []


def test_pod_on_a_node_finds_the_api_by_its_name_in_the_cluster(cluster: Cluster) -> None:
    script = "nslookup kubernetes.default.svc.cluster.local && cat /etc/resolv.conf"
    reported = cluster.run_pod(pod_of("lookup", script, nodeName="dgx01"))
    assert "10.96.0.1" in reported and "nameserver 10.96.0.10" in reported


def test_the_loss_of_one_host_leaves_a_name_server(cluster: Cluster) -> None:
    """kubeadm starts both on the first member, which is alone then."""
    pods = cluster.get("pods", "-n", "kube-system", "-l", "k8s-app=kube-dns")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
