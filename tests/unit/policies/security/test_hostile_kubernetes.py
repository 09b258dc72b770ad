"""Roles, webhooks and parts of pods that give the rights of others in forms that no name shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.kinds import NOTICES_SERVICE_ACCOUNT
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

RBAC = "kubernetes-rbac-restricted"
PODS = "kubernetes-pods-unprivileged"
GROUP = "kubernetes:rbac.authorization.k8s.io/v1"

many = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def role(
    verbs: Any, kinds: Any, groups: Any = ("",), *, kind: str = "ClusterRole", **metadata: str
) -> Described:
    rule = {"apiGroups": list(groups), "resources": list(kinds), "verbs": list(verbs)}
    return {"type": f"{GROUP}:{kind}", "props": {"metadata": {"name": "r", **metadata}, "rules": [rule]}}


# roles

CREATES = {
    "": ("pods", "replicationcontrollers"),
    "apps": ("deployments", "daemonsets", "statefulsets", "replicasets"),
    "batch": ("jobs", "cronjobs"),
}


@many
@given(data=st.data())
def test_no_role_that_creates_pods_everywhere_passes(ask: Ask, data: st.DataObject) -> None:
    group = data.draw(st.sampled_from(sorted(CREATES)))
    kind = data.draw(st.sampled_from((*CREATES[group], "*")))
    verb = data.draw(st.sampled_from(("create", "update", "patch", "*", "Create")))
    others = data.draw(st.lists(st.sampled_from(("get", "list", "watch", "delete")), unique=True))
    groups = data.draw(st.sampled_from(([group], ["*"], ["autoscaling", group])))
    place = data.draw(st.sampled_from(("cluster", "kube-system", "gpu-operator")))
    kinds = data.draw(st.permutations([kind, "configmaps"]))
    of = {} if place == "cluster" else {"kind": "Role", "namespace": place}
    assert ask(RBAC, role([*others, verb], kinds, groups, **of))


@pytest.mark.parametrize(
    ("verbs", "kinds", "groups"),
    [
        (["create"], ["persistentvolumes"], [""]),
        (["patch"], ["namespaces"], [""]),
        (["create"], ["mutatingwebhookconfigurations"], ["admissionregistration.k8s.io"]),
        (["update"], ["validatingadmissionpolicybindings"], ["admissionregistration.k8s.io"]),
        (["patch"], ["apiservices"], ["apiregistration.k8s.io"]),
        (["create", "update", "patch", "delete"], ["*"], ["*"]),
        (["create"], ["*/exec"], [""]),
        (["create"], ["*/token"], ["*"]),
        (["get"], ["nodes/*"], [""]),
        (["patch"], ["pods/ephemeralcontainers"], [""]),
    ],
)
def test_role_that_controls_the_cluster_by_its_objects_is_found(
    ask: Ask, verbs: list[str], kinds: list[str], groups: list[str]
) -> None:
    assert ask(RBAC, role(verbs, kinds, groups))


@pytest.mark.parametrize(
    "name", ["system:controller:clusterrole-aggregation-controller", "eks:addon-manager"]
)
def test_role_that_takes_the_rights_of_the_cluster_is_found_by_their_names(ask: Ask, name: str) -> None:
    described = role(["bind"], ["clusterroles"], ["rbac.authorization.k8s.io"], kind="Role", namespace="team")
    described["props"]["rules"][0]["resourceNames"] = [name]
    assert ask(RBAC, described)
    bound = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "jobs", "namespace": "team"}],
    }
    assert ask(RBAC, {"type": f"{GROUP}:ClusterRoleBinding", "props": bound})


def test_role_in_a_namespace_of_a_team_may_create_pods(ask: Ask) -> None:
    assert ask(RBAC, role(["*"], ["pods", "jobs"], ["", "batch"], kind="Role", namespace="team")) == []


def test_reviewed_role_of_a_controller_may_create_pods(ask: Ask) -> None:
    creates = role(["create"], ["pods"], name="training-operator")
    assert ask(RBAC, creates)
    assert ask(RBAC, creates, settings={"controllers": ["training-operator"]}) == []
    other = role(["create"], ["pods"], kind="Role", name="training-operator", namespace="kube-system")
    assert ask(RBAC, other, settings={"controllers": ["training-operator"]})


def test_handler_of_notices_may_patch_pods_and_create_none(ask: Ask) -> None:
    assert ask(RBAC, role(["get", "list", "patch", "delete"], ["pods"], name=NOTICES_SERVICE_ACCOUNT)) == []
    assert ask(RBAC, role(["patch"], ["pods"], name="someone"))
    assert ask(RBAC, role(["*"], ["pods"], name=NOTICES_SERVICE_ACCOUNT))
    assert ask(RBAC, role(["patch", "create"], ["pods"], name=NOTICES_SERVICE_ACCOUNT))
    assert ask(RBAC, role(["patch"], ["pods", "deployments"], ["", "apps"], name=NOTICES_SERVICE_ACCOUNT))


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_webhook_outside_the_cluster_is_found(ask: Ask, kind: str) -> None:
    def webhook(**client: Any) -> Described:
        props = {"metadata": {"name": "w"}, "webhooks": [{"name": "w.example.org", "clientConfig": client}]}
        return {"type": f"kubernetes:admissionregistration.k8s.io/v1:{kind}", "props": props}

    assert ask(RBAC, webhook(url="https://hooks.example.org"))
    assert ask(RBAC, webhook(service={"name": "webhook", "namespace": "kueue-system"})) == []


# parts of pods


CONTAINER: dict[str, Any] = {"name": "train", "image": "example.org/train"}


def pod(**spec: Any) -> Described:
    return {"type": "kubernetes:core/v1:Pod", "props": {"spec": {"containers": [CONTAINER], **spec}}}


def with_container(**more: Any) -> Described:
    return pod(containers=[{**CONTAINER, **more}])


@pytest.mark.parametrize(
    "part",
    [
        {"hostNetwork": True},
        {"hostPID": "true"},
        {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    ],
)
@pytest.mark.parametrize("kind", ["apps/v1:DeploymentPatch", "monitoring.coreos.com/v1:Prometheus"])
def test_part_of_a_pod_without_containers_is_found(ask: Ask, part: dict[str, Any], kind: str) -> None:
    spec = {"template": {"spec": part}} if kind.startswith("apps") else part
    assert ask(PODS, {"type": f"kubernetes:{kind}", "props": {"metadata": {"name": "x"}, "spec": spec}})
    quiet = {"replicas": 2, "volumes": [{"name": "cache", "emptyDir": {}}]}
    assert (
        ask(PODS, {"type": f"kubernetes:{kind}", "props": {"metadata": {"name": "x"}, "spec": quiet}}) == []
    )


@pytest.mark.parametrize(
    ("described", "found"),
    [
        (pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), True),
        (pod(securityContext={"sysctls": [{"name": "net/ipv4/ip_forward", "value": "1"}]}), True),
        (pod(securityContext={"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}), False),
        (with_container(securityContext={"seLinuxOptions": {"type": "spc_t"}}), True),
        (with_container(securityContext={"seLinuxOptions": {"type": "container_t"}}), False),
        (pod(securityContext={"seLinuxOptions": {"user": "system_u"}}), True),
        (with_container(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}), True),
        (with_container(lifecycle={"postStart": {"tcpSocket": {"host": "10.0.0.1", "port": 22}}}), True),
        (with_container(livenessProbe={"httpGet": {"path": "/healthz", "port": 80}}), False),
        (with_container(readinessProbe={"tcpSocket": {"host": "", "port": 80}}), False),
        (with_container(lifecycle={"preStop": {"httpGet": {"host": UNKNOWN, "port": 80}}}), True),
        (with_container(ports=[{"containerPort": 80, "hostPort": 0}]), False),
        (with_container(ports=[{"containerPort": 80, "hostPort": UNKNOWN}]), True),
        (with_container(securityContext={"windowsOptions": {"hostProcess": True}}), True),
        (with_container(securityContext={"windowsOptions": {"hostProcess": False}}), False),
        (with_container(securityContext={"appArmorProfile": {"type": "Unconfined"}}), True),
        (with_container(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}), False),
        (with_container(securityContext={"procMount": "Default"}), False),
        (with_container(securityContext={"seLinuxOptions": {"role": "sysadm_r"}}), True),
        (with_container(securityContext={"capabilities": {"add": ["cap_kill"]}}), False),
        (with_container(securityContext={"capabilities": {"add": [UNKNOWN]}}), True),
        (pod(hostPID="false", hostIPC=False), False),
        (pod(hostPID=UNKNOWN), True),
        (pod(securityContext={"sysctls": [{"name": "net/ipv4/tcp_syncookies", "value": "1"}]}), False),
    ],
)
def test_pod_keeps_to_the_whole_baseline_profile(ask: Ask, described: Described, found: bool) -> None:
    assert bool(ask(PODS, described)) == found


@pytest.mark.parametrize(("profile", "found"), [("unconfined", True), ("runtime/default", False)])
def test_older_annotation_of_apparmor_is_read_in_templates_too(ask: Ask, profile: str, found: bool) -> None:
    notes = {"annotations": {"container.apparmor.security.beta.kubernetes.io/train": profile}}
    template = {"metadata": notes, "spec": {"containers": [CONTAINER]}}
    assert bool(ask(PODS, {**pod(), "props": {"metadata": notes, **pod()["props"]}})) == found
    assert (
        bool(ask(PODS, {"type": "kubernetes:apps/v1:Deployment", "props": {"spec": {"template": template}}}))
        == found
    )


def test_other_annotations_have_no_profile(ask: Ask) -> None:
    notes = {"annotations": {"note": "unconfined", "apparmor": "unconfined"}}
    assert ask(PODS, {**pod(), "props": {"metadata": notes, **pod()["props"]}}) == []


@pytest.mark.parametrize(
    "more",
    [
        {"livenessProbe": {"exec": {"command": ["sh", "-c", "id"]}}},
        {"env": [{"name": "LD_PRELOAD", "value": "/var/lib/kubelet/device-plugins/x.so"}]},
    ],
)
def test_device_plugin_that_runs_code_of_its_author_is_not_exempt(ask: Ask, more: dict[str, Any]) -> None:
    def plugin(**own: Any) -> Described:
        container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0", **own}
        spec = {
            "containers": [container],
            "volumes": [{"name": "s", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
        }
        props = {"metadata": {"name": "p", "namespace": "kube-system"}, "spec": {"template": {"spec": spec}}}
        return {"type": "kubernetes:apps/v1:DaemonSet", "props": props}

    assert ask(PODS, plugin(env=[{"name": "FAIL_ON_INIT_ERROR", "value": "false"}])) == []
    assert ask(PODS, plugin(**more))


def test_path_of_a_local_volume_has_no_way_back(ask: Ask) -> None:
    def volume(path: str) -> Described:
        return {"type": "kubernetes:core/v1:PersistentVolume", "props": {"spec": {"local": {"path": path}}}}

    assert ask(PODS, volume("/mnt/nvme")) == []
    assert ask(PODS, volume("/mnt/../etc"))
