"""Cordons, checkpoints and moves of gangs on Kubernetes."""

from __future__ import annotations

import copy
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.notices.kubernetes import (
    ALREADY_CORDONED,
    CHECKPOINT_BY,
    CHECKPOINTED_AT,
    DEADLINE,
    INTERRUPTION,
    QUARANTINED,
    KubernetesScheduler,
)
from gpufleet.notices.kubernetes_api import KubernetesApi, KubernetesApiError
from gpufleet.notices.scheduler import DrainedNode, Instance, SchedulerError
from tests.unit.notices.fake_api import FakeApi

GANG = "jobset_sigs_k8s_io__jobset-name"


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    for number in (1, 2, 3):
        made.node(f"node-{number}", f"i-{number}")
    made.pod("train-0", "node-1", **{GANG: "train"})
    made.pod("train-1", "node-2", **{GANG: "train"})
    made.pod("plugin", "node-1", namespace="kube-system", owner="DaemonSet")
    made.pod("alone", "node-1", namespace="serving", owner="ReplicaSet")
    return made


def test_instances_are_nodes_by_their_provider_id(api: FakeApi) -> None:
    asked = [Instance("i-2", "", ""), Instance("i-9", "", "")]
    assert KubernetesScheduler(api).nodes(asked) == {"i-2": "node-2"}


def test_node_is_cordoned_with_its_reason_and_given_back(api: FakeApi) -> None:
    kubernetes = KubernetesScheduler(api)
    assert kubernetes.drain({"node-1": 1_800_000_000.0}, "spot") == {}
    node = api.nodes["node-1"]
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["annotations"] == {INTERRUPTION: "spot", DEADLINE: "1800000000"}
    assert kubernetes.drained() == [DrainedNode("i-1", "node-1", "spot", 1_800_000_000.0)]
    api.nodes["node-2"]["spec"]["unschedulable"] = True
    kubernetes.release(["node-1", "node-2"])
    assert "unschedulable" not in node["spec"]
    assert kubernetes.drained() == []
    # Not ours.
    assert api.nodes["node-2"]["spec"]["unschedulable"] is True


def quarantine(api: FakeApi, name: str) -> None:
    """Cordon a node as NVSentinel does (fault-quarantine/pkg/reconciler, `prepareAnnotations`)."""
    node = api.nodes[name]
    notes = {QUARANTINED: "True"} | ({ALREADY_CORDONED: "True"} if node["spec"].get("unschedulable") else {})
    api.call("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": notes}})
    node["spec"]["unschedulable"] = True


def recover(api: FakeApi, name: str) -> None:
    """End a quarantine as NVSentinel does (`prepareUncordonParams`)."""
    node = api.nodes[name]
    notes = node["metadata"]["annotations"]
    assert notes.pop(QUARANTINED) == "True"
    if notes.pop(ALREADY_CORDONED, "") != "True":
        node["spec"].pop("unschedulable")


@pytest.mark.parametrize("first", ["nvsentinel", "handler"])
@pytest.mark.parametrize("ends", ["nvsentinel", "handler"])
def test_node_stays_cordoned_until_both_have_no_reason(api: FakeApi, first: str, ends: str) -> None:
    kubernetes, node = KubernetesScheduler(api), api.nodes["node-1"]
    steps = [
        lambda: quarantine(api, "node-1"),
        lambda: kubernetes.drain({"node-1": 1_800_000_000.0}, "maintenance"),
    ]
    for step in steps if first == "nvsentinel" else reversed(steps):
        step()
    assert node["spec"]["unschedulable"] is True
    ending = [lambda: recover(api, "node-1"), lambda: kubernetes.release(["node-1"])]
    one, other = ending if ends == "nvsentinel" else reversed(ending)
    one()
    assert node["spec"]["unschedulable"] is True
    assert (INTERRUPTION in node["metadata"]["annotations"]) == (ends == "nvsentinel")
    other()
    assert "unschedulable" not in node["spec"]
    assert node["metadata"]["annotations"] == {}


def test_quarantine_in_the_moment_of_a_release_is_not_ended(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubernetes = KubernetesScheduler(api)
    kubernetes.drain({"node-1": None}, "maintenance")
    listed = api.list

    def list_and_quarantine(path: str, query: str = "") -> Any:
        found = copy.deepcopy(listed(path, query))
        quarantine(api, "node-1")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(api, "list", list_and_quarantine)
        with pytest.raises(SchedulerError, match="has been modified"):
            kubernetes.release(["node-1"])
    assert api.nodes["node-1"]["spec"]["unschedulable"] is True
    kubernetes.release(["node-1"])
    assert api.nodes["node-1"]["spec"]["unschedulable"] is True
    recover(api, "node-1")
    assert "unschedulable" not in api.nodes["node-1"]["spec"]


def test_jobs_of_a_node_are_gangs_without_daemons(api: FakeApi) -> None:
    found = {job.id: job.nodes for job in KubernetesScheduler(api).jobs(["node-1"])}
    assert found == {
        "research/jobset.sigs.k8s.io/jobset-name=train": {"node-1"},
        "serving/alone": {"node-1"},
    }


def test_volume_of_a_bucket_outlives_the_pods_that_write_their_checkpoints_to_it(api: FakeApi) -> None:
    before = {job.id for job in KubernetesScheduler(api).jobs(["node-1"])}
    # The driver makes these without an owner (pkg/podmounter/mppod/creator.go of mountpoint-s3-csi-driver).
    api.pod("mp-x7k2p", "node-1", namespace="mount-s3")
    assert {job.id for job in KubernetesScheduler(api).jobs(["node-1"])} == before


def test_all_pods_of_a_gang_are_told_the_deadline(api: FakeApi) -> None:
    kubernetes = KubernetesScheduler(api)
    assert kubernetes.signal(kubernetes.jobs(["node-1"]), 1_800_000_000) == {}
    reported = {
        name: pod["metadata"].get("annotations", {}).get(CHECKPOINT_BY) for (_, name), pod in api.pods.items()
    }
    until = "2027-01-15T08:00:00Z"
    assert reported == {"train-0": until, "train-1": until, "alone": until, "plugin": None}


def test_one_pod_acknowledges_for_its_gang(api: FakeApi) -> None:
    kubernetes = KubernetesScheduler(api)
    jobs = {job.id: (job, 1000.0) for job in kubernetes.jobs(["node-1"])}
    assert kubernetes.acknowledged(jobs) == {}
    api.pods["research", "train-1"]["metadata"]["annotations"] = {CHECKPOINTED_AT: "900"}
    assert kubernetes.acknowledged(jobs) == {}
    api.pods["research", "train-1"]["metadata"]["annotations"] = {CHECKPOINTED_AT: "1001"}
    api.pods["serving", "alone"]["status"]["phase"] = "Succeeded"
    assert set(kubernetes.acknowledged(jobs).values()) == {"acknowledged", "finished"}


def test_only_the_signalled_pods_of_the_node_are_deleted(api: FakeApi) -> None:
    kubernetes = KubernetesScheduler(api)
    gang = next(job for job in kubernetes.jobs(["node-1"]) if "train" in job.id)
    assert kubernetes.move(gang, ["node-1"]) == "requeued"
    assert set(api.pods) == {("research", "train-1"), ("kube-system", "plugin"), ("serving", "alone")}
    # Its successor has the same name on another node, and the notice is read again after a kill.
    api.pod("train-0", "node-3", **{GANG: "train"})
    assert kubernetes.move(gang, ["node-1"]) == "finished"
    assert ("research", "train-0") in api.pods
    assert kubernetes.acknowledged({gang.id: (gang, 0.0)}) == {gang.id: "finished"}


def test_many_nodes_are_listed_at_once(api: FakeApi) -> None:
    nodes = [f"node-{number}" for number in range(1, 40)]
    assert len(KubernetesScheduler(api).jobs(nodes)) == 2


class Server(http.server.BaseHTTPRequestHandler):
    """Lists three nodes in two pages, and closes kept connections without a word."""

    protocol_version = "HTTP/1.1"
    requests: list[str] = []  # noqa: RUF012 - shared by design

    def do_GET(self) -> None:
        self.requests.append(self.path)
        first = "continue=" not in self.path
        items = (
            [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
            if first
            else [{"metadata": {"name": "c"}}]
        )
        self._answer(200, {"items": items, "metadata": {"continue": "x/=" if first else ""}})

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        self._answer(403, {"message": "nodes is forbidden"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_lists_are_read_page_by_page_over_closed_connections(url: str) -> None:
    Server.requests.clear()
    api = KubernetesApi(url)
    assert [node["metadata"]["name"] for node in api.list("/api/v1/nodes", "a=b")] == ["a", "b", "c"]
    api.close()
    assert Server.requests == ["/api/v1/nodes?a=b&limit=500", "/api/v1/nodes?a=b&limit=500&continue=x%2F%3D"]


def test_refusal_has_its_status(url: str) -> None:
    api = KubernetesApi(url)
    with pytest.raises(KubernetesApiError, match="forbidden") as error:
        api.call("PATCH", "/api/v1/nodes/a", {})
    assert error.value.status == 403
    api.close()


def test_api_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(KubernetesApiError) as error:
        KubernetesApi("http://127.0.0.1:9").call("GET", "/api/v1/nodes")
    assert error.value.status == 0
