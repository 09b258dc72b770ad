"""A real API server judges the isolation of teams: who may use the host, and their network policies."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import tests.unit.ansible.conftest  # noqa: F401
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.kube.admission import refusal, refusal_in_time
from tests.kube.cluster import ApiServerProcess
from tests.unit.ansible.collection.conftest import load
from tests.unit.ansible.test_kubernetes_gpu_templates import TEAMS, role

pytestmark = pytest.mark.xdist_group("kube")

BY_POLICY = 422
"""HTTP's code of a refusal by a ValidatingAdmissionPolicy. Quotas and PodSecurity refuse with 403."""

ISOLATED = {"name": "isolated", "gpus": 8, "priority": "normal", "host_network": False}
ON_HOSTS = ISOLATED | {"name": "on-hosts", "host_network": True}


@pytest.fixture(scope="module")
def teams(api_server: ApiServerProcess) -> None:
    """Two teams, as the role applies them."""
    objects = role(kubernetes_gpu_teams=[ISOLATED, ON_HOSTS]).value("kubernetes_gpu__base")
    params = {"objects": objects, "part_of": "isolation", "field_manager": "gpufleet", "wait_s": 30}
    params |= {
        "only_existing": False,
        "prune": [],
        "timeout_s": 120,
        "kubeconfig": str(api_server.kubeconfig),
    }
    module = load("kubernetes_objects")
    assert "NetworkPolicy isolated/team" in module.ensure(copy.deepcopy(params), False)["changed_objects"]
    assert module.ensure(copy.deepcopy(params), False)["changed"] is False
    volume = {"name": "v", "hostPath": {"path": "/"}}
    refusal_in_time(api_server.rest(), "on-hosts", pod(volumes=[volume]), BY_POLICY)


def pod(security: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "example.com/none"}
    if security is not None:
        container["securityContext"] = security
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], **spec}}


PORT = {"name": "main", "image": "a", "ports": [{"containerPort": 22, "hostPort": 2222}]}


@pytest.mark.parametrize("spec", [{"hostNetwork": True}, {"containers": [PORT]}], ids=["network", "port"])
def test_only_pods_of_a_declared_team_use_network_and_ports_of_their_host(
    teams: None, rest: Rest, spec: dict[str, Any]
) -> None:
    assert "violates PodSecurity" in refusal(rest, "isolated", pod(**spec))
    assert refusal(rest, "on-hosts", pod(**copy.deepcopy(spec))) == ""


PROFILE = {"type": "Unconfined"}
SELINUX = {"type": "spc_t"}
NOT_ALLOWED: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "privileged containers": ({"privileged": True}, {}),
    "capabilities other than AUDIT_WRITE": ({"capabilities": {"add": ["SYS_ADMIN"]}}, {}),
    "an unmasked /proc": ({"procMount": "Unmasked"}, {"hostUsers": False}),
    "Unconfined as seccomp profile of a container": ({"seccompProfile": PROFILE}, {}),
    "Unconfined as AppArmor profile of a container": ({"appArmorProfile": PROFILE}, {}),
    "SELinux options of a container": ({"seLinuxOptions": SELINUX}, {}),
    "hostPID and hostIPC": (None, {"hostIPC": True}),
    "hostPath volumes": (None, {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    "Unconfined as seccomp profile": (None, {"securityContext": {"seccompProfile": PROFILE}}),
    "Unconfined as AppArmor profile": (None, {"securityContext": {"appArmorProfile": PROFILE}}),
    "SELinux options": (None, {"securityContext": {"seLinuxOptions": SELINUX}}),
    "sysctls": (None, {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}),
}


@pytest.mark.parametrize("what", NOT_ALLOWED)
def test_pod_on_the_network_of_its_host_gets_nothing_else_of_it(teams: None, rest: Rest, what: str) -> None:
    security, spec = NOT_ALLOWED[what]
    reported = refusal(rest, "on-hosts", pod(security, **spec), BY_POLICY)
    assert f"may use the network of their host, but not {what}" in reported
    if security is not None:
        first = pod(security, **spec)
        first["spec"]["initContainers"] = [first["spec"]["containers"][0] | {"name": "first"}]
        del first["spec"]["containers"][0]["securityContext"]
        assert f"but not {what}" in refusal(rest, "on-hosts", first, BY_POLICY)


def test_old_annotation_does_not_take_a_pod_out_of_app_armor(teams: None, rest: Rest) -> None:
    made = pod()
    made["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}
    assert "but not Unconfined as AppArmor profile" in refusal(rest, "on-hosts", made, BY_POLICY)


def test_container_that_is_added_to_a_pod_is_judged_too(teams: None, rest: Rest) -> None:
    pods = "/api/v1/namespaces/on-hosts/pods"
    name = rest.call("POST", pods, pod(hostNetwork=True))["metadata"]["name"]

    def add(**security: Any) -> None:
        container = {"name": "shell", "image": "a", "securityContext": security}
        rest.call(
            "PATCH",
            f"{pods}/{name}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [container]}},
            content_type="application/strategic-merge-patch+json",
        )

    with pytest.raises(ApiError, match="but not privileged containers"):
        add(privileged=True)
    add(privileged=False)
    rest.call("DELETE", f"{pods}/{name}", query={"gracePeriodSeconds": "0"})


def test_rdma_job_on_the_network_of_its_hosts_is_accepted(teams: None, rest: Rest) -> None:
    made = pod({"capabilities": {"add": ["IPC_LOCK"]}}, hostNetwork=True)
    made["spec"]["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    assert refusal(rest, "on-hosts", made) == ""


def test_pods_of_a_team_get_no_token_unless_they_ask(teams: None, rest: Rest) -> None:
    account = rest.call("GET", "/api/v1/namespaces/isolated/serviceaccounts/default")
    assert account["automountServiceAccountToken"] is False


def test_site_without_network_policies_gets_none() -> None:
    objects = role(kubernetes_gpu_teams=TEAMS, kubernetes_gpu_network={}).value("kubernetes_gpu__base")
    assert not [item for item in objects if item["kind"] == "NetworkPolicy"]
