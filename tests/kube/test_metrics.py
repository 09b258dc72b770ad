"""Real programs have the metrics that rules read, for Prometheus' account, which may do nothing else.

A kubelet needs a container runtime and runs on racks only: its names are compared with its source.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import tests.unit.ansible.conftest  # noqa: F401
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.build import MINOR
from tests.kube.cluster import ApiServerProcess, free_ports
from tests.kube.cluster_programs import CLUSTER_MODULE, module_folder
from tests.kube.cluster_programs import program as cluster_program
from tests.kube.processes import end, run, run_controller
from tests.unit.ansible.collection.conftest import load
from tests.unit.ansible.rendering import Site
from tests.unit.ansible.test_kubernetes_files import fleet

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("kube")

ROLE = yaml.safe_load((ROOT / "ansible/roles/prometheus/vars/main.yml").read_text())
KEPT = {item["job"]: item["keep"] for item in ROLE["prometheus__kubernetes_jobs"]}
KEPT["coredns"] = ROLE["prometheus__coredns_kept"]
ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/gpufleet-prometheus"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
    "Secret": "/api/v1/namespaces/kube-system/secrets",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
# Series that appear with an event: the file that makes them, and what is there in place of the name.
AFTER = {
    # A request that the server ends before its handler does.
    "apiserver_request_terminations_total": (
        "k8s.io/apiserver",
        "pkg/endpoints/metrics/metrics.go",
        '"request_terminations_total"',
    ),
}
KUBELET = {
    "kubelet_certificate_manager_client_expiration_renew_errors": (
        "pkg/kubelet/certificate/kubelet.go",
        '"client_expiration_renew_errors"',
    ),
    "kubelet_certificate_manager_client_ttl_seconds": (
        "cmd/kubelet/app/server.go",
        '"certificate_manager_client_ttl_seconds"',
    ),
    "kubelet_certificate_manager_server_ttl_seconds": (
        "pkg/kubelet/certificate/kubelet.go",
        '"certificate_manager_server_ttl_seconds"',
    ),
    "kubelet_server_expiration_renew_errors": (
        "pkg/kubelet/certificate/kubelet.go",
        '"server_expiration_renew_errors"',
    ),
    **{
        f"kubelet_{name}": ("pkg/kubelet/metrics/metrics.go", f'"{name}"')
        for name in (
            *("evictions", "running_pods", "pleg_last_seen_seconds", "pleg_relist_duration_seconds"),
            *("runtime_operations_total", "runtime_operations_errors_total"),
            "runtime_operations_duration_seconds",
        )
    },
    "container_start_time_seconds": (
        "pkg/kubelet/metrics/collectors/resource_metrics.go",
        '"container_start_time_seconds"',
    ),
}


def get(url: str, authority: Path | None = None, token: str = "") -> str:
    """The text of a page on loopback; raises HTTPError for a refusal."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context(cafile=authority) if authority else None
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return str(answer.read().decode())


def refused(url: str, authority: Path, token: str = "") -> int:
    """The status of a refusal."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(url, authority, token)
    caught.value.close()
    return caught.value.code


def names(text: str) -> set[str]:
    """Metrics of a page."""
    return set(re.findall(r"^([a-zA-Z_:][\w:]*)[{ ]", text, re.MULTILINE))


def until(url: str, wanted: set[str], limit_s: float, **how: Any) -> set[str]:
    """The wanted metrics that a program lacks, once it lacks none or the time is over."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            missing = wanted - names(get(url, **how))
        except (urllib.error.URLError, ConnectionError) as error:
            missing = {str(error)}
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(0.5)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], subprocess.Popen[bytes]]]:
    """Metrics of two members of etcd, and the second one's process. Its release is that of clusters."""
    folder = tmp_path_factory.mktemp("etcd")
    ports = free_ports(6)
    peers = [f"http://127.0.0.1:{port}" for port in ports[2:4]]
    running = [
        run(
            folder,
            cluster_program("etcd"),
            f"--name={name}",
            f"--data-dir={folder / name}",
            f"--listen-client-urls=http://127.0.0.1:{ports[index]}",
            f"--advertise-client-urls=http://127.0.0.1:{ports[index]}",
            f"--listen-peer-urls={peers[index]}",
            f"--initial-advertise-peer-urls={peers[index]}",
            f"--initial-cluster=one={peers[0]},two={peers[1]}",
            f"--listen-metrics-urls=http://127.0.0.1:{ports[4 + index]}",
        )
        for index, name in enumerate(("one", "two"))
    ]
    yield [f"http://127.0.0.1:{port}" for port in ports[4:]], running[1]
    for process in running:
        end(process)


@pytest.fixture(scope="module")
def token(api_server: ApiServerProcess) -> str:
    """A token of the account that the role makes. No controller writes it into the Secret here."""
    rest = api_server.rest()
    for item in ROLE["prometheus__kubernetes_objects"]:
        rest.call("POST", PATHS[item["kind"]], item)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = str(rest.call("POST", f"{ACCOUNT}/token", request)["status"]["token"])
    # The server reads roles a moment after they are written.
    how = {"authority": api_server.folder / "ca.crt", "token": made}
    assert until(f"{api_server.server}/metrics", {"apiserver_request_total"}, 90, **how) == set()
    return made


def test_account_reads_metrics_and_nothing_else(api_server: ApiServerProcess, token: str) -> None:
    authority = api_server.folder / "ca.crt"
    assert "apiserver_request_total" in get(f"{api_server.server}/metrics", authority, token)
    for path in (
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/namespaces/kube-system/secrets",
        "/logs",
        "/configz",
    ):
        assert refused(f"{api_server.server}{path}", authority, token) == 403, path
    assert refused(f"{api_server.server}/metrics", authority) in (401, 403)

    asked = api_server.rest()
    user = "system:serviceaccount:kube-system:gpufleet-prometheus"
    for resource, allowed in (("metrics", True), ("proxy", False), ("stats", False), ("log", False)):
        about = {"resource": "nodes", "subresource": resource, "verb": "get", "name": "dgx01"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": about},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert asked.call("POST", path, review)["status"]["allowed"] is allowed, resource


def test_api_server_has_every_metric_that_rules_read(api_server: ApiServerProcess, token: str) -> None:
    rest = api_server.rest()
    certificate, key = api_server.authority.issue("reader", "reader", "system:masters")
    context = ssl.create_default_context(cafile=api_server.folder / "ca.crt")
    context.load_cert_chain(certificate, key)
    urllib.request.urlopen(f"{api_server.server}/api/v1/namespaces", context=context, timeout=30).close()
    with pytest.raises(ApiError):
        rest.call("GET", "/api/v1/namespaces/none")
    wanted = set(KEPT["kube-apiserver"]) - AFTER.keys()
    how = {"authority": api_server.folder / "ca.crt", "token": token}
    assert until(f"{api_server.server}/metrics", wanted, 90, **how) == set()
    text = get(f"{api_server.server}/metrics", **how)
    # Rules count requests up to these limits.
    for le in ("1", "30"):
        assert re.search(rf'^apiserver_request_sli_duration_seconds_bucket{{.*le="{le}"', text, re.M), le
    assert re.search(r'^apiserver_client_certificate_expiration_seconds_bucket{le="604800"', text, re.M)
    assert 'scope="resource"' in text and 'scope="cluster"' in text


def test_metrics_that_appear_after_an_event_are_in_the_source() -> None:
    for module, path, text in AFTER.values():
        assert text in (module_folder(CLUSTER_MODULE, module) / path).read_text(), path
    kubelet = {
        name.removesuffix("_bucket") for job in ("kubelet", "kubelet-containers") for name in KEPT[job]
    }
    assert kubelet - {"rest_client_requests_total"} == KUBELET.keys()
    source = module_folder(CLUSTER_MODULE, "k8s.io/kubernetes")
    for name, (path, text) in KUBELET.items():
        assert text in (source / path).read_text(), name


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler"])
def test_controllers_serve_metrics_to_the_account_with_a_certificate_of_their_own(
    api_server: ApiServerProcess, rest: Rest, token: str, name: str, tmp_path: Path
) -> None:
    load("self_signed_certificate").work({"path": str(tmp_path), "name": "localhost", "days": 3650}, False)
    (port,) = free_ports(1)
    pod = {"name": "waits", "image": "x"}
    rest.call(
        "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dgx-metrics"}}
    )
    rest.call(
        "POST",
        "/api/v1/namespaces/default/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"waits-{name}"},
            "spec": {"containers": [pod]},
        },
    )
    process = run_controller(
        tmp_path,
        api_server,
        name,
        port,
        f"--tls-cert-file={tmp_path}/tls.crt",
        f"--tls-private-key-file={tmp_path}/tls.key",
    )
    try:
        url, how = f"https://localhost:{port}/metrics", {"authority": tmp_path / "tls.crt", "token": token}
        assert until(url, set(KEPT[name]), 120, **how) == set(), (tmp_path / f"{name}.log").read_text()[
            -2000:
        ]
        assert f'leader_election_master_status{{name="{name}"}} 1' in get(url, **how)
        assert refused(url, tmp_path / "tls.crt") == 403
    finally:
        end(process)
        rest.call("DELETE", f"/api/v1/namespaces/default/pods/waits-{name}")
        rest.call("DELETE", "/api/v1/nodes/dgx-metrics")


def test_prometheus_scrapes_an_api_server_with_the_configuration_of_the_role(
    api_server: ApiServerProcess, token: str, tmp_path: Path
) -> None:
    site = Site(
        fleet(MINOR).replace("    kubernetes:\n", "    monitoring: {}\n    kubernetes:\n", 1), tmp_path
    )
    # The server's certificate has the name localhost, which the target does not.
    member = {"name": "localhost", "address": "127.0.0.1", "role": "controller", "rack": ""}
    secret = base64.b64encode(token.encode()).decode()
    authority = {"stdout": (api_server.folder / "ca.crt").read_text()}
    given = {
        "prometheus_targets": [member],
        "prometheus_kubernetes_members": [member],
        "prometheus_kubernetes_port": int(api_server.server.rpartition(":")[2]),
        "prometheus_interval_s": 5,
        "prometheus__kubernetes_identity": {
            "measurements": {"token": {"stdout": secret}, "authority": authority}
        },
    }
    for path, item in site.rendered("login01", "prometheus", "debian_12", given).items():
        if path.startswith("/etc/prometheus/"):
            here = tmp_path / path.lstrip("/")
            here.parent.mkdir(parents=True, exist_ok=True)
            here.write_text(item.text.replace("/etc/prometheus/", f"{tmp_path}/etc/prometheus/"))
    (port,) = free_ports(1)
    process = run(
        tmp_path,
        "prometheus",
        f"--config.file={tmp_path}/etc/prometheus/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    )

    def samples(query: str) -> list[dict[str, Any]]:
        try:
            text = get(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        except (urllib.error.URLError, ConnectionError):
            return []
        return list(json.loads(text)["data"]["result"])

    def seen() -> bool:
        return any(item["value"][1] == "1" for item in samples('up{job="kube-apiserver"}'))

    try:
        deadline = time.monotonic() + 300
        while not seen():
            assert time.monotonic() < deadline, get(f"http://127.0.0.1:{port}/api/v1/targets")
            time.sleep(0.5)
        (up,) = samples('up{job="kube-apiserver"}')
        assert up["metric"]["instance"] == "localhost"
        kept = {item["metric"]["__name__"] for item in samples('{job="kube-apiserver"}')}
        own = {name for name in kept if not name.startswith(("up", "scrape_"))}
        assert own and own <= set(KEPT["kube-apiserver"])
    finally:
        end(process)


def test_coredns_has_every_metric_that_rules_read(tmp_path: Path) -> None:
    port, page, closed = free_ports(3)
    # A query is answered by SERVFAIL: no server is where it is forwarded to.
    plugins = ("bind 127.0.0.1", f"prometheus 127.0.0.1:{page}", f"forward . 127.0.0.1:{closed}")
    text = "\n ".join((f".:{port} {{", *plugins))
    (tmp_path / "Corefile").write_text(f"{text}\n}}\n")
    process = run(tmp_path, cluster_program("coredns"), "-conf", tmp_path / "Corefile")
    # A query for the address of `a.`.
    query = base64.b16decode("000101000001000000000000016100") + b"\0\1\0\1"
    try:
        url = f"http://127.0.0.1:{page}/metrics"
        assert until(url, {"coredns_panics_total"}, 60) == set()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(30)
            client.sendto(query, ("127.0.0.1", port))
            client.recv(512)
        assert until(url, set(KEPT["coredns"]), 30) == set()
        assert 'rcode="' in get(url)
    finally:
        end(process)


def test_etcd_has_every_metric_that_rules_read_and_no_data_at_that_address(
    members: tuple[list[str], subprocess.Popen[bytes]],
) -> None:
    (url, _), second = members
    failures = "etcd_network_peer_sent_failures_total"
    # It measures round trips every 30 s (server/etcdserver/api/rafthttp, probing_status.go).
    assert until(f"{url}/metrics", set(KEPT["etcd"]) - {failures}, 90) == set()
    body = json.dumps({"key": "AA=="}).encode()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/v3/kv/range", data=body, timeout=300)
    assert caught.value.code == 404
    caught.value.close()
    end(second)
    assert until(f"{url}/metrics", {failures}, 60) == set()
