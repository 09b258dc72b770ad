"""A viewer of `kubernetes.viewers` reads what a preview and a refresh read, and cannot write.

EKS's access policies are not in a cluster. Their rules are those of the EKS User Guide ("Review access policy
permissions"), here as roles of RBAC, which an API server applies in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpufleet.components.access_entries import POLICIES
from gpufleet.lab.kubernetes import kubeconfig
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.admission import wait_for_right_to_read
from tests.kube.cluster import ApiServerProcess

pytestmark = pytest.mark.xdist_group("kube")

READ = ["get", "list", "watch"]
RULES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "AmazonEKSAdminViewPolicy": [{"apiGroups": ["*"], "resources": ["*"], "verbs": READ}],
    # What this policy reads of the kinds that a cluster has from gpufleet.
    "AmazonEKSViewPolicy": [
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": READ},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": READ},
        {"apiGroups": [""], "resources": ["namespaces", "limitranges", "resourcequotas"], "verbs": READ},
    ],
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
APPLY = "application/apply-patch+yaml"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "viewed"}}
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "gpufleet-viewed"},
    "value": 10,
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sh.helm.release.v1.gpu-operator.v1"}}
PLACES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "/api/v1/namespaces/viewed": ("/api/v1/namespaces", NAMESPACE),
    "/apis/scheduling.k8s.io/v1/priorityclasses/gpufleet-viewed": (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        PRIORITY,
    ),
    "/api/v1/namespaces/viewed/secrets/sh.helm.release.v1.gpu-operator.v1": (
        "/api/v1/namespaces/viewed/secrets",
        SECRET,
    ),
}


@pytest.fixture
def contents(rest: Rest) -> None:
    """Objects like those that gpufleet applies."""
    for path, (place, made) in PLACES.items():
        if rest.find(path) is None:
            rest.call("POST", place, made)


def viewer(api_server: ApiServerProcess, rest: Rest, policy: str) -> Rest:
    """A user with the rules of the policy."""
    name = policy.lower()
    if rest.find(f"{RBAC}/clusterroles/{name}") is None:
        meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        rest.call(
            "POST", f"{RBAC}/clusterroles", {**meta, "kind": "ClusterRole", "rules": list(RULES[policy])}
        )
        group = "rbac.authorization.k8s.io"
        rest.call(
            "POST",
            f"{RBAC}/clusterrolebindings",
            {
                **meta,
                "kind": "ClusterRoleBinding",
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
            },
        )
    certificate, key = api_server.authority.issue(name, name)
    file = api_server.folder / f"{name}.json"
    user = {"client-certificate": certificate.name, "client-key": key.name}
    file.write_text(json.dumps(api_server.config(user)))
    user_rest = Rest(kubeconfig.read(str(file)))
    wait_for_right_to_read(user_rest, next(iter(PLACES)))
    return user_rest


def refused(rest: Rest, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> bool:
    with pytest.raises(ApiError) as error:
        rest.call(method, path, body, **more)
    return error.value.code == 403


def test_viewer_reads_all_contents_and_cannot_change_one(
    api_server: ApiServerProcess, rest: Rest, contents: None
) -> None:
    user = viewer(api_server, rest, POLICIES["viewer"])
    for path, (place, made) in PLACES.items():
        assert user.call("GET", path)["metadata"]["name"] == made["metadata"]["name"]
        assert user.call("GET", place)["items"]
        # The provider's preview is a dry run, which needs the permission to write.
        labelled = {**made, "metadata": {**made["metadata"], "labels": {"by": "viewer"}}}
        for dry in ({}, {"dryRun": "All"}):
            query = {"fieldManager": "viewer", **dry}
            assert refused(user, "PATCH", path, labelled, content_type=APPLY, query=query)
            assert refused(user, "POST", place, {**made, "metadata": {"name": "other"}}, query=dry)
            assert refused(user, "DELETE", path, query=dry)
        assert rest.call("GET", path)["metadata"].get("labels", {}).get("by") is None


def test_viewer_cannot_give_itself_more(api_server: ApiServerProcess, rest: Rest, contents: None) -> None:
    user = viewer(api_server, rest, POLICIES["viewer"])
    role = rest.call("GET", f"{RBAC}/clusterroles/{POLICIES['viewer'].lower()}")
    more = {**role, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    assert refused(user, "PUT", f"{RBAC}/clusterroles/{role['metadata']['name']}", more)
    assert refused(user, "POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "mine"}})
    assert refused(user, "POST", "/api/v1/namespaces/viewed/serviceaccounts/default/token", {})


def test_narrower_view_policy_does_not_read_what_a_refresh_needs(
    api_server: ApiServerProcess, rest: Rest, contents: None
) -> None:
    user = viewer(api_server, rest, "AmazonEKSViewPolicy")
    namespace, *others = PLACES
    assert user.call("GET", namespace)
    for path in others:
        assert refused(user, "GET", path)
