"""Neuron's device plugin and scheduler: on nodes with devices, without rights that they do not need."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.components.cluster_base import ClusterBase, ClusterBaseArgs, NeuronArgs, TeamArgs
from gpufleet.components.neuron import NEURON_IMAGE
from gpufleet.components.neuron_scheduler import EXTENSION_IMAGE, scheduler_configuration
from gpufleet.components.node_group import (
    AutoScalingNodesArgs,
    EksNodesArgs,
    NodeGroup,
    NodeGroupArgs,
    NodeImageArgs,
)
from gpufleet.errors import InputError
from gpufleet.kinds import KUBE_SCHEDULER
from tests.unit.components.recording import Recording, record

KUBE = f"{KUBE_SCHEDULER}:v1.35.4"
NEURON = NeuronArgs(version="2.31.0.0", scheduler_image=KUBE)


def base(neuron: NeuronArgs | None = NEURON, **changes: Any) -> Recording:
    args: dict[str, Any] = {
        "teams": [TeamArgs(name="research", gpus=4, neuron_devices=16)],
        "region": "us-east-1",
        "neuron": neuron,
        "taint_keys": ["nvidia.com/gpu", "aws.amazon.com/neuron"],
    }
    return record(lambda: ClusterBase("base", ClusterBaseArgs(**args | changes)))


def pod(built: Recording, kind: str, name: str) -> Any:
    (found,) = [each for each in built.of(kind) if each.inputs["metadata"]["name"] == name]
    return found.inputs["spec"]["template"]["spec"]


def test_plugin_runs_on_nodes_with_devices_and_tolerates_their_taint() -> None:
    plugin = pod(base(), "DaemonSet", "neuron-device-plugin")
    (term,) = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": "gpufleet.io/neuron", "operator": "Exists"}]
    assert "aws.amazon.com/neuron" in {each["key"] for each in plugin["tolerations"]}
    (container,) = plugin["containers"]
    assert container["image"] == f"{NEURON_IMAGE}:2.31.0.0"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "hostNetwork" not in plugin


def test_efa_plugin_of_neuron_nodes_reads_their_devices() -> None:
    built = base(efa=True)
    of_neuron, other = (pod(built, "DaemonSet", f"efa-device-plugin{each}") for each in ("-neuron", ""))
    assert operators(of_neuron) == {"gpufleet.io/efa": "Exists", "gpufleet.io/neuron": "Exists"}
    assert operators(other) == {"gpufleet.io/efa": "Exists", "gpufleet.io/neuron": "DoesNotExist"}
    contexts = [each["containers"][0]["securityContext"] for each in (of_neuron, other)]
    assert contexts[0] == {"privileged": True, "runAsUser": 0}
    assert "privileged" not in contexts[1]
    tools = {"name": "neuron-tools", "hostPath": {"path": "/opt/aws/neuron/", "type": "DirectoryOrCreate"}}
    assert tools in of_neuron["volumes"] and tools not in other["volumes"]
    assert operators(pod(base(None, efa=True), "DaemonSet", "efa-device-plugin")) == {
        "gpufleet.io/efa": "Exists"
    }


def operators(plugin: Any) -> dict[str, str]:
    affinity = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    return {each["key"]: each["operator"] for each in term["matchExpressions"]}


def test_other_plugins_have_no_token_beside_neurons() -> None:
    built = base(efa=True)
    tokens = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]["template"]["spec"][
            "automountServiceAccountToken"
        ]
        for each in built.of("DaemonSet")
    }
    assert tokens == {
        "nvidia-device-plugin": False,
        "efa-device-plugin": False,
        "efa-device-plugin-neuron": False,
        "neuron-device-plugin": True,
    }


def test_second_scheduler_and_extension_never_run_beside_the_first() -> None:
    strategies = [each.inputs["spec"]["strategy"] for each in base().of("Deployment")]
    assert strategies == [{"type": "Recreate"}] * 2


def test_scheduler_and_extension_run_on_system_nodes_without_privileges() -> None:
    built = base()
    images = {}
    for name in ("neuron-scheduler", "neuron-scheduler-extension"):
        spec = pod(built, "Deployment", name)
        (container,) = spec["containers"]
        images[name] = container["image"]
        assert spec["nodeSelector"] == {"gpufleet.io/node-group": "system"}
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "hostNetwork" not in spec
    assert images == {
        "neuron-scheduler": KUBE,
        "neuron-scheduler-extension": f"{EXTENSION_IMAGE}:2.31.0.0",
    }


def test_scheduler_asks_the_extension_about_neuron_devices_only() -> None:
    (config,) = base().of("ConfigMap")
    assert config.inputs["data"]["config.yaml"] == scheduler_configuration()
    document = json.loads(scheduler_configuration())
    assert [each["schedulerName"] for each in document["profiles"]] == ["neuron-scheduler"]
    (extender,) = document["extenders"]
    assert extender["urlPrefix"] == "http://neuron-scheduler-extension.kube-system.svc:12345"
    assert {each["name"] for each in extender["managedResources"]} == {
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
    }
    assert extender["ignorable"] is False


def test_only_the_scheduler_reaches_the_extension() -> None:
    built = base()
    (policy,) = [
        each.inputs["spec"]
        for each in built.of("NetworkPolicy")
        if each.inputs["metadata"]["name"] == "neuron-scheduler-extension"
    ]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "neuron-scheduler"}}}]
    assert rule["ports"] == [{"port": 12345, "protocol": "TCP"}]


def test_no_role_gives_the_rights_of_other_pods() -> None:
    for role in base().of("ClusterRole"):
        for rule in role.inputs["rules"]:
            assert "*" not in {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
            assert not {"secrets", "nodes/proxy", "pods/exec"} & set(rule["resources"])


def test_quota_counts_whole_devices_and_allows_no_single_cores() -> None:
    (quota,) = [
        each.inputs["spec"]["hard"]
        for each in base().of("ResourceQuota")
        if each.inputs["metadata"]["name"] == "neuron"
    ]
    assert quota == {"requests.aws.amazon.com/neuron": "16", "requests.aws.amazon.com/neuroncore": "0"}


def test_cluster_without_neuron_devices_has_nothing_of_it() -> None:
    names = {each.inputs["metadata"]["name"] for each in base(None).of("DaemonSet")}
    assert names == {"nvidia-device-plugin"}
    assert base(None).of("Deployment") == base(None).of("ClusterRole") == []
    assert "neuron" not in {each.inputs["metadata"]["name"] for each in base(None).of("ResourceQuota")}


def test_plugin_alone_comes_without_a_scheduler() -> None:
    built = base(NeuronArgs(version="2.31.0.0"))
    assert built.of("Deployment") == built.of("ConfigMap") == []
    assert pod(built, "DaemonSet", "neuron-device-plugin")


def test_own_registry_replaces_all_images() -> None:
    own = {
        NEURON_IMAGE: "r.test/plugin:1",
        EXTENSION_IMAGE: "r.test/extension:1",
        KUBE_SCHEDULER: "r.test/s:1",
    }
    built = base(images=own)
    found = {
        container["image"]
        for kind, name in (
            ("DaemonSet", "neuron-device-plugin"),
            ("Deployment", "neuron-scheduler"),
            ("Deployment", "neuron-scheduler-extension"),
        )
        for container in pod(built, kind, name)["containers"]
    }
    assert found == set(own.values())


def nodes(
    name: str, ami_type: str = "AL2023_x86_64_STANDARD", image: NodeImageArgs | None = None
) -> Recording:
    eks = EksNodesArgs(
        cluster_name="c", node_role_arn="arn:aws:iam::1:role/r", ami_type=ami_type, image=image
    )
    args = NodeGroupArgs(
        instance_types=[name],
        min_size=0,
        max_size=1,
        subnet_ids=["subnet-1"],
        security_group_ids=["sg-1"],
        eks=eks,
        tags={"team": "ml"},
    )
    return record(lambda: NodeGroup("n", args))


@pytest.mark.parametrize(
    ("name", "ami_type"),
    [
        ("m7g.large", "AL2023_ARM_64_STANDARD"),
        ("trn1.32xlarge", "AL2023_x86_64_NEURON"),
        ("m99z.large", "AL2023_ARM_64_STANDARD"),
    ],
)
def test_group_takes_the_image_type_of_its_processors(name: str, ami_type: str) -> None:
    assert nodes(name, ami_type).one("aws:eks/nodeGroup:NodeGroup", "n").inputs["amiType"] == ami_type


@pytest.mark.parametrize(
    ("name", "ami_type", "parameter"),
    [
        ("m7g.large", "AL2023_x86_64_STANDARD", None),
        ("trn1.32xlarge", "AL2023_ARM_64_STANDARD", None),
        (
            "m7g.large",
            "CUSTOM",
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id",
        ),
    ],
)
def test_group_with_an_image_for_other_processors_is_refused(
    name: str, ami_type: str, parameter: str | None
) -> None:
    image = NodeImageArgs(parameter=parameter) if parameter else None
    with pytest.raises(InputError, match=f"{name} is .*, and its image is for"):
        nodes(name, ami_type, image)


def test_auto_scaling_group_with_an_image_for_other_processors_is_refused() -> None:
    image = NodeImageArgs(parameter="/aws/service/deeplearning/ami/arm64/base/latest/ami-id")
    args = NodeGroupArgs(
        instance_types=["trn1.2xlarge"],
        min_size=0,
        max_size=1,
        subnet_ids=["subnet-1"],
        security_group_ids=["sg-1"],
        auto_scaling=AutoScalingNodesArgs(instance_profile_arn="arn:aws:iam::1:role/r", image=image),
        tags={"team": "ml"},
    )
    with pytest.raises(InputError, match="its image is for arm64"):
        record(lambda: NodeGroup("n", args))
