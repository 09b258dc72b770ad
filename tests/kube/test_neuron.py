"""Neuron's software on a real API server, and its scheduler as a real kube-scheduler.

The extension is a stand-in that answers as one does: it passes all nodes, and binds the pod itself, with the
rights of the extension's service account. No image of Neuron runs here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.components.neuron_scheduler import EXTENSION, EXTENSION_PORT, scheduler_configuration
from gpufleet.engine.api import RunResult, StackRequest
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.kinds import NEURON_SCHEDULER
from gpufleet.lab.kubernetes.rest import Rest
from tests.kube.admission import count_quotas, refusal_in_time
from tests.kube.build import program
from tests.kube.cluster import ApiServerProcess, free_ports

pytestmark = pytest.mark.xdist_group("kube")

ROOT = Path(__file__).resolve().parents[2]
SYSTEM = "/api/v1/namespaces/kube-system"
PODS = "/api/v1/namespaces/default/pods"

PROGRAM = """
    import pulumi
    import pulumi_kubernetes as k8s

    from gpufleet.components.cluster_base import ClusterBase, ClusterBaseArgs, NeuronArgs, TeamArgs

    provider = k8s.Provider(
        "cluster",
        cluster_identifier="test",
        enable_server_side_apply=True,
        enable_patch_force=True,
    )
    ClusterBase(
        "neuron",
        ClusterBaseArgs(
            teams=[TeamArgs(name="trainers", gpus=0, neuron_devices=16)],
            region="us-east-1",
            taint_keys=["nvidia.com/gpu", "aws.amazon.com/neuron"],
            neuron=NeuronArgs(
                version="2.31.0.0", scheduler_image="registry.k8s.io/kube-scheduler:v1.35.4"
            ),
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )
"""


def _run(verb: str, folder: Path, kubeconfig: Path) -> RunResult:
    request = StackRequest(
        project="neuron",
        stack="dev",
        project_root=folder,
        program_dir=folder,
        state_file=folder / "state.json",
        config={},
        providers={"kubernetes": (sys.executable, "-m", "gpufleet.lab.kubernetes")},
        env={
            "GPUFLEET_KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(ROOT),
            "PULUMI_CONFIG_PASSPHRASE": "test",
        },
    )
    result: RunResult = getattr(EmbeddedEngine(), verb)(request, [].append)
    assert result.ok, [failure.error for failure in result.failures] + list(result.diagnostics)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("neuron")
    (made / "Pulumi.yaml").write_text("name: neuron\nruntime: python\n")
    (made / "__main__.py").write_text(textwrap.dedent(PROGRAM))
    return made


@pytest.fixture(scope="module")
def applied(api_server: ApiServerProcess, without_priorities: None, folder: Path) -> Iterator[RunResult]:
    yield _run("up", folder, api_server.kubeconfig)
    _run("destroy", folder, api_server.kubeconfig)


def test_every_object_is_accepted_and_a_second_run_changes_nothing(
    applied: RunResult, api_server: ApiServerProcess, folder: Path, rest: Rest
) -> None:
    daemon_sets = "/apis/apps/v1/namespaces/kube-system/daemonsets"
    assert rest.call("GET", f"{daemon_sets}/neuron-device-plugin")
    for name in (NEURON_SCHEDULER, EXTENSION):
        assert rest.call("GET", f"/apis/apps/v1/namespaces/kube-system/deployments/{name}")
        assert rest.call("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")
    quota = rest.call("GET", "/api/v1/namespaces/trainers/resourcequotas/neuron")["spec"]["hard"]
    assert quota == {"requests.aws.amazon.com/neuron": "16", "requests.aws.amazon.com/neuroncore": "0"}
    again = _run("up", folder, api_server.kubeconfig)
    assert again.changes.total == 0


def test_team_gets_no_more_devices_than_its_quota_and_no_single_cores(applied: RunResult, rest: Rest) -> None:
    count_quotas(rest, "trainers")
    for resource, count in (("neuron", 17), ("neuroncore", 1)):
        message = refusal_in_time(rest, "trainers", _pod("greedy", resource, count))
        assert "exceeded quota: neuron" in message


def test_scheduler_may_do_what_kubernetes_gives_its_own(applied: RunResult, rest: Rest) -> None:
    """Leases are left out: the scheduler has those of its namespace only."""
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    own = _rights(rest.call("GET", f"{roles}/{NEURON_SCHEDULER}"))
    wanted = _rights(rest.call("GET", f"{roles}/system:kube-scheduler"))
    missing = {each for each in wanted - own if each[0] != "coordination.k8s.io" and each[0] != "extensions"}
    assert missing == set()


def _rights(role: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


class StandIn(ThreadingHTTPServer):
    """Answers like the extension, and binds with its rights."""

    def __init__(self, rest: Rest) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rest = rest
        self.asked: list[tuple[str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/filter":
            name, answer = body["Pod"]["metadata"]["name"], {"Nodes": body["Nodes"]}
        else:
            name, answer = body["PodName"], {}
            binding = {
                "metadata": {"name": name, "namespace": body["PodNamespace"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": body["Node"]},
            }
            path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{name}"
            note = {"metadata": {"annotations": {"neuron-device-index": "0"}}}
            self.server.rest.call("PATCH", path, note, content_type="application/merge-patch+json")
            self.server.rest.call("POST", f"{path}/binding", binding)
        self.server.asked.append((self.path, name))
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _pod(name: str, resource: str = "", count: int = 0, **spec: Any) -> dict[str, Any]:
    requested = {f"aws.amazon.com/{resource}": str(count)} if resource else {}
    resources = {"limits": requested, "requests": requested | {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def _kubeconfig_of(account: str, api_server: ApiServerProcess, rest: Rest) -> Path:
    """A kubeconfig with a token of a service account of kube-system, beside the certificate that it names."""
    file = api_server.kubeconfig.with_name(f"{account}.yaml")
    token = rest.call("POST", f"{SYSTEM}/serviceaccounts/{account}/token", {"spec": {}})["status"]["token"]
    document = yaml.safe_load(api_server.kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    file.write_text(yaml.safe_dump(document))
    return file


def test_real_scheduler_asks_the_extension_and_pods_get_their_node(
    applied: RunResult, api_server: ApiServerProcess, rest: Rest, tmp_path: Path
) -> None:
    from gpufleet.lab.kubernetes import kubeconfig

    extension_file = _kubeconfig_of(EXTENSION, api_server, rest)
    stand_in = StandIn(Rest(kubeconfig.read(str(extension_file))))
    threading.Thread(target=stand_in.serve_forever, daemon=True).start()
    own = _kubeconfig_of(NEURON_SCHEDULER, api_server, rest)
    document = json.loads(scheduler_configuration())
    assert document["extenders"][0]["urlPrefix"].endswith(f":{EXTENSION_PORT}")
    document["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{stand_in.server_port}"
    document["clientConnection"] = {"kubeconfig": str(own)}
    (tmp_path / "config.yaml").write_text(json.dumps(document))
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "10", "aws.amazon.com/neuron": "16"}
    node = {
        "metadata": {"name": "trn1"},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    rest.call("POST", "/api/v1/nodes", node)
    # Without a controller of nodes, the API server's taint of a new node stays.
    rest.call(
        "PATCH",
        "/api/v1/nodes/trn1",
        {"spec": {"taints": None}},
        content_type="application/merge-patch+json",
    )
    (port,) = free_ports(1)
    with (tmp_path / "scheduler.log").open("wb") as log:
        scheduler = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", str(program("kube-scheduler", api_server.minor))),
                f"--config={tmp_path / 'config.yaml'}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                f"--authentication-kubeconfig={own}",
                f"--authorization-kubeconfig={own}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
        )
    try:
        with_devices = _pod("with-devices", "neuron", 4, schedulerName=NEURON_SCHEDULER)
        without = _pod("without", schedulerName=NEURON_SCHEDULER)
        too_many = _pod("too-many", "neuron", 17, schedulerName=NEURON_SCHEDULER)
        of_another = _pod("of-another", "neuron", 1)
        for each in (with_devices, without, too_many, of_another):
            rest.call("POST", PODS, each)
        _wait_for_node(rest, "with-devices", tmp_path)
        _wait_for_node(rest, "without", tmp_path)
        for name in ("too-many", "of-another"):
            assert "nodeName" not in rest.call("GET", f"{PODS}/{name}")["spec"]
    finally:
        scheduler.terminate()
        scheduler.wait(30)
        stand_in.shutdown()
        stand_in.server_close()
        for name in ("with-devices", "without", "too-many", "of-another"):
            rest.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        rest.call("DELETE", "/api/v1/nodes/trn1")
    assert stand_in.asked == [("/filter", "with-devices"), ("/bind", "with-devices")]
    log_text = (tmp_path / "scheduler.log").read_text()
    assert "forbidden" not in log_text, [line for line in log_text.splitlines() if "forbidden" in line][:5]


def _wait_for_node(rest: Rest, name: str, folder: Path) -> None:
    deadline = time.monotonic() + 300
    while rest.call("GET", f"{PODS}/{name}")["spec"].get("nodeName") != "trn1":
        assert time.monotonic() < deadline, (name, (folder / "scheduler.log").read_text()[-3000:])
        time.sleep(0.2)
