"""Kubernetes: privileged pods in any object, roles, bindings, namespaces and administrators of EKS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

PODS = "kubernetes-pods-unprivileged"
RBAC = "kubernetes-rbac-restricted"
NAMESPACES = "kubernetes-namespaces-guarded"
ADMINS = "eks-admins-declared"
BINDING = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
ROLE_BINDING = "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"
CLUSTER_ROLE = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"

many = settings(
    max_examples=80,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

PLACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "kubernetes:core/v1:Pod": lambda pod: {"spec": pod},
    "kubernetes:core/v1:PodPatch": lambda pod: {"spec": pod},
    "kubernetes:core/v1:PodTemplate": lambda pod: {"template": {"spec": pod}},
    "kubernetes:apps/v1:Deployment": lambda pod: {"spec": {"template": {"spec": pod}}},
    "kubernetes:apps/v1:DaemonSet": lambda pod: {"spec": {"template": {"spec": pod}}},
    "kubernetes:apps/v1:StatefulSetPatch": lambda pod: {"spec": {"template": {"spec": pod}}},
    "kubernetes:batch/v1:Job": lambda pod: {"spec": {"template": {"spec": pod}}},
    "kubernetes:batch/v1:CronJob": lambda pod: {
        "spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}
    },
    "kubernetes:kubeflow.org/v1:PyTorchJob": lambda pod: {
        "spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": pod}}}}
    },
    "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet": lambda pod: {
        "spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": pod}}}}]}
    },
}

POWERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "privileged": lambda which: {which: [{"name": "c", "securityContext": {"privileged": True}}]},
    "privileged text": lambda which: {which: [{"name": "c", "securityContext": {"privileged": "true"}}]},
    "privileged unknown": lambda which: {which: [{"name": "c", "securityContext": {"privileged": UNKNOWN}}]},
    "capability": lambda which: {
        which: [{"name": "c", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]
    },
    "capability of any case": lambda which: {
        which: [{"name": "c", "securityContext": {"capabilities": {"add": ["KILL", "cap_sys_ptrace"]}}}]
    },
    "all capabilities": lambda which: {
        which: [{"name": "c", "securityContext": {"capabilities": {"add": ["ALL"]}}}]
    },
    "host port": lambda which: {which: [{"name": "c", "ports": [{"hostPort": 80}]}]},
    "process table": lambda which: {which: [{"name": "c"}], "hostPID": True},
    "network": lambda which: {which: [{"name": "c"}], "hostNetwork": True},
    "memory": lambda which: {which: [{"name": "c"}], "hostIPC": True},
    "root": lambda which: {which: [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    "plugins": lambda which: {
        which: [{"name": "c", "image": "mine"}],
        "volumes": [{"name": "v", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    },
    "unmasked": lambda which: {which: [{"name": "c", "securityContext": {"procMount": "Unmasked"}}]},
    "unconfined": lambda which: {
        which: [{"name": "c"}],
        "securityContext": {"seccompProfile": {"type": "Unconfined"}},
    },
}


@many
@given(data=st.data())
def test_no_privileged_pod_passes_in_any_object(ask: Ask, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(PLACES)))
    power = data.draw(st.sampled_from(sorted(POWERS)))
    which = data.draw(st.sampled_from(("containers", "initContainers", "ephemeralContainers")))
    namespace = data.draw(st.sampled_from(("default", "team", "kube-system", "gpu-operator")))
    props = {"metadata": {"namespace": namespace}, **PLACES[kind](POWERS[power](which))}
    assert ask(PODS, {"type": kind, "props": props}), (kind, power)


TRAINING = {
    "containers": [
        {
            "name": "train",
            "image": "nvcr.io/nvidia/pytorch:26.07-py3",
            "resources": {"limits": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "privileged": False,
                "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "ports": [{"containerPort": 29500}],
        }
    ],
    "hostNetwork": False,
    "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
    "volumes": [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "scratch"}},
    ],
}


@pytest.mark.parametrize("kind", PLACES)
def test_training_pod_passes_in_any_object(ask: Ask, kind: str) -> None:
    assert ask(PODS, {"type": kind, "props": PLACES[kind](TRAINING)}) == []


def device_plugin(**changed: Any) -> Described:
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", **changed}
    pod = {
        "containers": [container],
        "hostNetwork": True,
        "volumes": [{"name": "p", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    }
    metadata = {"name": "nvidia-device-plugin", "namespace": "kube-system"}
    props = {"metadata": metadata, "spec": {"template": {"spec": pod}}}
    return {"type": "kubernetes:apps/v1:DaemonSet", "props": props}


def test_finding_names_the_container_and_the_property(ask: Ask) -> None:
    pod = {"initContainers": [{"name": "a"}, {"name": "b", "securityContext": {"privileged": UNKNOWN}}]}
    (found,) = ask(PODS, {"type": "kubernetes:core/v1:Pod", "props": {"spec": pod}})
    assert found.violation.prop == "spec.initContainers[1].securityContext.privileged"
    assert "not known yet" in found.message or "UNKNOWN" in found.message


@pytest.mark.parametrize(
    "props",
    [
        {"spec": {}, "status": {"containers": [{"securityContext": {"privileged": True}}]}},
        {"spec": {"containers": "privileged", "volumes": "hostPath"}},
        {"spec": {"containers": [], "volumes": ["hostPath", {"name": "v", "hostPath": None}]}},
        {"spec": {"containers": [], "securityContext": {"privileged": True}}},
        {"spec": {"containers": "text", "securityContext": {"privileged": True}}},
        {"spec": {"volumes": [{"name": "cache"}], "securityContext": {"privileged": True}}},
        {"metadata": {"annotations": "container.apparmor.security.beta.kubernetes.io/x"}},
        {"spec": {"local": {"path": "/"}}},
    ],
)
def test_object_that_creates_no_pod_passes(ask: Ask, props: dict[str, Any]) -> None:
    assert ask(PODS, {"type": "kubernetes:example.org/v1:Thing", "props": props}) == []
    pod = {"containers": [{"securityContext": {"privileged": True}}]}
    assert ask(PODS, {"type": "aws:ecs/service:Service", "props": {"spec": pod}}) == []


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": UNKNOWN},
        {"containers": [UNKNOWN]},
        {"containers": [{"name": "c"}], "volumes": UNKNOWN},
        {"containers": [{"name": "c"}], "volumes": [UNKNOWN]},
        {"volumes": [{"name": "v", "hostPath": {"path": UNKNOWN}}]},
    ],
)
def test_part_of_a_pod_that_is_not_known_is_found(ask: Ask, pod: dict[str, Any]) -> None:
    (found,) = ask(PODS, {"type": "kubernetes:core/v1:Pod", "props": {"spec": pod}})
    assert "not known yet" in found.message or "UNKNOWN" in found.message


def test_device_plugin_is_exempt_by_image_namespace_and_path(ask: Ask) -> None:
    assert ask(PODS, device_plugin()) == []
    eks = "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
    assert ask(PODS, device_plugin(image=eks)) == []
    assert ask(PODS, device_plugin(image=f"{eks}@sha256:{'0' * 64}")) == []
    for changed in (
        {"image": "evil.example/nvidia/k8s-device-plugin:v1"},
        {"image": "nvcr.io/nvidia/k8s-device-plugin.evil"},
        {"image": eks.replace("602401143452", "123456789012")},
        {"command": ["sh", "-c", "id"]},
        {"args": ["--config-file=/tmp/x"]},
        {"securityContext": {"privileged": True}},
    ):
        assert ask(PODS, device_plugin(**changed)), changed
    elsewhere = device_plugin()
    elsewhere["props"]["metadata"]["namespace"] = "team"
    assert ask(PODS, elsewhere)
    other_path = device_plugin()
    other_path["props"]["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = "/etc"
    assert ask(PODS, other_path)
    own_process = device_plugin()
    own_process["props"]["spec"]["template"]["spec"]["hostPID"] = True
    assert ask(PODS, own_process)
    assert ask(PODS, {**device_plugin(), "type": "kubernetes:apps/v1:Deployment"})
    empty = device_plugin()
    empty["props"]["spec"]["template"]["spec"]["containers"] = []
    assert ask(PODS, empty)
    written = device_plugin()
    written["props"]["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] += "/"
    assert ask(PODS, written) == []
    beside = device_plugin()
    beside["props"]["spec"]["template"]["spec"]["containers"].append({"name": "x", "image": "busybox"})
    assert ask(PODS, beside)


def test_only_aws_own_efa_plugin_may_be_privileged(ask: Ask) -> None:
    privileged = {"securityContext": {"privileged": True}}
    eks = "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
    assert ask(PODS, device_plugin(image=eks, **privileged)) == []
    assert ask(PODS, device_plugin(image=eks, **privileged), settings={"privileged_images": []})
    assert ask(PODS, device_plugin(image=eks, command=["sh"], **privileged))
    assert ask(PODS, device_plugin(image=eks.replace("602401143452", "123456789012"), **privileged))
    added = {"securityContext": {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}}
    assert ask(PODS, device_plugin(image=eks, **added))
    elsewhere = device_plugin(image=eks, **privileged)
    elsewhere["props"]["metadata"]["namespace"] = "team"
    assert ask(PODS, elsewhere)


@pytest.mark.parametrize("image", ["plugin", "plugin:v1", "team/plugin"])
def test_image_without_a_registry_is_compared_whole(ask: Ask, image: str) -> None:
    described = device_plugin(image=image)
    assert ask(PODS, described, settings={"images": [image.partition(":")[0]]}) == []
    assert ask(PODS, described, settings={"images": [""]})


@pytest.mark.parametrize("end", ["", ":v1", f"@sha256:{'0' * 64}", f":v1@sha256:{'0' * 64}"])
def test_image_is_compared_without_tag_and_with_the_port_of_its_registry(ask: Ask, end: str) -> None:
    image = "registry.example:5000/plugin"
    assert ask(PODS, device_plugin(image=f"{image}{end}"), settings={"images": [image]}) == []
    assert ask(PODS, device_plugin(image=f"{image}{end}"), settings={"images": ["registry.example"]})


def neuron_plugin(
    *paths: str, image: str = "public.ecr.aws/neuron/neuron-device-plugin:2.31.0.0"
) -> Described:
    plugin = device_plugin(image=image)
    pod = plugin["props"]["spec"]["template"]["spec"]
    pod.pop("hostNetwork")
    pod["volumes"] = [{"name": f"v{at}", "hostPath": {"path": path}} for at, path in enumerate(paths)]
    return plugin


def test_neuron_plugin_has_paths_of_its_own_and_no_network_of_the_host(ask: Ask) -> None:
    own = ("/var/lib/kubelet/device-plugins", "/run", "/opt/aws")
    assert ask(PODS, neuron_plugin(*own)) == []
    assert ask(PODS, neuron_plugin(*own, "/dev/infiniband"))
    assert ask(PODS, neuron_plugin(*own, image="evil.example/neuron/neuron-device-plugin:2.31.0.0"))
    on_host = neuron_plugin(*own)
    on_host["props"]["spec"]["template"]["spec"]["hostNetwork"] = True
    assert ask(PODS, on_host)


def test_paths_of_the_neuron_plugin_are_not_those_of_other_plugins(ask: Ask) -> None:
    for path in ("/run", "/opt/aws"):
        nvidia = device_plugin()
        nvidia["props"]["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = path
        assert ask(PODS, nvidia), path


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"hostPath": {"path": "/mnt/x"}}, True),
        ({"local": {"path": "/"}}, True),
        ({"local": {}}, True),
        ({"local": {"path": "/mnt"}}, True),
        ({"local": {"path": "/mnt/nvme"}}, False),
        ({"csi": {"driver": "fsx.csi.aws.com"}}, False),
    ],
)
def test_volume_with_a_path_of_the_host_is_found(ask: Ask, spec: dict[str, Any], found: bool) -> None:
    volume = {"type": "kubernetes:core/v1:PersistentVolume", "props": {"spec": spec}}
    assert bool(ask(PODS, volume)) == found


def binding(kind: str, name: Any, role: Any, *, type_: str = BINDING, **metadata: str) -> Described:
    props = {
        "metadata": metadata,
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "Group", "name": "fine"}, {"kind": kind, "name": name}],
    }
    return {"type": type_, "props": props}


@pytest.mark.parametrize("type_", [BINDING, ROLE_BINDING, f"{BINDING}Patch"])
@pytest.mark.parametrize(
    ("kind", "name", "role"),
    [
        ("User", "system:anonymous", "view"),
        ("Group", "system:unauthenticated", "system:discovery"),
        ("Group", "system:unauthenticated", "view"),
        ("Group", "system:authenticated", "edit"),
        ("Group", "system:authenticated", "mine"),
        ("Group", "system:serviceaccounts", "view"),
        ("Group", "system:masters", "view"),
        ("Group", "researchers", "cluster-admin"),
        ("ServiceAccount", "default", "cluster-admin"),
        ("Group", UNKNOWN, "view"),
        ("Group", "researchers", UNKNOWN),
    ],
)
def test_binding_that_gives_rights_of_others_is_found(
    ask: Ask, type_: str, kind: str, name: Any, role: Any
) -> None:
    assert ask(RBAC, binding(kind, name, role, type_=type_))


@pytest.mark.parametrize(
    ("described", "found"),
    [
        (binding("Group", "researchers", "edit"), True),
        (binding("Group", "researchers", "edit", type_=ROLE_BINDING, namespace="team"), False),
        (binding("Group", "researchers", "edit", type_=ROLE_BINDING, namespace="kube-system"), True),
        (binding("ServiceAccount", "x", "system:kube-controller-manager"), True),
        (binding("ServiceAccount", "metrics", "system:auth-delegator"), False),
        (binding("Group", "researchers", "view"), False),
        (binding("Group", "system:authenticated", "system:basic-user"), False),
        (binding("Group", "system:unauthenticated", "system:public-info-viewer"), False),
    ],
)
def test_binding_is_judged_by_role_and_namespace(ask: Ask, described: Described, found: bool) -> None:
    assert bool(ask(RBAC, described)) == found


@pytest.mark.parametrize(
    ("described", "found"),
    [
        (binding("ServiceAccount", "system:masters", "view"), False),
        (binding("User", "system:masters", "view"), True),
        (binding(UNKNOWN, "researchers", "view"), True),
        (binding("Group", " system:authenticated", "view"), True),
        (binding("Group", "system:authenticated", "system:public-info-viewer"), False),
        (binding("ServiceAccount", "x", "system:kube-controller-manager", type_=ROLE_BINDING), False),
        (binding("ServiceAccount", "x", "eks:addon-manager", type_=BINDING), True),
        (binding("Group", "researchers", "admin"), True),
        (binding("Group", "researchers", "mine"), False),
    ],
)
def test_binding_is_judged_by_the_kind_of_its_subject(ask: Ask, described: Described, found: bool) -> None:
    assert bool(ask(RBAC, described)) == found


def test_role_of_a_namespace_may_have_the_name_of_one_of_the_cluster(ask: Ask) -> None:
    own = binding("Group", "researchers", "cluster-admin", type_=ROLE_BINDING, namespace="team")
    assert ask(RBAC, own)
    own["props"]["roleRef"]["kind"] = "Role"
    assert ask(RBAC, own) == []


def test_administrators_are_listed_groups_and_no_one_else(ask: Ask) -> None:
    listed = {"groups": ["platform"]}
    nobody = binding("Group", "x", "cluster-admin")
    nobody["props"]["subjects"] = []
    assert ask(RBAC, nobody, settings=listed)
    for kind, name in (("ServiceAccount", "platform"), ("Group", "others"), ("Group", UNKNOWN)):
        beside = binding(kind, name, "cluster-admin")
        beside["props"]["subjects"][0]["name"] = "platform"
        assert "roleRef.name" in {each.violation.prop for each in ask(RBAC, beside, settings=listed)}


@pytest.mark.parametrize(
    ("name", "role", "prop"),
    [(UNKNOWN, "view", "subjects[1]"), ("researchers", UNKNOWN, "roleRef.name")],
)
def test_part_of_a_binding_that_is_not_known_is_reported_as_such(
    ask: Ask, name: Any, role: Any, prop: str
) -> None:
    (found,) = ask(RBAC, binding("Group", name, role))
    assert (found.violation.prop, found.violation.unknown) == (prop, True)
    (known,) = ask(RBAC, binding("Group", "system:masters", "view"))
    assert not known.violation.unknown


def test_group_of_administrators_may_be_listed(ask: Ask) -> None:
    props = {
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "name": "platform"}],
    }
    described = {"type": BINDING, "props": props}
    assert ask(RBAC, described)
    assert ask(RBAC, described, settings={"groups": ["platform"]}) == []


def role(rule: dict[str, Any], *, type_: str = CLUSTER_ROLE, **metadata: str) -> Described:
    return {"type": type_, "props": {"metadata": metadata, "rules": [rule]}}


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},
        {"apiGroups": ["*"], "resources": ["pods", "Secrets"], "verbs": ["watch"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["escalate"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["Bind"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
        {
            "apiGroups": [""],
            "resources": ["groups"],
            "verbs": ["impersonate"],
            "resourceNames": ["system:masters"],
        },
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests/approval"],
            "verbs": ["update"],
        },
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": UNKNOWN, "verbs": ["get"]},
    ],
)
def test_role_that_gives_rights_of_others_is_found(ask: Ask, rule: dict[str, Any]) -> None:
    assert ask(RBAC, role(rule))
    assert ask(
        RBAC, role(rule, type_="kubernetes:rbac.authorization.k8s.io/v1:Role", namespace="kube-system")
    )


RBAC_GROUP = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("groups", "kinds", "verbs", "reason"),
    [
        (["certificates.k8s.io"], ["*"], ["*"], "gives everything"),
        ([RBAC_GROUP], ["roles"], ["*"], "gives everything"),
        ([""], ["secrets"], ["*"], "reads all secrets"),
        ([""], ["secret*"], ["get"], "reads all secrets"),
        ([""], ["pods/attach"], ["get"], "gives pods/attach, and with it the rights of other pods"),
        (["apps"], ["*"], ["*"], "writes deployments, and with them runs code as any service account"),
        (["batch"], ["cronjobs"], ["patch"], "writes cronjobs, and with them runs code as any"),
        ([""], ["persistentvolumes"], ["create"], "creates volumes with paths of any node"),
        ([""], ["namespaces"], ["update"], "changes the profiles of pod security of namespaces"),
        (["apiregistration.k8s.io"], ["any"], ["*"], "writes API services"),
        (
            ["certificates.k8s.io"],
            ["certificatesigningrequests/approval"],
            ["patch"],
            "approves certificates",
        ),
        (["certificates.k8s.io"], ["signers"], ["approve"], "approves certificates for any user"),
        ([RBAC_GROUP], ["clusterroles"], ["bind"], "gives bind, and with it rights"),
    ],
)
def test_finding_says_what_a_rule_of_a_role_gives(
    ask: Ask, groups: list[str], kinds: list[str], verbs: list[str], reason: str
) -> None:
    (found, *more) = ask(RBAC, role({"apiGroups": groups, "resources": kinds, "verbs": verbs}))
    assert reason in found.message
    assert more == []


@pytest.mark.parametrize(
    "rule",
    [
        {
            "apiGroups": [RBAC_GROUP],
            "resources": ["clusterroles"],
            "verbs": ["bind"],
            "resourceNames": ["view"],
        },
        {"apiGroups": [RBAC_GROUP], "nonResourceURLs": ["/healthz"], "verbs": ["*"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "nonResourceURLs": ["/x"], "verbs": ["create"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["pods", "secrets", "pods/exec"], "verbs": ["create", "get"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["delete"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["list", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["update"]},
        {"apiGroups": ["volumes"], "resources": ["persistentvolumes"], "verbs": ["create"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests"],
            "verbs": ["update"],
        },
    ],
)
def test_role_that_gives_only_its_own_objects_passes(ask: Ask, rule: dict[str, Any]) -> None:
    assert ask(RBAC, role(rule)) == []


@pytest.mark.parametrize("name", ["cluster-admin", "edit", "*"])
def test_role_that_binds_the_role_of_an_administrator_is_found(ask: Ask, name: str) -> None:
    binds = {
        "apiGroups": [RBAC_GROUP],
        "resources": ["clusterroles"],
        "verbs": ["bind"],
        "resourceNames": [name],
    }
    kind = "kubernetes:rbac.authorization.k8s.io/v1:Role"
    assert ask(RBAC, role(binds, type_=kind, namespace="team"))


def test_role_inside_a_namespace_may_read_its_secrets(ask: Ask) -> None:
    reads = {"apiGroups": [""], "resources": ["secrets", "pods/exec"], "verbs": ["get", "create"]}
    kind = "kubernetes:rbac.authorization.k8s.io/v1:Role"
    assert ask(RBAC, role(reads, type_=kind, namespace="team")) == []
    assert ask(RBAC, role(reads, type_=kind, namespace="kube-system"))


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["webhook-cert"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests/approval"],
            "verbs": ["get"],
        },
    ],
)
def test_role_of_a_controller_passes(ask: Ask, rule: dict[str, Any]) -> None:
    assert ask(RBAC, role(rule)) == []


def test_role_inside_a_namespace_may_have_all_of_it(ask: Ask) -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    kind = "kubernetes:rbac.authorization.k8s.io/v1:Role"
    assert ask(RBAC, role(everything, type_=kind, namespace="team")) == []
    escalates = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]}
    assert ask(RBAC, role(escalates, type_=kind, namespace="team"))


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, True),
        ({"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}, True),
        ({"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}, True),
        ({"matchLabels": None, "matchExpressions": []}, True),
        (UNKNOWN, True),
        ({"matchLabels": {"atlas.example/aggregate": "true"}}, False),
        ({"matchExpressions": [{"key": "atlas.example/aggregate", "operator": "Exists"}]}, False),
    ],
)
def test_aggregated_role_takes_rules_of_listed_roles_only(ask: Ask, selector: Any, found: bool) -> None:
    described = {"type": CLUSTER_ROLE, "props": {"aggregationRule": {"clusterRoleSelectors": [selector]}}}
    assert bool(ask(RBAC, described)) == found


@pytest.mark.parametrize(("groups", "found"), [("system:masters", True), ("researchers", False)])
def test_map_of_the_older_access_mode_is_read(ask: Ask, groups: str, found: bool) -> None:
    data = {"mapRoles": f"- rolearn: arn:aws:iam::123456789012:role/x\n  groups:\n  - {groups}\n"}
    props = {"metadata": {"name": "aws-auth", "namespace": "kube-system"}, "data": data}
    assert bool(ask(RBAC, {"type": "kubernetes:core/v1:ConfigMap", "props": props})) == found
    assert ask(RBAC, {"type": "kubernetes:core/v1:Secret", "props": props}) == []
    other = {**props, "metadata": {"name": "other", "namespace": "kube-system"}}
    assert ask(RBAC, {"type": "kubernetes:core/v1:ConfigMap", "props": other}) == []


@pytest.mark.parametrize(
    ("name", "labels", "found"),
    [
        ("team", {"pod-security.kubernetes.io/enforce": "baseline"}, False),
        ("team", {"pod-security.kubernetes.io/enforce": "restricted"}, False),
        ("team", {"pod-security.kubernetes.io/enforce": "privileged"}, True),
        ("team", {"pod-security.kubernetes.io/enforce": "Baseline"}, True),
        ("team", {"pod-security.kubernetes.io/warn": "baseline"}, True),
        ("team", {"pod-security.kubernetes.io/enforce": UNKNOWN}, True),
        ("team", UNKNOWN, True),
        ("team", None, True),
        ("gpu-operator", None, False),
        (UNKNOWN, None, True),
    ],
)
def test_namespace_enforces_a_profile(ask: Ask, name: Any, labels: Any, found: bool) -> None:
    metadata = {"name": name, "labels": labels}
    for kind in ("Namespace", "NamespacePatch"):
        described = {"type": f"kubernetes:core/v1:{kind}", "props": {"metadata": metadata}}
        assert bool(ask(NAMESPACES, described)) == found


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ({"pod-security.kubernetes.io/enforce": "privileged"}, "is 'privileged', and"),
        ({}, "is not set, and"),
        ("text", "is not set, and"),
        (UNKNOWN, "is not known yet, and"),
    ],
)
def test_message_shows_the_profile(ask: Ask, labels: Any, shown: str) -> None:
    described = {"type": "kubernetes:core/v1:Namespace", "props": {"metadata": {"labels": labels}}}
    (found,) = ask(NAMESPACES, described)
    assert shown in found.message
    assert found.violation.unknown == (labels is UNKNOWN)


def test_profile_under_ignore_changes_is_none(ask: Ask) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    described = {"type": "kubernetes:core/v1:Namespace", "props": {"metadata": {"labels": labels}}}
    assert ask(NAMESPACES, {**described, "options": {"ignoreChanges": ["metadata.labels"]}})


def test_namespace_of_another_group_has_no_profile(ask: Ask) -> None:
    assert ask(NAMESPACES, {"type": "kubernetes:example.org/v1:Namespace", "props": {}}) == []
    assert ask(NAMESPACES, {"type": "kubernetes:core/v1:Pod", "props": {}}) == []


PLATFORM = "arn:aws:iam::123456789012:role/platform"


def entry(policy: str, principal: Any, scope: str = "cluster") -> Described:
    props = {
        "principalArn": principal,
        "policyArn": f"arn:aws:eks::aws:cluster-access-policy/{policy}",
        "accessScope": {"type": scope, "namespaces": ["team"]},
    }
    return {"type": "aws:eks/accessPolicyAssociation:AccessPolicyAssociation", "props": props}


@pytest.mark.parametrize(
    ("policy", "scope", "found"),
    [
        ("AmazonEKSClusterAdminPolicy", "cluster", True),
        ("amazoneksclusteradminpolicy", "namespace", True),
        ("AmazonEKSAdminPolicy", "cluster", True),
        ("AmazonEKSEditPolicy", "cluster", True),
        ("AmazonEKSEditPolicy", "namespace", False),
        ("AmazonEKSViewPolicy", "cluster", False),
    ],
)
def test_administrator_outside_the_fleet_file_is_found(
    ask: Ask, policy: str, scope: str, found: bool
) -> None:
    assert bool(ask(ADMINS, entry(policy, PLATFORM, scope))) == found
    assert ask(ADMINS, entry(policy, PLATFORM, scope), settings={"principals": [PLATFORM]}) == []
    assert (
        bool(ask(ADMINS, entry(policy, f"{PLATFORM}2", scope), settings={"principals": [PLATFORM]})) == found
    )


def test_unknown_principal_is_that_of_its_entry(ask: Ask) -> None:
    access = {"type": "aws:eks/accessEntry:AccessEntry", "name": "who", "props": {"principalArn": PLATFORM}}
    hidden = {**entry("AmazonEKSClusterAdminPolicy", UNKNOWN), "depends": {"principalArn": ["who"]}}
    assert ask(ADMINS, access, hidden, settings={"principals": [PLATFORM]}) == []
    (found,) = ask(ADMINS, access, hidden)
    assert not found.violation.unknown
    assert ask(ADMINS, entry("AmazonEKSClusterAdminPolicy", UNKNOWN))[0].violation.unknown


def test_unknown_principal_of_several_entries_is_not_known(ask: Ask) -> None:
    entries = [
        {"type": "aws:eks/accessEntry:AccessEntry", "name": name, "props": {"principalArn": PLATFORM}}
        for name in ("who", "other")
    ]
    hidden = {**entry("AmazonEKSClusterAdminPolicy", UNKNOWN), "depends": {"principalArn": ["who", "other"]}}
    (found,) = ask(ADMINS, *entries, hidden, settings={"principals": [PLATFORM]})
    assert found.violation.unknown


def test_known_principal_is_judged_and_not_the_entry_that_it_depends_on(ask: Ask) -> None:
    access = {"type": "aws:eks/accessEntry:AccessEntry", "name": "who", "props": {"principalArn": PLATFORM}}
    other = entry("AmazonEKSClusterAdminPolicy", f"{PLATFORM}2")
    depends = {**other, "depends": {"principalArn": ["who"]}}
    assert ask(ADMINS, access, depends, settings={"principals": [PLATFORM]})


@pytest.mark.parametrize("scheduler", ["kubernetes", "slurm"])
def test_administrator_of_the_fleet_file_passes(ask: Ask, scheduler: str) -> None:
    site = {
        "site": "use1",
        "provider": "aws",
        "region": "us-east-1",
        "zones": ["us-east-1a", "us-east-1b"],
        "network": {"cidr": "10.0.0.0/16"},
        "scheduler": scheduler,
        **({"kubernetes": {"admins": [PLATFORM]}} if scheduler == "kubernetes" else {}),
        "node_groups": [
            {"name": "g", "instance_types": ["g6.xlarge"], "capacity": {"on_demand": {"max": 1}}}
        ],
    }
    fleet = {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "dev",
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "a", "cost-center": "b", "project": "c"},
        "cloud": [site],
        "software": {"channel": "2026.11"},
    }
    found = ask(ADMINS, entry("AmazonEKSClusterAdminPolicy", PLATFORM), fleet=fleet)
    assert (found == []) is (scheduler == "kubernetes")


def test_policy_that_is_not_known_may_be_the_administrators(ask: Ask) -> None:
    hidden = entry("AmazonEKSViewPolicy", PLATFORM, "namespace")
    hidden["props"]["policyArn"] = UNKNOWN
    assert ask(ADMINS, hidden)


def test_entry_in_groups_of_the_fleet_passes(ask: Ask) -> None:
    props = {"principalArn": PLATFORM, "kubernetesGroups": ["researchers"]}
    assert ask(ADMINS, {"type": "aws:eks/accessEntry:AccessEntry", "props": props}) == []


def test_cluster_whose_access_mode_may_change_outside_is_found(ask: Ask) -> None:
    mode = "accessConfig.authenticationMode"
    cluster = {"type": "aws:eks/cluster:Cluster", "props": {"accessConfig": {"authenticationMode": "api"}}}
    assert ask(ADMINS, cluster) == []
    assert ask(ADMINS, {**cluster, "options": {"ignoreChanges": [mode]}})


@pytest.mark.parametrize("group", ["system:masters", "System:Masters", UNKNOWN])
def test_entry_in_a_group_of_the_system_is_found(ask: Ask, group: Any) -> None:
    props = {"principalArn": PLATFORM, "kubernetesGroups": ["researchers", group]}
    assert ask(ADMINS, {"type": "aws:eks/accessEntry:AccessEntry", "props": props})


@pytest.mark.parametrize("mode", ["API_AND_CONFIG_MAP", "CONFIG_MAP", None, UNKNOWN])
def test_cluster_with_the_older_access_mode_is_found(ask: Ask, mode: Any) -> None:
    cluster = {"type": "aws:eks/cluster:Cluster", "props": {"accessConfig": {"authenticationMode": mode}}}
    assert ask(ADMINS, cluster)
