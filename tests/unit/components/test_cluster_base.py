"""ClusterBase: enforced quotas and priorities, device plugins on nodes with devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.catalog.eks_registries import REGISTRY_ACCOUNTS
from gpufleet.components.cluster_base import (
    PRIORITIES,
    ClusterBase,
    ClusterBaseArgs,
    SharedGpusArgs,
    TeamArgs,
)
from gpufleet.components.device_plugins import EFA_IMAGE
from gpufleet.errors import InputError
from tests.unit.components.recording import Recording, record

TEAMS = [TeamArgs(name="research", gpus=16), TeamArgs(name="serving", gpus=2, priority="high")]


def base(**changes: Any) -> Recording:
    args: dict[str, Any] = {"teams": TEAMS, "region": "us-east-1"}
    return record(lambda: ClusterBase("base", ClusterBaseArgs(**args | changes)))


def in_namespace(built: Recording, kind: str, namespace: str) -> list[Any]:
    return [r.inputs for r in built.of(kind) if r.inputs["metadata"]["namespace"] == namespace]


def test_each_team_has_a_namespace_with_a_quota_on_its_gpus() -> None:
    built = base()
    assert {n.inputs["metadata"]["name"] for n in built.of("Namespace")} == {"research", "serving"}
    hard = [q["spec"]["hard"] for q in in_namespace(built, "ResourceQuota", "research")]
    assert {"requests.nvidia.com/gpu": "16"} in hard


def test_team_cannot_use_a_priority_above_its_own() -> None:
    built = base()
    (refusing,) = [
        q["spec"] for q in in_namespace(built, "ResourceQuota", "research") if "scopeSelector" in q["spec"]
    ]
    assert refusing["hard"] == {"pods": "0"}
    (expression,) = refusing["scopeSelector"]["matchExpressions"]
    system = ["system-cluster-critical", "system-node-critical"]
    assert expression["values"] == ["gpufleet-high", *system]
    (highest,) = [
        q["spec"] for q in in_namespace(built, "ResourceQuota", "serving") if "scopeSelector" in q["spec"]
    ]
    assert highest["hard"] == {"pods": "0"}
    assert highest["scopeSelector"]["matchExpressions"][0]["values"] == system


def test_container_without_resources_gets_a_request_and_no_limit() -> None:
    (limits,) = in_namespace(base(), "LimitRange", "research")
    assert limits["spec"]["limits"] == [
        {"type": "Container", "defaultRequest": {"cpu": "1", "memory": "4Gi"}}
    ]


def test_no_priority_class_is_the_default_or_above_those_of_kubernetes() -> None:
    classes = base().of("PriorityClass")
    assert {c.inputs["value"] for c in classes} == set(PRIORITIES.values())
    assert not any(c.inputs["globalDefault"] for c in classes)
    assert max(PRIORITIES.values()) < 1_000_000_000


def test_pod_security_is_enforced_in_every_team_namespace() -> None:
    for namespace in base().of("Namespace"):
        assert namespace.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"


def test_namespace_is_reachable_only_from_inside() -> None:
    (policy,) = in_namespace(base(), "NetworkPolicy", "research")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]


def test_serving_team_lists_who_else_can_reach_its_pods() -> None:
    team = TeamArgs(name="serving", gpus=2, ingress_namespaces=["ingress"], ingress_cidrs=["10.0.0.0/20"])
    (policy,) = in_namespace(base(teams=[team]), "NetworkPolicy", "serving")
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}},
        {"ipBlock": {"cidr": "10.0.0.0/20"}},
    ]


def test_nvidia_plugin_runs_on_gpu_nodes_and_tolerates_their_taints() -> None:
    plugin = base(taint_keys=["nvidia.com/gpu", "team"]).one("DaemonSet").inputs
    pod = plugin["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    assert {t["key"] for t in pod["tolerations"]} >= {"nvidia.com/gpu", "team"}
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "gpufleet.io/gpu", "operator": "Exists"}]


SLICED = SharedGpusArgs(name="time-slicing-4", text='{"version": "v1"}')


def requirements(plugin: Mapping[str, Any]) -> Any:
    """What the labels of a plugin's nodes must be."""
    affinity = plugin["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return term["matchExpressions"]


def test_each_gpu_node_has_one_plugin_with_the_configuration_of_its_group() -> None:
    built = base(shared_gpus=[SLICED])
    plugins = {each.inputs["metadata"]["name"]: each.inputs for each in built.of("DaemonSet")}
    shared = "nvidia-device-plugin-time-slicing-4"
    gpu = {"key": "gpufleet.io/gpu", "operator": "Exists"}
    label = "gpufleet.io/gpu-sharing"
    assert requirements(plugins["nvidia-device-plugin"]) == [gpu, {"key": label, "operator": "DoesNotExist"}]
    assert requirements(plugins[shared]) == [
        gpu,
        {"key": label, "operator": "In", "values": ["time-slicing-4"]},
    ]
    assert built.one("ConfigMap").inputs["data"] == {"config.yaml": SLICED.text}
    pod = plugins[shared]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "CONFIG_FILE", "value": "/config/config.yaml"} in container["env"]
    assert {"name": "config", "mountPath": "/config", "readOnly": True} in container["volumeMounts"]
    assert {"name": "config", "configMap": {"name": shared}} in pod["volumes"]


def test_gpu_operator_gets_the_configurations_and_divides_gpus() -> None:
    values = base(gpu_stack="gpu-operator").one("Release").inputs["values"]
    assert not {"devicePlugin", "mig", "migManager"} & values.keys()
    mig = {"share_resources": ["nvidia.com/mig-1g.10gb"]}
    values = base(gpu_stack="gpu-operator", shared_gpus=[SLICED], **mig).one("Release").inputs["values"]
    config = values["devicePlugin"]["config"]
    assert config["data"] == {"default": '{"version": "v1"}', "time-slicing-4": SLICED.text}
    assert config["default"] == "default" and config["create"] is True
    assert values["mig"] == {"strategy": "mixed"}
    assert values["migManager"] == {"env": [{"name": "WITH_REBOOT", "value": "true"}]}


def test_shares_have_a_quota_of_their_own_where_there_are_some() -> None:
    team = TeamArgs(name="research", gpus=2, gpu_shares=6)

    def quotas(**args: Any) -> dict[str, Any]:
        found = in_namespace(base(teams=[team], **args), "ResourceQuota", "research")
        return {each["metadata"]["name"]: each["spec"].get("hard") for each in found}

    assert "gpu-shares" not in quotas()
    assert quotas(share_resources=["nvidia.com/gpu.shared"])["gpu-shares"] == {
        "requests.nvidia.com/gpu.shared": "6"
    }


def test_device_plugins_are_unprivileged_and_have_no_token() -> None:
    for plugin in base(efa=True, shared_gpus=[SLICED]).of("DaemonSet"):
        pod = plugin.inputs["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        context = pod["containers"][0]["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context


def test_efa_plugin_exists_only_with_efa() -> None:
    assert [d.inputs["metadata"]["name"] for d in base().of("DaemonSet")] == ["nvidia-device-plugin"]
    built = base(efa=True, region="eu-west-1")
    (efa,) = [d for d in built.of("DaemonSet") if d.inputs["metadata"]["name"] == "efa-device-plugin"]
    image = efa.inputs["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.startswith("602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/")
    assert image.endswith(":v0.5.20")


def efa_image(**changes: Any) -> str:
    plugins = base(efa=True, **changes).of("DaemonSet")
    (efa,) = [d for d in plugins if d.inputs["metadata"]["name"] == "efa-device-plugin"]
    return str(efa.inputs["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("ap-southeast-3", "296578399912.dkr.ecr.ap-southeast-3.amazonaws.com/"),
        ("ap-south-2", "900889452093.dkr.ecr.ap-south-2.amazonaws.com/"),
        ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/"),
    ],
)
def test_efa_plugin_image_comes_from_the_registry_of_its_region(region: str, registry: str) -> None:
    assert efa_image(region=region).startswith(registry)


def test_every_region_of_the_catalog_has_a_registry() -> None:
    catalog = load_catalog()
    regions = {*catalog.regions, *(r for item in catalog.instances.values() for r in item.regions)}
    assert regions
    assert regions <= REGISTRY_ACCOUNTS.keys()


def test_unknown_registry_needs_an_explicit_image() -> None:
    with pytest.raises(InputError, match="region xx-north-1: the registry") as refused:
        efa_image(region="xx-north-1")
    assert refused.value.remedy is not None
    assert EFA_IMAGE in refused.value.remedy
    own = "registry.test/efa:v0.5.20"
    assert efa_image(region="xx-north-1", images={EFA_IMAGE: own}) == own


def test_every_image_is_pinned_to_a_version() -> None:
    for plugin in base(efa=True).of("DaemonSet"):
        for container in plugin.inputs["spec"]["template"]["spec"]["containers"]:
            tag = container["image"].rpartition(":")[2]
            assert tag.startswith("v")


def test_gpu_operator_replaces_the_plugin_and_installs_no_second_driver() -> None:
    built = base(gpu_stack="gpu-operator")
    assert built.of("DaemonSet") == []
    release = built.one("Release").inputs
    assert release["version"] == "v26.7.0"
    assert release["values"]["driver"] == {"enabled": False}
    assert release["values"]["toolkit"] == {"enabled": False}


def test_plugins_run_without_teams_and_namespaces() -> None:
    built = base(teams=[])
    assert built.of("Namespace") == built.of("ResourceQuota") == []
    assert len(built.of("DaemonSet")) == 1
