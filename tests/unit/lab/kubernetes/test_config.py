"""Where objects go: never to a cluster that is not on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from gpufleet.errors import InputError
from gpufleet.lab.kubernetes.config import identity, target
from gpufleet.lab.kubernetes.rest import Rest


def kubeconfig(server: str = "https://127.0.0.1:6443", name: str = "prod", **user) -> str:
    return json.dumps(
        {
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user or {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": name, "user": "u"}}],
            "current-context": "c",
        }
    )


@pytest.fixture(autouse=True)
def nowhere(sandbox):
    return sandbox


def test_emulated_cluster_is_rendered_and_the_reason_is_reported(sandbox):
    chosen = target(
        {"kubeconfig": kubeconfig("https://ABC.yl4.us-east-1.eks.amazonaws.com", exec={"command": "aws"})}, {}
    )
    assert chosen.server is None
    assert chosen.folder == sandbox / "manifests" / "prod"
    assert "is emulated" in chosen.why and str(chosen.folder) in chosen.why


def test_manifests_are_rendered_without_a_kubeconfig_and_the_users_one_is_not_read(sandbox, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    chosen = target({}, {"KUBECONFIG": "/nonexistent", "HOME": "/nonexistent"})
    assert chosen.server is None
    assert chosen.folder == sandbox / "manifests" / "default"


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost:1", "https://[::1]:6443"])
def test_server_on_loopback_is_used(server):
    chosen = target({"kubeconfig": kubeconfig(server)}, {})
    assert chosen.server is not None
    assert f"applied to {server}" in chosen.why


def test_command_in_a_kubeconfig_is_not_run():
    assert target({"kubeconfig": kubeconfig(exec={"command": "touch /tmp/x"})}, {}).server is None


@pytest.mark.parametrize(
    "server", ["https://10.0.0.1:6443", "https://127.0.0.1.example.com", "https://example.com"]
)
def test_variable_cannot_point_to_a_remote_server(tmp_path, server):
    path = tmp_path / "config"
    path.write_text(kubeconfig(server))
    with pytest.raises(InputError, match="not on this machine") as refused:
        target({}, {"GPUFLEET_KUBECONFIG": str(path)})
    assert refused.value.remedy
    with pytest.raises(InputError, match="not on this machine"):
        from gpufleet.lab.kubernetes import kubeconfig as reader

        Rest(reader.read(str(path)))


def test_variable_overrides_an_emulated_cluster_and_keeps_its_name(tmp_path):
    path = tmp_path / "config"
    path.write_text(kubeconfig(name="local"))
    chosen = target(
        {"kubeconfig": kubeconfig("https://x.eks.amazonaws.com", "atlas")}, {"GPUFLEET_KUBECONFIG": str(path)}
    )
    assert chosen.server is not None
    assert chosen.cluster == "atlas"


def test_render_folder_can_be_set_as_with_the_real_provider(tmp_path):
    chosen = target({"renderYamlToDirectory": str(tmp_path / "out"), "kubeconfig": kubeconfig()}, {})
    assert (chosen.server, chosen.folder) == (None, tmp_path / "out")


def test_cluster_name_cannot_escape_the_folder(sandbox):
    folder = target({"clusterIdentifier": "../../evil"}, {}).folder
    assert folder.parent == sandbox / "manifests"
    assert ".." not in folder.parts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [\n", "not valid YAML"),
        ("- a\n", "not a mapping"),
        (json.dumps({"current-context": "x"}), "no entry 'x' under 'contexts'"),
        (kubeconfig(""), "has no server"),
        ("/nonexistent/config", "cannot be read"),
    ],
)
def test_invalid_kubeconfig_is_an_error_without_traceback(text, says):
    with pytest.raises(InputError, match=says) as refused:
        target({"kubeconfig": text}, {})
    assert refused.value.remedy


def test_credentials_of_an_invalid_kubeconfig_are_not_printed():
    with pytest.raises(InputError) as refused:
        target({"kubeconfig": "users: [token: hush-hush\n"}, {})
    assert "hush" not in refused.value.message


def test_changed_server_or_identifier_is_another_cluster_and_a_changed_token_is_not():
    assert identity({"kubeconfig": kubeconfig("https://a")}) != identity(
        {"kubeconfig": kubeconfig("https://b")}
    )
    assert identity({"kubeconfig": kubeconfig(token="1")}) == identity({"kubeconfig": kubeconfig(token="2")})
    assert identity({"clusterIdentifier": "a"}) != identity({"clusterIdentifier": "b"})


def test_creation_before_the_cluster_is_known_is_refused(engine, sandbox):
    engine.configure(kubeconfig="04da6b54-80e4-46f7-96ec-b56ff0331ba9")
    inputs = {"metadata": {"name": "a"}}
    assert engine.preview("kubernetes:core/v1:Namespace", "a", inputs)["metadata"]["name"] == "a"
    with pytest.raises(grpc.RpcError) as refused:
        engine.create("kubernetes:core/v1:Namespace", "a", inputs)
    assert "has no cluster yet" in refused.value.details()
    assert not Path(sandbox / "manifests").exists()


def test_unreachable_server_is_an_error_without_traceback(engine, sandbox):
    engine.configure(kubeconfig=kubeconfig("http://127.0.0.1:9"))
    with pytest.raises(grpc.RpcError) as refused:
        engine.create("kubernetes:core/v1:Namespace", "a", {"metadata": {"name": "a"}})
    assert "no answer from the API server http://127.0.0.1:9" in refused.value.details()
    assert "Traceback" not in refused.value.details()
