"""The API server files of the role kubernetes_control_plane, used by a real API server."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.lab.kubernetes.rest import ApiError
from tests.kube.build import asked_minors
from tests.kube.cluster import ApiServerProcess
from tests.unit.ansible.collection.conftest import load
from tests.unit.ansible.rendering import SECRETS, Site
from tests.unit.ansible.test_kubernetes_files import FOLDER, fleet

pytestmark = [pytest.mark.xdist_group("kube"), pytest.mark.daemon]
PLANTED = "planted-secret-of-a-user"
# Arguments that name no file of a member.
TAKEN = (
    "enable-admission-plugins",
    "service-account-extend-token-expiration",
    "tls-min-version",
    "tls-cipher-suites",
)


def arguments(text: str) -> list[str]:
    """Arguments of the API server from a kubeadm configuration."""
    cluster = next(part for part in yaml.safe_load_all(text) if part["kind"] == "ClusterConfiguration")
    found = {item["name"]: item["value"] for item in cluster["apiServer"]["extraArgs"]}
    return [f"--{name}={found[name]}" for name in TAKEN]


@pytest.fixture(scope="module", params=asked_minors())
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServerProcess]:
    folder = tmp_path_factory.mktemp("control-plane")
    site = Site(fleet(request.param), tmp_path_factory.mktemp("site"))
    rendered = site.rendered("ctl01", "kubernetes_control_plane", "ubuntu_24_04")
    for name in ("encryption", "audit-policy", "admission", "authentication"):
        item = rendered[f"{FOLDER}/{name}.yaml"]
        path = folder / f"{name}.yaml"
        path.touch(mode=int(item.mode, 8))
        path.write_text(item.text)
    made = ApiServerProcess(
        folder,
        (
            f"--encryption-provider-config={folder}/encryption.yaml",
            f"--admission-control-config-file={folder}/admission.yaml",
            f"--audit-policy-file={folder}/audit-policy.yaml",
            f"--audit-log-path={folder}/audit.log",
            f"--authentication-config={folder}/authentication.yaml",
            *arguments(rendered[f"{FOLDER}/kubeadm.yaml"].text),
        ),
        minor=request.param,
    )
    made.start()
    yield made
    made.stop()


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/none", **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


def test_secret_is_encrypted_in_etcd(server: ApiServerProcess) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": PLANTED}}
    path = "/api/v1/namespaces/default/secrets"
    server.rest().call("POST", path, body)
    kept = b"".join(file.read_bytes() for file in (server.folder / "etcd").rglob("*") if file.is_file())
    assert b"k8s:enc:secretbox:v1:gpufleet-1:" in kept
    assert PLANTED.encode() not in kept
    assert b"/registry/secrets/default/s" in kept


def test_audit_log_names_the_user_and_never_secret_data(server: ApiServerProcess) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "stringData": {"a": PLANTED}}
    server.rest().call("POST", "/api/v1/namespaces/default/secrets", body)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "seen"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    server.rest().call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    text = (server.folder / "audit.log").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    of = {(item["verb"], item.get("objectRef", {}).get("name")): item for item in events}
    assert of["create", "t"]["level"] == "Metadata" and of["create", "t"]["user"]["username"] == "admin"
    assert of["create", "seen"]["level"] == "RequestResponse"
    assert PLANTED not in text and SECRETS["kubernetes_control_plane_encryption_key"] not in text
    assert not [item for item in events if item["requestURI"].startswith("/readyz")]


def test_baseline_pod_security_applies_outside_system_namespaces(server: ApiServerProcess) -> None:
    privileged = {"securityContext": {"privileged": True}}
    rest = server.rest()
    with pytest.raises(ApiError, match=r"violates PodSecurity \W*baseline"):
        rest.call("POST", "/api/v1/namespaces/default/pods", pod("root", **privileged))
    rest.call("POST", "/api/v1/namespaces/default/pods", pod("plain"))
    rest.call("POST", "/api/v1/namespaces/kube-system/pods", pod("root", **privileged))


def get(server: ApiServerProcess, path: str) -> int:
    """The status that a client without credentials gets."""
    context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
    try:
        with urllib.request.urlopen(server.server + path, timeout=30, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_client_without_credentials_reads_health_and_the_clusters_address_and_nothing_else(
    server: ApiServerProcess,
) -> None:
    rest, namespace = server.rest(), "kube-public"
    about = {"name": "cluster-info", "namespace": namespace}
    reads = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    rules = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public"
    # As kubeadm makes them. The second map shows that a permission does not suffice.
    for name in ("cluster-info", "other"):
        rest.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}})
    rest.call("POST", f"{rules}/roles", {"metadata": about, "rules": [reads]})
    bound = {
        "metadata": about,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "cluster-info"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    }
    rest.call("POST", f"{rules}/rolebindings", bound)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert {
        path: get(server, path) for path in ("/livez", "/readyz", "/healthz", f"{maps}/cluster-info")
    } == {
        "/livez": 200,
        "/readyz": 200,
        "/healthz": 200,
        f"{maps}/cluster-info": 200,
    }
    for path in ("/version", "/api", "/metrics", "/readyz/ping", f"{maps}/other", maps):
        assert get(server, path) == 401, path


def test_api_accepts_only_listed_ciphers(server: ApiServerProcess) -> None:
    port = int(server.server.rpartition(":")[2])

    def cipher(ciphers: str) -> str:
        context = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            found = connection.cipher()
            assert found is not None
            return found[0]

    assert cipher("ECDHE-ECDSA-AES128-GCM-SHA256") == "ECDHE-ECDSA-AES128-GCM-SHA256"
    for refused in ("ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-CHACHA20-POLY1305"):
        with pytest.raises(ssl.SSLError):
            cipher(refused)


def test_service_with_external_addresses_is_refused(server: ApiServerProcess) -> None:
    body = {
        "metadata": {"name": "taken"},
        "spec": {"ports": [{"port": 443}], "externalIPs": ["10.90.0.10"], "selector": {"a": "b"}},
    }
    with pytest.raises(ApiError, match="Use of external IPs is denied"):
        server.rest().call("POST", "/api/v1/namespaces/default/services", body)


def test_labels_and_taints_of_nodes_are_set_and_removed(server: ApiServerProcess) -> None:
    patch_for = load("kubernetes_nodes").patch_for
    rest, path = server.rest(), "/api/v1/nodes/dgx001"
    other = {"key": "example.com/other", "effect": "NoSchedule"}
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dgx001"}, "spec": {"taints": [other]}}
    rest.call("POST", "/api/v1/nodes", made)

    def lead(labels: dict[str, str], taints: list[dict[str, str]]) -> dict[str, Any]:
        patch = patch_for(rest.call("GET", path), labels, taints)
        found = rest.call("PATCH", path, patch, content_type="application/merge-patch+json")
        assert patch_for(found, labels, taints) == {}
        return dict(found)

    mine = [{"key": "example.com/gpu", "value": "yes", "effect": "NoExecute"}]
    node = lead({"gpufleet.io/rack": "r1", "gpufleet.io/rail-0": "leaf0"}, mine)
    assert node["metadata"]["labels"]["gpufleet.io/rail-0"] == "leaf0"
    assert {item["key"] for item in node["spec"]["taints"]} >= {"example.com/other", "example.com/gpu"}
    node = lead({"gpufleet.io/rack": "r2"}, [])
    assert node["metadata"]["labels"].get("gpufleet.io/rack") == "r2"
    assert "gpufleet.io/rail-0" not in node["metadata"]["labels"]
    assert "example.com/gpu" not in {item["key"] for item in node["spec"]["taints"]}
    assert "example.com/other" in {item["key"] for item in node["spec"]["taints"]}


def test_server_refuses_an_invalid_encryption_key(tmp_path: Path, server: ApiServerProcess) -> None:
    text = (server.folder / "encryption.yaml").read_text()
    (tmp_path / "encryption.yaml").write_text(
        text.replace(SECRETS["kubernetes_control_plane_encryption_key"], "c2hvcnQ=")
    )
    broken = ApiServerProcess(tmp_path, (f"--encryption-provider-config={tmp_path}/encryption.yaml",))
    with pytest.raises(RuntimeError, match="32"):
        broken.start()
