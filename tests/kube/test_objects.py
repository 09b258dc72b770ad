"""The provider on a real API server: accepted and refused objects, and messages."""

from __future__ import annotations

import datetime as dt
import json
import time

import grpc
import pytest
import yaml

from gpufleet.lab.kubernetes import kubeconfig
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from tests.unit.lab.aws.provider.driver import CheckError

pytestmark = pytest.mark.xdist_group("kube")

NAMESPACE = "kubernetes:core/v1:Namespace"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
QUOTA = "kubernetes:core/v1:ResourceQuota"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"


def config_map(name: str, data: dict[str, str], **meta):
    return {"metadata": {"name": name, "namespace": "default", **meta}, "data": data}


def daemon_set(name: str, app: str = "a", image: str = "a:1"):
    pod = {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "1000m"}}}]},
    }
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": pod},
    }


def refused(call, *arguments) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments)
    details = error.value.details()
    assert "Traceback" not in details
    assert "\n" not in details
    return details


def test_outputs_of_an_object_come_from_the_server(engine, rest):
    made = engine.create(CONFIG_MAP, "a", config_map("life", {"k": "1"}))
    path = "/api/v1/namespaces/default/configmaps/life"
    assert made.id == "default/life"
    assert rest.call("GET", path)["data"] == {"k": "1"}
    assert made.state["metadata"]["uid"] == rest.call("GET", path)["metadata"]["uid"]
    assert "managedFields" not in made.state["metadata"]
    answer = engine.diff(made, config_map("life", {"k": "1"}))
    assert answer.changes == answer.DIFF_NONE
    engine.delete(made)
    assert rest.find(path) is None
    engine.delete(made)


def test_update_is_made_in_place_and_removes_undeclared_fields(engine, rest):
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "5", "cpu": "8"}}}
    made = engine.create(QUOTA, "q", quota)
    uid = made.state["metadata"]["uid"]
    smaller = {**quota, "spec": {"hard": {"pods": "6"}}}
    answer = engine.diff(made, smaller)
    assert list(answer.diffs) == ["spec"] and not answer.replaces
    engine.update(made, smaller)
    live = rest.call("GET", "/api/v1/namespaces/default/resourcequotas/q")
    assert live["spec"] == {"hard": {"pods": "6"}}
    assert live["metadata"]["uid"] == uid
    engine.delete(made)


def test_server_judges_a_preview_and_nothing_changes(engine, rest):
    planned = engine.preview(DAEMON_SET, "d", daemon_set("previewed"))
    assert planned["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    assert rest.find("/apis/apps/v1/namespaces/kube-system/daemonsets/previewed") is None
    wrong = daemon_set("previewed")
    wrong["spec"]["selector"] = {"matchLabels": {"app": "b"}}
    assert "does not match template" in refused(engine.preview, DAEMON_SET, "d", wrong)


def test_preview_in_a_namespace_that_does_not_exist_yet_shows_the_declared_object(engine):
    inputs = {"metadata": {"name": "q", "namespace": "not-there-yet"}, "spec": {"hard": {"pods": "5"}}}
    assert engine.preview(QUOTA, "q", inputs)["spec"] == {"hard": {"pods": "5"}}


def test_values_normalized_by_the_server_are_neither_drift_nor_change(engine):
    made = engine.create(DAEMON_SET, "d", daemon_set("canonical"))
    requests = made.state["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1"}, "the server writes 1000m as 1"
    assert engine.refresh(made)
    answer = engine.diff(made, daemon_set("canonical"))
    assert answer.changes == answer.DIFF_NONE
    engine.delete(made)


def test_drift_is_reported_with_the_field(engine, rest):
    made = engine.create(CONFIG_MAP, "a", config_map("drift", {"k": "1", "l": "2"}))
    path = "/api/v1/namespaces/default/configmaps/drift"
    rest.call("PATCH", path, {"data": {"k": "9"}}, content_type="application/merge-patch+json")
    assert engine.refresh(made)
    assert made.inputs["data"] == {"k": "9", "l": "2"}
    assert list(engine.diff(made, config_map("drift", {"k": "1", "l": "2"})).diffs) == ["data"]
    engine.delete(made)


def test_fields_added_by_others_are_kept(engine, rest):
    made = engine.create(CONFIG_MAP, "a", config_map("shared", {"k": "1"}))
    path = "/api/v1/namespaces/default/configmaps/shared"
    rest.call(
        "PATCH", path, {"metadata": {"labels": {"x": "y"}}}, content_type="application/merge-patch+json"
    )
    assert engine.refresh(made)
    answer = engine.diff(made, config_map("shared", {"k": "1"}))
    assert answer.changes == answer.DIFF_NONE
    engine.delete(made)


def test_field_owned_by_another_tool_is_a_conflict_until_it_is_forced(engine, rest):
    quota = {"metadata": {"name": "taken", "namespace": "default"}, "spec": {"hard": {"pods": "5"}}}
    made = engine.create(QUOTA, "q", quota)
    path = "/api/v1/namespaces/default/resourcequotas/taken"
    rest.call(
        "PATCH", path, {"spec": {"hard": {"pods": "7"}}}, content_type="application/merge-patch+json",
        query={"fieldManager": "somebody"},
    )  # fmt: skip
    engine.refresh(made)
    message = refused(engine.update, made, quota)
    assert "somebody" in message
    assert "pulumi.com/patchForce" in message
    forced = {**quota, "metadata": {**quota["metadata"], "annotations": {"pulumi.com/patchForce": "true"}}}
    engine.update(made, forced)
    assert rest.call("GET", path)["spec"]["hard"] == {"pods": "5"}
    engine.delete(made)


def quota(spec, namespace="default"):
    return {"metadata": {"name": "bad", "namespace": namespace}, "spec": spec}


NO_PRIORITY = {
    "metadata": {"name": "bad", "namespace": "default"},
    "spec": {"priorityClassName": "none", "containers": [{"name": "c", "image": "i"}]},
}


@pytest.mark.parametrize(
    ("token", "inputs", "says"),
    [
        (QUOTA, quota({"hrad": {}}), ".spec.hrad: field not declared in schema"),
        (QUOTA, quota({"hard": {"pods": "many"}}), "quantities must match"),
        (QUOTA, quota({}, "nowhere"), 'namespaces "nowhere" not found'),
        (NAMESPACE, {"metadata": {"name": "Upper_Case"}}, "lowercase RFC 1123"),
        (PRIORITY, {"metadata": {"name": "bad"}, "value": 2_000_000_000}, "maximum allowed value"),
        (
            "kubernetes:example.com/v1:Nothing",
            {"metadata": {"name": "b"}},
            "no kind Nothing in example.com/v1",
        ),
        ("kubernetes:core/v1:Pod", NO_PRIORITY, "no PriorityClass with name none"),
    ],
)
def test_invalid_object_is_refused_with_the_reason_of_the_server_and_a_remedy(engine, token, inputs, says):
    message = refused(engine.create, token, "bad", inputs)
    assert says in message
    assert message.startswith(f"creating {token} bad: ")
    assert "; " in message


def test_existing_object_is_not_adopted_by_default(engine, rest):
    path = "/api/v1/namespaces/default/configmaps"
    rest.call("POST", path, {"metadata": {"name": "theirs"}, "data": {"k": "theirs"}})
    inputs = config_map("theirs", {"l": "ours"})
    assert "ConfigMap default/theirs already exists" in refused(engine.create, CONFIG_MAP, "a", inputs)
    engine.configure(clusterIdentifier="test", upsertExistingObjects=True)
    made = engine.create(CONFIG_MAP, "a", inputs)
    assert made.state["data"] == {"k": "theirs", "l": "ours"}
    engine.delete(made)


def test_object_of_an_interrupted_run_is_adopted(engine, rest):
    first = engine.create(CONFIG_MAP, "a", config_map("forgotten", {"k": "1"}))
    assert "already exists" in refused(engine.create, CONFIG_MAP, "a", config_map("forgotten", {"k": "2"}))
    again = engine.create(CONFIG_MAP, "a", config_map("forgotten", {"k": "1"}))
    assert again.state["metadata"]["uid"] == first.state["metadata"]["uid"]
    engine.delete(again)


def test_deletion_of_a_namespace_waits_until_it_is_gone(engine, rest):
    made = engine.create(NAMESPACE, "n", {"metadata": {"name": "short-lived"}})
    engine.create(CONFIG_MAP, "a", config_map("a", {}, namespace="short-lived"))
    engine.create(DAEMON_SET, "d", {**daemon_set("d"), "metadata": {"name": "d", "namespace": "short-lived"}})
    engine.delete(made)
    assert rest.find("/api/v1/namespaces/short-lived") is None
    again = engine.create(NAMESPACE, "n", {"metadata": {"name": "short-lived"}})
    assert rest.call("GET", "/api/v1/namespaces/short-lived/configmaps")["items"] == []
    assert rest.call("GET", "/apis/apps/v1/namespaces/short-lived/daemonsets")["items"] == []
    engine.delete(again)


def test_namespace_is_deleted_after_the_controllers_have_ended(engine, rest):
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-controller-manager"},
        "spec": {
            "holderIdentity": "ended",
            "leaseDurationSeconds": 2,
            "renewTime": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
    if rest.find(f"{path}/kube-controller-manager"):
        rest.call("DELETE", f"{path}/kube-controller-manager")
    rest.call("POST", path, lease)
    made = engine.create(NAMESPACE, "n", {"metadata": {"name": "abandoned"}})
    started = time.monotonic()
    engine.delete(made)
    assert time.monotonic() - started > 1, "the lease was valid, so a controller was to do it"
    assert rest.find("/api/v1/namespaces/abandoned") is None
    rest.call("DELETE", f"{path}/kube-controller-manager")


def test_object_held_by_a_finalizer_is_an_error_that_names_it(engine, rest):
    inputs = config_map("held", {}, finalizers=["example.com/holder"])
    made = engine.create(CONFIG_MAP, "a", inputs)
    from pulumi.runtime.proto import provider_pb2

    started = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        engine.stub.Delete(provider_pb2.DeleteRequest(urn=made.urn, id=made.id, timeout=1))
    assert "example.com/holder holds it" in error.value.details()
    assert time.monotonic() - started < 10
    path = "/api/v1/namespaces/default/configmaps/held"
    rest.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
    assert rest.find(path) is None


def test_custom_resource_is_created_right_after_its_definition(engine, rest):
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x_kubernetes_preserve_unknown_fields": True}},
    }
    definition = engine.create(
        "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
        "crd",
        {
            "metadata": {"name": "policies.gpufleet.test"},
            "spec": {
                "group": "gpufleet.test",
                "scope": "Cluster",
                "names": {"plural": "policies", "singular": "policy", "kind": "Policy"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        },
    )
    made = engine.create(
        "kubernetes:gpufleet.test/v1:Policy", "p", {"metadata": {"name": "p"}, "spec": {"a": 1}}
    )
    assert made.id == "p"
    assert rest.call("GET", "/apis/gpufleet.test/v1/policies/p")["spec"] == {"a": 1}
    assert engine.refresh(made)
    engine.delete(definition)
    assert not engine.refresh(made)
    engine.delete(made)


def test_secret_reaches_the_server_and_its_data_stays_secret(engine, rest):
    made = engine.create(
        "kubernetes:core/v1:Secret",
        "s",
        {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"k": "v"}},
    )
    assert rest.call("GET", "/api/v1/namespaces/default/secrets/s")["data"] == {"k": "dg=="}
    engine.delete(made)


def test_release_is_refused_before_anything_is_created(engine):
    with pytest.raises(CheckError, match="cannot be installed on an API server by the sandbox"):
        engine.check("kubernetes:helm.sh/v3:Release", "r", {"name": "r", "chart": "c", "version": "1"})


def test_server_accepts_a_rendered_manifest(engine, api_server, rest, tmp_path, monkeypatch):
    """The folder has what `kubectl apply -f` would get."""
    from gpufleet.lab.kubernetes.folder import Folder

    inputs = {"apiVersion": "apps/v1", "kind": "DaemonSet"} | daemon_set("rendered", image="registry/on:1.30")
    folder = Folder(tmp_path / "out")
    folder.apply(inputs, create=True, force=False, dry_run=False)
    (path,) = (tmp_path / "out").iterdir()
    manifest = yaml.safe_load(path.read_text())
    answer = rest.call(
        "PATCH", "/apis/apps/v1/namespaces/kube-system/daemonsets/rendered", manifest,
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "test", "fieldValidation": "Strict", "dryRun": "All"},
    )  # fmt: skip
    assert answer["spec"]["template"]["spec"]["containers"][0]["image"] == "registry/on:1.30"


def test_token_authenticates_as_well_as_a_certificate(api_server):
    path = api_server.folder / "by-token"
    path.write_text(json.dumps(api_server.config({"token": api_server.token})))
    assert Rest(kubeconfig.read(str(path))).call("GET", "/api/v1/namespaces")["items"]
    path.write_text(json.dumps(api_server.config({"token": "wrong"})))
    with pytest.raises(ApiError) as error:
        Rest(kubeconfig.read(str(path))).call("GET", "/api/v1/namespaces")
    assert error.value.code == 401
    assert "credentials" in error.value.remedy


def test_server_with_another_certificate_authority_is_not_trusted(api_server, tmp_path):
    from tests.kube.certificates import Authority

    other = tmp_path / "other"
    other.mkdir()
    Authority(other)
    path = other / "kubeconfig"
    path.write_text(json.dumps(api_server.config({"token": api_server.token})))
    with pytest.raises(Exception, match="certificate verify failed"):
        Rest(kubeconfig.read(str(path))).call("GET", "/api/v1/namespaces")


def test_server_version_is_pinned_by_the_module_and_offered_by_the_catalog(rest, api_server):
    from gpufleet.catalog import load_catalog
    from tests.kube.build import version

    found = rest.call("GET", "/version")["gitVersion"]
    assert found == f"v{version(api_server.minor)}"
    offered = {minor for lock in load_catalog().locks.values() for minor in lock.kubernetes}
    assert api_server.minor in offered
