"""ClusterBase on a real API server, through the embedded engine and the sandbox's provider."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpufleet.engine.api import RunResult, StackRequest
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.lab.kubernetes.rest import Rest
from tests.kube.admission import count_quotas, refusal_in_time

pytestmark = pytest.mark.xdist_group("kube")

ROOT = Path(__file__).resolve().parents[2]
TEAMS = ("research", "serving")

PROGRAM = """
    import pulumi
    import pulumi_kubernetes as k8s

    from gpufleet.components.cluster_base import (
        BucketFolderArgs,
        ClusterBase,
        ClusterBaseArgs,
        FileSystemArgs,
        TeamArgs,
    )

    config = pulumi.Config()
    provider = k8s.Provider(
        "cluster",
        cluster_identifier="test",
        enable_server_side_apply=True,
        enable_patch_force=True,
    )
    base = ClusterBase(
        "base",
        ClusterBaseArgs(
            teams=[
                TeamArgs(name="research", gpus=config.require_int("gpus")),
                TeamArgs(
                    name="serving",
                    gpus=2,
                    priority="high",
                    file_systems=[
                        FileSystemArgs(
                            name=name,
                            file_system_id="fs-0123456789abcdef0",
                            dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                            mount_name="abcdefgh",
                            capacity_gib=1200,
                            write=write,
                        )
                        for name, write in (("shared", True), ("models", False))
                    ],
                    bucket_folders=[
                        BucketFolderArgs(
                            name=name, bucket=config.require("bucket"), prefix=prefix, write=write
                        )
                        for name, prefix, write in (
                            ("data", "serving/", True),
                            ("data-shared", "shared/", False),
                        )
                    ],
                ),
            ],
            efa=True,
            region="us-east-1",
        ),
        pulumi.ResourceOptions(providers=[provider]),
    )
    pulumi.export("namespaces", base.namespaces)
"""


@dataclass
class Stack:
    """The stack of the program above."""

    folder: Path
    kubeconfig: Path

    def run(self, verb: str, gpus: int = 16, bucket: str = "atlas-data") -> RunResult:
        request = StackRequest(
            project="test",
            stack="dev",
            project_root=self.folder,
            program_dir=self.folder,
            state_file=self.folder / "state.json",
            config={"test:gpus": str(gpus), "test:bucket": bucket},
            providers={"kubernetes": (sys.executable, "-m", "gpufleet.lab.kubernetes")},
            env={
                "GPUFLEET_KUBECONFIG": str(self.kubeconfig),
                "PYTHONPATH": str(ROOT),
                "PULUMI_CONFIG_PASSPHRASE": "test",
            },
        )
        events: list[Any] = []
        result: RunResult = getattr(EmbeddedEngine(), verb)(request, events.append)
        assert result.ok, [failure.error for failure in result.failures] + list(result.diagnostics)
        return result


@pytest.fixture(scope="module")
def stack(api_server, without_priorities, tmp_path_factory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    (folder / "Pulumi.yaml").write_text("name: test\nruntime: python\n")
    (folder / "__main__.py").write_text(textwrap.dedent(PROGRAM))
    made = Stack(folder, api_server.kubeconfig)
    yield made
    made.run("destroy")


@pytest.fixture(scope="module")
def first(stack: Stack) -> RunResult:
    return stack.run("up")


def quota_path(name: str, namespace: str = "research") -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"


def pod(name: str, gpus: int = 0, priority: str = "", **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "c", "image": "i"} | ({"resources": resources} if gpus else {})
    made = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    if priority:
        made["spec"]["priorityClassName"] = priority
    return made


def test_every_object_is_accepted_and_exists(first: RunResult, rest: Rest):
    assert first.outputs["namespaces"] == {"research": "research", "serving": "serving"}
    for name, value in (("low", 1_000), ("normal", 10_000), ("high", 100_000)):
        found = rest.call("GET", f"/apis/scheduling.k8s.io/v1/priorityclasses/gpufleet-{name}")
        assert found["value"] == value
    assert rest.call("GET", quota_path("gpus"))["spec"]["hard"] == {"requests.nvidia.com/gpu": "16"}
    for plugin in ("nvidia-device-plugin", "efa-device-plugin"):
        found = rest.call("GET", f"/apis/apps/v1/namespaces/kube-system/daemonsets/{plugin}")
        assert found["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"
    for team in TEAMS:
        rules = f"/apis/networking.k8s.io/v1/namespaces/{team}/networkpolicies/from-inside-and-named"
        assert rest.call("GET", rules)["spec"]["policyTypes"] == ["Ingress"]
        assert rest.find(f"/api/v1/namespaces/{team}/limitranges/defaults")
    assert rest.find(quota_path("no-higher-priority"))
    assert rest.find(quota_path("no-higher-priority", "serving"))


def test_second_run_changes_nothing(first: RunResult, stack: Stack):
    again = stack.run("up")
    assert again.changes.total == 0
    assert again.changes.same == first.changes.create
    assert stack.run("refresh").changes.update == 0


def volume(rest: Rest, name: str) -> dict[str, Any]:
    made: dict[str, Any] = rest.call("GET", f"/api/v1/persistentvolumes/{name}")
    return made


def claim(rest: Rest, name: str) -> dict[str, Any]:
    made: dict[str, Any] = rest.call("GET", f"/api/v1/namespaces/serving/persistentvolumeclaims/{name}")
    return made


@pytest.mark.parametrize(
    ("name", "called", "handle"),
    [
        ("shared", "serving-shared-rw", "fs-0123456789abcdef0:serving"),
        ("models", "serving-models-ro", "fs-0123456789abcdef0:serving"),
        ("data", "serving-data-rw.atlas-data", "atlas-data:serving:data"),
        ("data-shared", "serving-data-shared-ro.atlas-data", "atlas-data:serving:data-shared"),
    ],
)
def test_storage_of_a_team_is_a_volume_that_its_claim_asks_for(
    first: RunResult, rest: Rest, name: str, called: str, handle: str
):
    made, wanted = volume(rest, called), claim(rest, name)
    assert made["spec"]["csi"]["volumeHandle"] == handle
    assert made["spec"]["claimRef"]["namespace"] == "serving"
    assert made["spec"]["claimRef"]["name"] == name
    assert wanted["spec"]["volumeName"] == made["metadata"]["name"]
    assert wanted["spec"]["accessModes"] == made["spec"]["accessModes"]


def test_volume_of_another_bucket_is_a_new_one_with_a_new_claim(first: RunResult, stack: Stack, rest: Rest):
    """A volume's source is immutable, and a claim whose volume is gone stays lost."""
    before, kept = claim(rest, "data")["metadata"]["uid"], claim(rest, "shared")["metadata"]["uid"]
    changes = stack.run("up", bucket="atlas-other").changes
    assert (changes.replace, changes.update, changes.create) == (4, 0, 0)
    made = volume(rest, "serving-data-rw.atlas-other")
    assert made["spec"]["csi"]["volumeAttributes"]["bucketName"] == "atlas-other"
    assert claim(rest, "data")["spec"]["volumeName"] == made["metadata"]["name"]
    assert claim(rest, "data")["metadata"]["uid"] != before
    assert claim(rest, "shared")["metadata"]["uid"] == kept
    assert not rest.find("/api/v1/persistentvolumes/serving-data-rw.atlas-data")
    stack.run("up")


def test_team_gets_no_more_gpus_than_its_quota(first: RunResult, rest: Rest):
    count_quotas(rest, "research")
    path = "/api/v1/namespaces/research/pods"
    assert "exceeded quota: gpus" in refusal_in_time(rest, "research", pod("greedy", gpus=17))
    rest.call("POST", path, pod("modest", gpus=16))
    assert "used: requests.nvidia.com/gpu=16" in refusal_in_time(rest, "research", pod("one-more", gpus=1))
    rest.call("DELETE", f"{path}/modest", {"gracePeriodSeconds": 0})


def test_team_cannot_exceed_its_priority(first: RunResult, rest: Rest):
    for team in TEAMS:
        count_quotas(rest, team)
    message = refusal_in_time(rest, "research", pod("vip", priority="gpufleet-high"))
    assert "exceeded quota: no-higher-priority" in message
    made = rest.call("POST", "/api/v1/namespaces/research/pods", pod("usual", priority="gpufleet-normal"))
    assert made["spec"]["priority"] == 10_000
    allowed = rest.call("POST", "/api/v1/namespaces/serving/pods", pod("urgent", priority="gpufleet-high"))
    assert allowed["spec"]["priority"] == 100_000
    for system in ("system-cluster-critical", "system-node-critical"):
        message = refusal_in_time(rest, "serving", pod("borrowed", priority=system))
        assert "exceeded quota: no-higher-priority" in message
    for namespace, name in (("research", "usual"), ("serving", "urgent")):
        rest.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})


def test_pod_without_resources_gets_the_requests_of_its_namespace_and_no_limit(first: RunResult, rest: Rest):
    count_quotas(rest, "research")
    made = rest.call("POST", "/api/v1/namespaces/research/pods", pod("plain"))
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1", "memory": "4Gi"}}
    rest.call("DELETE", "/api/v1/namespaces/research/pods/plain", {"gracePeriodSeconds": 0})


def test_pod_that_uses_the_host_is_refused(first: RunResult, rest: Rest):
    message = refusal_in_time(rest, "research", pod("escape", hostNetwork=True))
    assert 'violates PodSecurity "baseline' in message


def test_larger_quota_is_an_update_in_place(first: RunResult, stack: Stack, rest: Rest):
    before = rest.call("GET", quota_path("gpus"))["metadata"]["uid"]
    result = stack.run("up", gpus=24)
    assert (result.changes.update, result.changes.replace, result.changes.create) == (1, 0, 0)
    after = rest.call("GET", quota_path("gpus"))
    assert after["spec"]["hard"] == {"requests.nvidia.com/gpu": "24"}
    assert after["metadata"]["uid"] == before
    stack.run("up")


def test_manual_change_is_detected_and_reverted(first: RunResult, stack: Stack, rest: Rest):
    rest.call(
        "PATCH",
        quota_path("gpus"),
        {"spec": {"hard": {"requests.nvidia.com/gpu": "999"}}},
        content_type="application/merge-patch+json",
        query={"fieldManager": "somebody"},
    )
    assert stack.run("refresh").changes.update == 1
    result = stack.run("up")
    assert result.changes.update == 1
    assert rest.call("GET", quota_path("gpus"))["spec"]["hard"] == {"requests.nvidia.com/gpu": "16"}


def test_deleted_object_is_created_again(first: RunResult, stack: Stack, rest: Rest):
    rest.call("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/gpufleet-low")
    stack.run("refresh")
    assert stack.run("up").changes.create == 1
    assert rest.find("/apis/scheduling.k8s.io/v1/priorityclasses/gpufleet-low")


def test_destroy_leaves_no_objects(first: RunResult, stack: Stack, rest: Rest):
    stack.run("destroy")
    names = {item["metadata"]["name"] for item in rest.call("GET", "/api/v1/namespaces")["items"]}
    assert not names & set(TEAMS)
    listed = rest.call("GET", "/apis/scheduling.k8s.io/v1/priorityclasses")["items"]
    assert not [item for item in listed if item["metadata"]["name"].startswith("gpufleet-")]
    assert rest.call("GET", "/apis/apps/v1/daemonsets")["items"] == []
