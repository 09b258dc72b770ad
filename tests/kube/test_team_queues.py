"""Queues of an EKS site on a real API server, judged by the real Kueue: its webhooks and its decisions."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.components.team_queues import jobset_values, leader_worker_set_values
from gpufleet.engine.api import RunResult, StackRequest
from gpufleet.engine.embedded.engine import EmbeddedEngine
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from gpufleet.plan import build_plan
from gpufleet.plan.models import KubernetesPlan
from gpufleet.plan.queues import queue_objects, queue_values
from tests.kube.build import MINOR
from tests.kube.cluster import ApiServerProcess
from tests.kube.cluster_programs import module_folder
from tests.kube.kueue_manager import KueueManager, wait
from tests.kube.team_jobs import KUEUE, Jobs, condition, pods
from tests.kube.test_kubernetes_gpu import rendered
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec

pytestmark = pytest.mark.xdist_group("kube")

ROOT = Path(__file__).resolve().parents[2]
LAYERS = [f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3)]

PROGRAM = """
    import json
    import pathlib

    import pulumi
    import pulumi_kubernetes as k8s

    from gpufleet.components.cluster_base import ClusterBase, ClusterBaseArgs, TeamArgs
    from gpufleet.components.team_queues import TeamQueues, TeamQueuesArgs
    from gpufleet.plan.kueue import priority_policy


    class WithoutCharts(TeamQueues):
        # The emulated provider installs no charts on a server: the test does what they would.
        def _release(self, part, chart, version, values):
            return k8s.core.v1.ConfigMap(
                f"{self._name}-{part}",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=part),
                opts=self.child(),
            )


    provider = k8s.Provider(
        "cluster", cluster_identifier="test", enable_server_side_apply=True, enable_patch_force=True
    )
    opts = pulumi.ResourceOptions(providers=[provider])
    base = ClusterBase(
        "base",
        ClusterBaseArgs(
            teams=[TeamArgs(name="research", gpus=16), TeamArgs(name="serving", gpus=8, priority="high")],
            queues=True,
            region="us-east-1",
        ),
        opts,
    )
    if pulumi.Config().get_bool("queues"):
        WithoutCharts(
            "queues",
            TeamQueuesArgs(
                version="0",
                values={},
                objects=json.loads(pathlib.Path("objects.json").read_text()),
                policies=priority_policy(),
                namespaces=base.namespaces,
            ),
            opts,
        )
"""


def planned(**changes: Any) -> KubernetesPlan:
    """A site with two nodes that train together, and a group that the autoscaler grows from zero."""
    pretrain = group(
        "pretrain", "p5.48xlarge", on_demand(2, 2), network="efa", zones=["us-east-1a"], **changes
    )
    site = cloud_site(
        pretrain,
        group("sweep", "g6.12xlarge", on_demand(0, 4)),
        scheduler="kubernetes",
        kubernetes={
            "private_cidrs": ["10.60.0.0/24"],
            "autoscaler": {},
            "queues": {"jobset": True},
            "teams": [{"name": "research", "gpus": 16}, {"name": "serving", "gpus": 8, "priority": "high"}],
        },
    )
    found = build_plan(spec(cloud=[site]), CATALOG).cloud[0].kubernetes
    assert found is not None and found.queues is not None
    return found


def objects_of(plan: KubernetesPlan) -> list[dict[str, Any]]:
    assert plan.queues is not None
    return queue_objects("use1", plan.queues, plan.teams)


@dataclass
class Stack:
    """The stack of the program, with its objects in a file beside it."""

    folder: Path
    kubeconfig: Path

    def write(self, plan: KubernetesPlan) -> None:
        (self.folder / "objects.json").write_text(json.dumps(objects_of(plan)))

    def run(self, verb: str, *, queues: bool = True) -> RunResult:
        request = StackRequest(
            project="queues",
            stack="dev",
            project_root=self.folder,
            program_dir=self.folder,
            state_file=self.folder / "state.json",
            config={"queues:queues": str(queues).lower()},
            providers={"kubernetes": (sys.executable, "-m", "gpufleet.lab.kubernetes")},
            env={
                "GPUFLEET_KUBECONFIG": str(self.kubeconfig),
                "PYTHONPATH": str(ROOT),
                "PULUMI_CONFIG_PASSPHRASE": "test",
            },
        )
        result: RunResult = getattr(EmbeddedEngine(), verb)(request, [].append)
        assert result.ok, [failure.error for failure in result.failures] + list(result.diagnostics)
        return result


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    """A server of its own: Kueue's definitions and webhooks are for the whole of it."""
    made = ApiServerProcess(tmp_path_factory.mktemp("server"), minor=MINOR)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stack(server: ApiServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    folder = tmp_path_factory.mktemp("stack")
    (folder / "Pulumi.yaml").write_text("name: queues\nruntime: python\n")
    (folder / "__main__.py").write_text(textwrap.dedent(PROGRAM))
    made = Stack(folder, server.kubeconfig)
    made.write(planned())
    return made


@pytest.fixture(scope="module")
def previewed(stack: Stack) -> RunResult:
    """A preview of the queues where the teams exist, and Kueue does not."""
    stack.run("up", queues=False)
    return stack.run("preview")


@pytest.fixture(scope="module")
def kueue(
    server: ApiServerProcess,
    previewed: RunResult,
    stack: Stack,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KueueManager]:
    """Kueue with the queues of the stack; the stack is destroyed while it runs, as the chart ends last."""
    plan = planned()
    assert plan.queues is not None
    values = queue_values(plan.queues, plan.teams, 1)
    made = KueueManager(server, tmp_path_factory.mktemp("kueue"), values)
    made.rest.call("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    made.install()
    jobset = module_folder("programs/kueue", "sigs.k8s.io/jobset")
    crd = jobset / "charts/jobset/crds/jobset.x-k8s.io_jobsets.yaml"
    made.define(yaml.load(crd.read_text(), Loader=yaml.CSafeLoader))
    try:
        made.start()
        stack.run("up")
        for number in (1, 2):
            join(made.rest, f"p5-{number}", {"gpufleet.io/node-group": "pretrain"})
        wait("queues are active", lambda: all(active(made.rest, team) for team in ("research", "serving")))
        yield made
    finally:
        made.stop()


def join(rest: Rest, name: str, labels: dict[str, str]) -> None:
    """A ready node with eight GPUs, as the kubelet and EKS describe it."""
    labels = labels | dict.fromkeys(LAYERS, "nn-0123456789abcdef0") | {"kubernetes.io/hostname": name}
    rest.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    patch = {"spec": {"taints": [taint]}}
    rest.call("PATCH", f"/api/v1/nodes/{name}", patch, content_type="application/merge-patch+json")
    held = {"cpu": "192", "memory": "2000Gi", "pods": "110", "nvidia.com/gpu": "8"}
    status = {
        "capacity": held,
        "allocatable": held,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    rest.call(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )


def active(rest: Rest, team: str) -> bool:
    return condition(rest.call("GET", f"{KUEUE}/clusterqueues/{team}"), "Active")[0] == "True"


def flavors(rest: Rest) -> set[str]:
    return {item["metadata"]["name"] for item in rest.call("GET", f"{KUEUE}/resourceflavors")["items"]}


@pytest.fixture
def jobs(kueue: KueueManager) -> Iterator[Jobs]:
    made = Jobs(kueue.rest)
    yield made
    made.end()


def test_preview_before_kueue_exists_shows_all_objects(previewed: RunResult) -> None:
    # The policy with its binding, what stands for its chart, and the component.
    assert previewed.changes.create == len(objects_of(planned())) + 4


def test_server_and_kueue_accept_all_objects_and_a_second_run_changes_nothing(
    kueue: KueueManager, stack: Stack
) -> None:
    assert stack.run("up").changes.total == 0
    cohorts = {
        item["metadata"]["name"]: item["spec"]["cohortName"]
        for item in kueue.rest.call("GET", f"{KUEUE}/clusterqueues")["items"]
    }
    assert cohorts == {"research": "use1", "serving": "use1"}


def test_job_without_a_queue_name_is_admitted_to_a_group_without_nodes(jobs: Jobs) -> None:
    jobs.submit("research", "sweep", pods(2, 4, "sweep"))
    found = jobs.admitted("research", "sweep")
    (assigned,) = found["status"]["admission"]["podSetAssignments"]
    assert assigned["flavors"]["nvidia.com/gpu"] == "sweep"
    assert "topologyAssignment" not in assigned


def test_job_beyond_the_quota_of_its_team_waits(jobs: Jobs) -> None:
    jobs.submit("serving", "large", pods(3, 4, "sweep"))
    message = jobs.refused("serving", "large", "insufficient")
    assert "gpufleet.io/gpu-thousandths" in message or "nvidia.com/gpu" in message
    jobs.submit("serving", "small", pods(2, 4, "sweep"))
    jobs.admitted("serving", "small")
    assert jobs.job("serving", "large")["spec"]["suspend"]


def test_nominal_quotas_and_limits_of_a_team_hold_over_all_groups(jobs: Jobs) -> None:
    jobs.submit("research", "first", pods(3, 4, "sweep"))
    jobs.admitted("research", "first")
    near = {"kueue.x-k8s.io/podset-preferred-topology": LAYERS[2]}
    jobs.submit("research", "second", pods(1, 8, "pretrain", near))
    # Of the reasons Kueue tells one: the limit, or that the other group has no topology.
    jobs.refused("research", "second", "couldn't assign flavors")
    jobs.delete("research", "first")
    jobs.admitted("research", "second")


def test_job_that_asks_for_a_topology_gets_nodes_of_one_network_node(jobs: Jobs) -> None:
    near = {"kueue.x-k8s.io/podset-required-topology": LAYERS[2]}
    jobs.submit("research", "train", pods(2, 8, "pretrain", near))
    (assigned,) = jobs.admitted("research", "train")["status"]["admission"]["podSetAssignments"]
    assert assigned["flavors"]["nvidia.com/gpu"].startswith("pretrain.")
    assert json.dumps(assigned["topologyAssignment"]).count("p5-") >= 1


def test_job_on_nodes_with_a_topology_has_to_ask_for_it(jobs: Jobs) -> None:
    jobs.submit("research", "plain", pods(1, 8, "pretrain"))
    jobs.refused("research", "plain", "supports only TopologyAwareScheduling")
    anywhere = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    jobs.submit("research", "anywhere", pods(1, 8, "pretrain", anywhere))
    jobs.admitted("research", "anywhere")


def test_team_uses_no_priority_above_its_own(kueue: KueueManager, jobs: Jobs) -> None:
    label = {"kueue.x-k8s.io/priority-class": "gpufleet-high"}

    def refused() -> str:
        try:
            jobs.submit("research", "above", pods(1, 1, "sweep"), **label)
        except ApiError as error:
            return error.message
        jobs.end()
        return ""

    assert "one of gpufleet-low, gpufleet-normal is allowed" in wait("a policy applies", refused)
    jobs.submit("serving", "high", pods(1, 1, "sweep"), **label)
    assert jobs.admitted("serving", "high")["spec"]["priority"] == 100_000


def test_job_set_is_admitted_as_one(kueue: KueueManager) -> None:
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/research/jobsets"
    job = {"name": "workers", "replicas": 1, "template": {"spec": pods(2, 4, "sweep")}}
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set"}}
    kueue.rest.call("POST", path, made | {"spec": {"replicatedJobs": [job]}})
    assert kueue.rest.call("GET", f"{path}/set")["spec"]["suspend"] is True
    wait("the set runs", lambda: not kueue.rest.call("GET", f"{path}/set")["spec"]["suspend"], kueue.tail)
    kueue.rest.call("DELETE", f"{path}/set")


def test_flavor_with_another_taint_takes_the_place_of_the_old_one_while_kueue_runs(
    kueue: KueueManager, stack: Stack
) -> None:
    """Kueue refuses other tolerations of a flavor with a topology."""
    before = {
        item["metadata"]["name"] for item in kueue.rest.call("GET", f"{KUEUE}/resourceflavors")["items"]
    }
    stack.write(planned(taints=[{"key": "example.com/held", "value": "yes"}]))
    stack.run("up")
    after = flavors(kueue.rest)
    (gone,), (new,) = before - after, after - before
    assert gone.startswith("pretrain.") and new.startswith("pretrain.")
    wait("queues are active", lambda: active(kueue.rest, "research"))


def test_destroy_leaves_no_object_of_kueue(kueue: KueueManager, stack: Stack) -> None:
    stack.run("destroy")
    for kind in ("clusterqueues", "resourceflavors", "topologies", "workloadpriorityclasses"):
        assert kueue.rest.call("GET", f"{KUEUE}/{kind}")["items"] == []


@pytest.mark.parametrize(
    ("module", "chart", "values"),
    [
        ("sigs.k8s.io/jobset", "charts/jobset", jobset_values("0.12.0")),
        ("sigs.k8s.io/lws", "charts/lws", leader_worker_set_values("0.9.0")),
        ("sigs.k8s.io/kueue", "charts/kueue", {}),
    ],
)
def test_pods_of_charts_run_on_system_nodes_without_rights_on_them(
    server: ApiServerProcess, module: str, chart: str, values: dict[str, Any]
) -> None:
    """The API server refuses pods that do not meet the profile of their namespace."""
    if not values:
        plan = planned()
        assert plan.queues is not None
        values = queue_values(plan.queues, plan.teams, 2)
    made = rendered(module_folder("programs/kueue", module) / chart, values)
    (deployment,) = [item for item in made if item["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 2
    template = deployment["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"gpufleet.io/node-group": "system"}
    (image,) = [each["image"] for each in template["spec"]["containers"]]
    assert image.startswith("registry.k8s.io/") and not image.endswith((":main", "staging"))
    rest, name = server.rest(), chart.rpartition("/")[2]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    rest.call("POST", "/api/v1/namespaces", {"metadata": {"name": f"charts-{name}", "labels": labels}})
    pod = {"metadata": {"name": "p", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    rest.call("POST", f"/api/v1/namespaces/charts-{name}/pods", pod)
