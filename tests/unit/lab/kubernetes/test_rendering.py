"""Without an API server: manifests in a folder, with the same life as objects on a server."""

from __future__ import annotations

import stat

import grpc
import pytest
import yaml

from tests.unit.lab.aws.provider.driver import CheckError

NAMESPACE = "kubernetes:core/v1:Namespace"
QUOTA = "kubernetes:core/v1:ResourceQuota"
SECRET = "kubernetes:core/v1:Secret"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
RELEASE = "kubernetes:helm.sh/v3:Release"

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def quota(gpus: str = "16", **meta):
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "research", **meta},
        "spec": {"hard": {"requests.nvidia.com/gpu": gpus}},
    }


def files(sandbox):
    folder = sandbox / "manifests" / "test"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def load(sandbox, name):
    return yaml.safe_load((sandbox / "manifests" / "test" / name).read_text())


def test_object_becomes_a_manifest_that_only_its_owner_can_read(rendering, sandbox):
    made = rendering.create(QUOTA, "gpus", quota())
    assert made.id == "research/gpus"
    assert made.state["spec"] == {"hard": {"requests.nvidia.com/gpu": "16"}}
    assert files(sandbox) == ["resourcequota_research_gpus.yaml"]
    assert load(sandbox, files(sandbox)[0]) == quota()
    mode = (sandbox / "manifests" / "test" / files(sandbox)[0]).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_child_of_a_component_is_handled_by_its_own_type(rendering):
    made = rendering.create(
        f"gpufleet:kubernetes:ClusterBase${NAMESPACE}", "team", {"metadata": {"name": "a"}}
    )
    assert made.inputs["kind"] == "Namespace"
    assert rendering.refresh(made)
    rendering.delete(made)


def test_preview_writes_nothing_and_knows_the_name(rendering, sandbox):
    planned = rendering.preview(NAMESPACE, "team", {"metadata": {"name": "research"}})
    assert planned["metadata"]["name"] == "research"
    assert planned["status"] == UNKNOWN
    assert files(sandbox) == []


def test_cluster_scoped_object_has_no_namespace_in_its_id_or_file(rendering, sandbox):
    made = rendering.create(PRIORITY, "high", {"metadata": {"name": "gpufleet-high"}, "value": 100000})
    assert made.id == "gpufleet-high"
    assert files(sandbox) == ["priorityclass_gpufleet-high.yaml"]
    assert load(sandbox, files(sandbox)[0])["value"] == 100000


def test_object_without_a_namespace_uses_default_explicitly(rendering, sandbox):
    made = rendering.create(
        "kubernetes:core/v1:ConfigMap", "settings", {"metadata": {"name": "a"}, "data": {"k": "on"}}
    )
    assert made.id == "default/a"
    found = load(sandbox, "configmap_default_a.yaml")
    assert found["metadata"] == {"name": "a", "namespace": "default"}
    assert found["data"] == {"k": "on"}


def test_objects_with_ambiguous_joined_names_have_separate_files(rendering, sandbox):
    for namespace, name in (("a-b", "c"), ("a", "b-c")):
        rendering.create(
            "kubernetes:core/v1:ConfigMap",
            f"{namespace}.{name}",
            {"metadata": {"name": name, "namespace": namespace}},
        )
    assert files(sandbox) == ["configmap_a-b_c.yaml", "configmap_a_b-c.yaml"]


def test_object_without_a_name_gets_a_stable_one(rendering):
    inputs = {"metadata": {"labels": {"a": "b"}}}
    made = rendering.create(NAMESPACE, "team", inputs)
    name = made.inputs["metadata"]["name"]
    assert name.startswith("team-") and len(name) == len("team-") + 8
    assert made.inputs["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    assert made.inputs["metadata"]["labels"] == {"a": "b"}
    assert rendering.check(NAMESPACE, "team", inputs, made.inputs)["metadata"]["name"] == name
    answer = rendering.diff(made, inputs)
    assert answer.changes == answer.DIFF_NONE


def test_in_place_change_rewrites_the_manifest(rendering, sandbox):
    made = rendering.create(QUOTA, "gpus", quota())
    answer = rendering.diff(made, quota("32"))
    assert list(answer.diffs) == ["spec"]
    assert not answer.replaces
    assert 'spec.hard["requests.nvidia.com/gpu"]' in answer.detailedDiff
    rendering.update(made, quota("32"))
    assert load(sandbox, files(sandbox)[0])["spec"]["hard"] == {"requests.nvidia.com/gpu": "32"}


def test_same_inputs_are_no_change(rendering):
    made = rendering.create(QUOTA, "gpus", quota())
    answer = rendering.diff(made, quota())
    assert answer.changes == answer.DIFF_NONE


@pytest.mark.parametrize(
    ("token", "old", "new", "path"),
    [
        (QUOTA, quota(), quota(name="other"), "metadata.name"),
        (QUOTA, quota(), quota(namespace="serving"), "metadata.namespace"),
        (
            DAEMON_SET,
            {"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}},
            {"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"app": "b"}}}},
            "spec.selector.matchLabels.app",
        ),
        (PRIORITY, {"metadata": {"name": "p"}, "value": 1}, {"metadata": {"name": "p"}, "value": 2}, "value"),
        (
            "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
            {"metadata": {"name": "p"}, "roleRef": {"name": "a"}},
            {"metadata": {"name": "p"}, "roleRef": {"name": "b"}},
            "roleRef.name",
        ),
    ],
)
def test_immutable_field_causes_a_replacement(rendering, token, old, new, path):
    made = rendering.create(token, "x", old)
    answer = rendering.diff(made, new)
    assert list(answer.replaces) == [path]
    assert answer.deleteBeforeReplace is not path.startswith("metadata")


def test_mutable_field_causes_no_replacement(rendering):
    old = {
        "metadata": {"name": "p"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minReadySeconds": 1},
    }
    new = {
        "metadata": {"name": "p"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "minReadySeconds": 2},
    }
    answer = rendering.diff(rendering.create(DAEMON_SET, "p", old), new)
    assert list(answer.detailedDiff) == ["spec.minReadySeconds"]
    assert not answer.replaces


def test_ignored_change_is_no_change(rendering):
    made = rendering.create(QUOTA, "gpus", quota())
    answer = rendering.diff(made, quota("32"), ignore=("spec",))
    assert answer.changes == answer.DIFF_NONE


def test_explicit_default_namespace_is_no_change(rendering):
    made = rendering.create("kubernetes:core/v1:ConfigMap", "a", {"metadata": {"name": "a"}})
    answer = rendering.diff(made, {"metadata": {"name": "a", "namespace": "default"}})
    assert answer.changes == answer.DIFF_NONE


def test_drift_in_a_file_is_detected_and_an_unchanged_file_has_none(rendering, sandbox):
    made = rendering.create(QUOTA, "gpus", quota())
    assert rendering.refresh(made)
    assert made.inputs == {**quota()}
    path = sandbox / "manifests" / "test" / files(sandbox)[0]
    path.write_text(path.read_text().replace("'16'", "'64'"))
    assert rendering.refresh(made)
    assert made.inputs["spec"]["hard"] == {"requests.nvidia.com/gpu": "64"}
    answer = rendering.diff(made, quota())
    assert list(answer.diffs) == ["spec"]


def test_deleted_file_is_a_deleted_object(rendering, sandbox):
    made = rendering.create(QUOTA, "gpus", quota())
    (sandbox / "manifests" / "test" / files(sandbox)[0]).unlink()
    assert not rendering.refresh(made)
    rendering.delete(made)


def test_file_that_is_not_an_object_is_an_error_without_traceback(rendering, sandbox):
    made = rendering.create(QUOTA, "gpus", quota())
    (sandbox / "manifests" / "test" / files(sandbox)[0]).write_text("a: [")
    with pytest.raises(grpc.RpcError) as refused:
        rendering.refresh(made)
    assert "cannot be read" in refused.value.details()
    assert "Traceback" not in refused.value.details()


def test_deletion_leaves_neither_file_nor_folder(rendering, sandbox):
    first = rendering.create(QUOTA, "gpus", quota())
    second = rendering.create(NAMESPACE, "team", {"metadata": {"name": "research"}})
    rendering.delete(first)
    assert files(sandbox) == ["namespace_research.yaml"]
    rendering.delete(second)
    assert not (sandbox / "manifests" / "test").exists()


def test_another_object_of_the_same_name_is_not_overwritten(rendering, sandbox):
    rendering.create(QUOTA, "gpus", quota())
    with pytest.raises(grpc.RpcError) as refused:
        rendering.create(QUOTA, "again", quota("64"))
    assert "is already rendered" in refused.value.details()
    assert load(sandbox, files(sandbox)[0]) == quota()


def test_object_rendered_by_an_interrupted_run_is_adopted(rendering, sandbox):
    rendering.create(QUOTA, "gpus", quota())
    assert rendering.create(QUOTA, "gpus", quota()).id == "research/gpus"
    assert len(files(sandbox)) == 1


def test_many_objects_are_created_and_deleted_in_parallel(rendering, sandbox):
    from concurrent.futures import ThreadPoolExecutor

    def life(number: int) -> None:
        for _ in range(5):
            name = f"n{number}"
            rendering.delete(rendering.create(NAMESPACE, name, {"metadata": {"name": name}}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(life, range(8)))
    assert files(sandbox) == []


def test_custom_resource_keeps_its_group_and_unusual_keys(rendering, sandbox):
    made = rendering.create(
        "kubernetes:nvidia.com/v1:ClusterPolicy",
        "policy",
        {"metadata": {"name": "policy"}, "spec": {"x_kubernetes_preserve_unknown_fields": True}},
    )
    assert made.id == "policy"
    assert files(sandbox) == ["clusterpolicy.nvidia.com_policy.yaml"]
    assert load(sandbox, files(sandbox)[0])["spec"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert made.state["spec"] == {"x_kubernetes_preserve_unknown_fields": True}


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("kubernetes:yaml:ConfigFile", "real provider plugin"),
        ("kubernetes:yaml/v2:ConfigGroup", "real provider plugin"),
        ("kubernetes:kustomize/v2:Directory", "real provider plugin"),
        ("kubernetes:helm.sh/v4:Chart", "fetched and rendered"),
        ("kubernetes:core/v1:ConfigMapPatch", "another tool owns"),
        ("kubernetes:core/v1:ConfigMapList", "only contains other objects"),
    ],
)
def test_features_impossible_offline_are_refused_with_the_reason(rendering, token, says):
    with pytest.raises(CheckError, match=says):
        rendering.check(token, "x", {"metadata": {"name": "x"}})


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "..", "a b", ""])
def test_name_cannot_escape_the_folder(rendering, sandbox, name):
    inputs = {"metadata": {"name": name, "namespace": "default"}}
    if name == "":
        assert rendering.check(QUOTA, "x", inputs)["metadata"]["name"].startswith("x-")
        return
    with pytest.raises(CheckError, match="is not a Kubernetes name"):
        rendering.create(QUOTA, "x", inputs)
    assert files(sandbox) == []


def test_conflicting_type_and_kind_are_refused(rendering):
    with pytest.raises(CheckError, match="kind is 'Pod'"):
        rendering.check(NAMESPACE, "x", {"kind": "Pod", "metadata": {"name": "x"}})


def test_generate_name_is_refused_with_a_remedy(rendering):
    with pytest.raises(CheckError, match=r"metadata\.generateName"):
        rendering.check(NAMESPACE, "x", {"metadata": {"generateName": "x-"}})


def test_data_of_a_secret_is_secret_in_the_state(engine, sandbox):
    from google.protobuf.struct_pb2 import Struct
    from pulumi.runtime.proto import provider_pb2

    engine.configure(clusterIdentifier="test")
    properties = Struct()
    properties.update(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hush"}}
    )
    answer = engine.stub.Create(
        provider_pb2.CreateRequest(urn=f"urn:pulumi:t::g::{SECRET}::s", properties=properties)
    )
    data = answer.properties["stringData"]
    assert data["4dabf18193072939515e22adb298388d"] == "1b47061264138c4ac30d75fd1eb44270"
    assert answer.properties["metadata"]["name"] == "s"


def test_release_is_recorded_with_chart_version_repository_and_values(rendering, sandbox):
    inputs = {
        "name": "gpu-operator",
        "namespace": "gpu-operator",
        "chart": "gpu-operator",
        "version": "v26.7.0",
        "repositoryOpts": {"repo": "https://helm.ngc.nvidia.com/nvidia"},
        "values": {"driver": {"enabled": False}},
    }
    made = rendering.create(RELEASE, "op", inputs)
    assert made.id == "gpu-operator/gpu-operator"
    assert made.state["status"]["status"] == "pending-install"
    found = load(sandbox, "release.helm.sh_gpu-operator_gpu-operator.yaml")
    assert found["spec"]["values"] == {"driver": {"enabled": False}}
    assert found["spec"]["repositoryOpts"] == {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    assert "not-rendered" in str(found["metadata"]["annotations"])
    answer = rendering.diff(made, {**inputs, "version": "v26.8.0"})
    assert list(answer.diffs) == ["version"] and not answer.replaces
    assert list(rendering.diff(made, {**inputs, "namespace": "other"}).replaces) == ["namespace"]
    rendering.update(made, {**inputs, "version": "v26.8.0"})
    assert rendering.refresh(made)
    assert made.inputs["version"] == "v26.8.0"
    assert rendering.diff(made, {**inputs, "version": "v26.8.0"}).changes == answer.DIFF_NONE
    rendering.delete(made)
    assert files(sandbox) == []


@pytest.mark.parametrize("missing", ["chart", "version"])
def test_release_without_a_pinned_version_is_refused(rendering, missing):
    inputs = {"name": "a", "chart": "a", "version": "1"}
    del inputs[missing]
    with pytest.raises(CheckError, match=missing):
        rendering.check(RELEASE, "a", inputs)


def test_yaml_is_parsed_and_templates_are_refused(rendering):
    result = rendering.invoke("kubernetes:yaml:decode", text="kind: A\n---\n---\nkind: B\n")
    assert result["result"] == [{"kind": "A"}, {"kind": "B"}]
    with pytest.raises(grpc.RpcError) as refused:
        rendering.invoke("kubernetes:helm:template", jsonOpts="{}")
    assert "real provider plugin" in refused.value.details()
