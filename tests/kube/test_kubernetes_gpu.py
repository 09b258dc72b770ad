"""A real API server judges the objects of kubernetes_gpu; only differences are changed."""

from __future__ import annotations

import copy
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import tests.unit.ansible.conftest  # noqa: F401
from gpufleet.lab.kubernetes.rest import ApiError, Rest
from gpufleet.plan.gpu_quotas import GpuPool
from gpufleet.plan.kueue import Devices, Flavor, kueue_objects, kueue_values, priority_policy
from gpufleet.plan.rack_models import TaintPlan
from tests.kube import charts, cluster_programs
from tests.kube.cluster import ApiServerProcess
from tests.unit.ansible.collection.conftest import load, run  # noqa: F401
from tests.unit.ansible.gpu_roles import Role
from tests.unit.ansible.test_kubernetes_gpu_templates import SLICED, TEAMS, WHOLE, role

pytestmark = pytest.mark.xdist_group("kube")

Apply = Callable[..., dict[str, Any]]
LEVELS = ["gpufleet.io/leaf", "gpufleet.io/rack", "kubernetes.io/hostname"]
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
PRUNE = {
    "kubernetes-gpu": ["resourcequotas", "priorityclasses.scheduling.k8s.io"],
    "kubernetes-gpu-queues": [
        f"{name}.kueue.x-k8s.io"
        for name in (
            "localqueues",
            "clusterqueues",
            "cohorts",
            "resourceflavors",
            "topologies",
            "workloadpriorityclasses",
        )
    ],
}


@pytest.fixture(scope="package")
def kueue_definitions(api_server: ApiServerProcess) -> Iterator[None]:
    """Kueue's definitions, as its chart installs them, on the tests' server."""
    folder = charts.kueue()
    rest = api_server.rest()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    # Only those of the role's objects: the others are twenty times their size.
    names = [name.partition(".")[0] for name in PRUNE["kubernetes-gpu-queues"]]
    files = [folder / "definitions" / f"kueue.x-k8s.io_{name}.yaml" for name in names]
    made = [yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in files]
    for item in made:
        rest.call("POST", path, item)
    deadline = time.monotonic() + 180
    for item in made:
        while not established(rest.call("GET", f"{path}/{item['metadata']['name']}")):
            assert time.monotonic() < deadline, f"{item['metadata']['name']} is not served"
            time.sleep(0.2)
    yield
    for item in made:
        rest.call("DELETE", f"{path}/{item['metadata']['name']}")


def established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


@pytest.fixture
def apply(api_server: ApiServerProcess, run: Callable[..., dict[str, Any]]) -> Apply:  # noqa: F811
    """Run kubernetes_objects against the server as the role's tasks do."""
    module: ModuleType = load("kubernetes_objects")

    def call(objects: list[dict[str, Any]], part_of: str = "t", **more: Any) -> dict[str, Any]:
        more = {
            "prune": PRUNE.get(part_of, []),
            "wait_s": 30,
            "kubeconfig": str(api_server.kubeconfig),
        } | more
        return run(module, objects=copy.deepcopy(objects), part_of=part_of, **more)

    return call


def site(teams: list[dict[str, Any]] = TEAMS) -> Role:
    pools: list[dict[str, Any]] = [WHOLE, SLICED]
    flavors = tuple(
        Flavor(
            GpuPool(pool["name"], pool["resource"], pool["per_gpu"], pool["gpus"]),
            {"gpufleet.io/node-group": pool["name"]},
            tuple(TaintPlan(**taint) for taint in pool["taints"]),
            "dc1",
        )
        for pool in pools
    )
    limits = {team["name"]: team["gpus"] for team in teams}
    return role(
        pools,
        kubernetes_gpu_teams=teams,
        kubernetes_gpu_queues=kueue_objects("dc1", list(limits), [Devices(flavors, limits)], {"dc1": LEVELS}),
        kubernetes_gpu_priority_policy=priority_policy(),
    )


def test_server_accepts_all_objects_of_the_role_and_a_second_run_changes_nothing(
    apply: Apply, rest: Rest, kueue_definitions: None
) -> None:
    parts = {"kubernetes-gpu": "kubernetes_gpu__base", "kubernetes-gpu-queues": "kubernetes_gpu_queues"}
    for part_of, variable in parts.items():
        objects = site().value(variable)
        checked = apply(objects, part_of, check=True)
        assert len(checked["changed_objects"]) == len(objects)
        assert apply(objects, part_of)["changed_objects"] == checked["changed_objects"]
        assert apply(objects, part_of)["changed"] is apply(objects, part_of, check=True)["changed"] is False

    fewer = [TEAMS[0] | {"gpus": 10}]
    reported = {part: apply(site(fewer).value(name), part, check=True) for part, name in parts.items()}
    done = {part: apply(site(fewer).value(name), part) for part, name in parts.items()}
    for part in parts:
        for kind in ("changed_objects", "removed_objects"):
            assert reported[part][kind] == done[part][kind]
    assert done["kubernetes-gpu-queues"]["changed_objects"] == ["Cohort dc1", "ClusterQueue research"]
    removed = done["kubernetes-gpu-queues"]["removed_objects"]
    assert sorted(removed) == ["ClusterQueue product", "LocalQueue product/default"]
    assert done["kubernetes-gpu"]["changed_objects"] == ["ResourceQuota research/gpus"]
    assert rest.find(f"{QUEUES}/product") is None
    # The namespace of a team is never deleted.
    assert rest.find("/api/v1/namespaces/product") is not None
    flavors = rest.call("GET", f"{QUEUES}/research")["spec"]["resourceGroups"][0]["flavors"]
    assert flavors[0]["resources"][0] == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "7",
        "borrowingLimit": "3",
    }


def test_jobs_of_a_team_use_no_kueue_priority_above_the_team(apply: Apply, rest: Rest) -> None:
    apply(site().value("kubernetes_gpu__base"), "kubernetes-gpu")
    path = "/api/v1/namespaces/research/configmaps"

    def ask(level: str, name: str) -> None:
        labels = {"kueue.x-k8s.io/priority-class": f"gpufleet-{level}"}
        rest.call("POST", path, {"metadata": {"name": name, "labels": labels}})

    deadline = time.monotonic() + 300
    for attempt in range(1000):  # a policy applies as soon as the server has read it
        try:
            ask("high", f"above-{attempt}")
        except ApiError as refusal:
            shown = str(refusal)
            break
        assert time.monotonic() < deadline, "a priority above the team's is not refused"
        time.sleep(0.3)
    assert "priority gpufleet-high is above the team's" in shown
    assert "one of gpufleet-low, gpufleet-normal is allowed" in shown
    ask("normal", "own")
    ask("low", "below")


def test_only_joined_nodes_are_labelled_and_obsolete_labels_are_removed(apply: Apply, rest: Rest) -> None:
    node = {"metadata": {"name": "dgx03", "labels": {"somebodys": "own"}}}
    rest.call("POST", "/api/v1/nodes", node)
    ours = {"only_existing": True, "field_manager": "gpufleet-nodes"}

    def labels() -> dict[str, str]:
        return dict(rest.call("GET", "/api/v1/nodes/dgx03")["metadata"]["labels"])

    shared = role([WHOLE, SLICED]).value("kubernetes_gpu_pools | gpufleet.rack.kubernetes_node_objects")
    assert apply(shared, check=True, **ours)["changed_objects"] == ["Node dgx03"]
    first = apply(shared, **ours)
    assert first["skipped_objects"] == ["Node dgx01", "Node dgx02"]
    assert labels() == {"somebodys": "own", "nvidia.com/device-plugin.config": "time-slicing-4"}
    assert apply(shared, **ours)["changed"] is False
    plain = role([WHOLE | {"nodes": ["dgx03"]}]).value(
        "kubernetes_gpu_pools | gpufleet.rack.kubernetes_node_objects"
    )
    assert apply(plain, **ours)["changed"] is True
    assert labels() == {"somebodys": "own"}
    assert apply(plain, **ours)["changed"] is False
    assert rest.find("/api/v1/nodes/dgx01") is None
    rest.call("DELETE", "/api/v1/nodes/dgx03")


def config_map(name: str, data: dict[str, str], namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_object_that_the_server_refuses_stops_the_task_before_any_change(apply: Apply, rest: Rest) -> None:
    failed = apply([config_map("good", {}), config_map("bad", {"not a key": "v"})])
    assert failed["failed"] and "refuses ConfigMap default/bad" in failed["msg"]
    assert rest.find("/api/v1/namespaces/default/configmaps/good") is None


def test_missing_kinds_and_namespaces_are_differences(apply: Apply) -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "n"}}
    objects = [config_map("in", {}, namespace="not-yet"), unknown]
    found = apply(objects, check=True, prune=["nothings.example.com"])
    assert found["changed_objects"] == ["ConfigMap not-yet/in", "Nothing n"]
    failed = apply([unknown], wait_s=0)
    assert failed["failed"] and "Nothing" in failed["msg"]


def test_changed_fields_are_reset_and_added_fields_stay(apply: Apply, rest: Rest) -> None:
    path = "/api/v1/namespaces/default/configmaps/of-two"
    ours = config_map("of-two", {"k": "ours", "gone": "soon"})
    apply([ours])
    change = {"data": {"k": "theirs", "l": "theirs"}}
    rest.call("PATCH", path, change, content_type="application/merge-patch+json")
    assert apply([ours])["changed_objects"] == ["ConfigMap default/of-two"]
    assert rest.call("GET", path)["data"] == {"k": "ours", "gone": "soon", "l": "theirs"}
    apply([config_map("of-two", {"k": "ours"})])
    assert rest.call("GET", path)["data"] == {"k": "ours", "l": "theirs"}


def test_only_objects_of_the_same_part_are_removed(apply: Apply, rest: Rest) -> None:
    kinds = {"prune": ["configmaps"]}
    rest.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "peoples"}})
    apply([config_map("other-part", {})], "other", **kinds)
    apply([config_map("a", {}), config_map("b", {})], "mine", **kinds)
    assert apply([config_map("a", {})], "mine", **kinds)["removed_objects"] == ["ConfigMap default/b"]
    folder = "/api/v1/namespaces/default/configmaps"
    assert rest.find(f"{folder}/b") is None
    assert all(rest.find(f"{folder}/{name}") for name in ("a", "other-part", "peoples"))


def rendered(chart: Path, values: dict[str, Any], *flags: str, name: str = "r") -> list[dict[str, Any]]:
    """Output of helm for a chart with values; `name` is that of the release and of its namespace."""
    command = charts.helm()
    if command is None:
        pytest.skip("no helm: put one on PATH, or build it with `python -m tests.kube.charts`")
    words = [command, "template", name, str(chart), "--namespace", name, "--values", "-", *flags]
    done = subprocess.run(words, input=json.dumps(values), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def values_of(release: str, **more: Any) -> dict[str, Any]:
    found = {item["name"]: item for item in role([WHOLE, SLICED], **more).value("kubernetes_gpu__releases")}
    return dict(found[release]["values"])


def test_kueue_chart_accepts_the_values_and_runs_on_the_chosen_nodes() -> None:
    folder = charts.kueue()
    labels = {"node-role.kubernetes.io/control-plane": ""}
    values = kueue_values([], cluster_programs.KUEUE, replicas=2, node_selector=labels)
    made = rendered(folder / "chart", values)
    (manager,) = [item for item in made if item["kind"] == "Deployment"]
    pod = manager["spec"]["template"]["spec"]
    assert manager["spec"]["replicas"] == 2
    assert pod["nodeSelector"]["node-role.kubernetes.io/control-plane"] == ""
    assert [item["image"] for item in pod["containers"]] == [
        f"registry.k8s.io/kueue/kueue:v{cluster_programs.KUEUE}"
    ]
    (config,) = [item["data"] for item in made if item["kind"] == "ConfigMap" and item["data"]]
    wanted = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    reported = yaml.safe_load(config["controller_manager_config.yaml"])
    assert {name: reported[name] for name in wanted} == wanted


def test_versions_pinned_in_tests_are_those_of_the_lock() -> None:
    from gpufleet.catalog import load_catalog

    locks = load_catalog().locks.values()
    assert cluster_programs.KUEUE in {lock.kueue for lock in locks}
    assert cluster_programs.HELM in {lock.helm for lock in locks}


def nvidia(name: str) -> Path:
    found = charts.nvidia_chart(name)
    if found is None:
        pytest.skip(f"GPUFLEET_TEST_CHARTS names no folder with the chart {name}")
    return found


def test_gpu_operator_installs_no_driver_and_nothing_else_that_the_host_has() -> None:
    made = rendered(nvidia("gpu-operator"), values_of("gpu-operator"))
    (policy,) = [item["spec"] for item in made if item["kind"] == "ClusterPolicy"]
    for part in ("driver", "toolkit", "dcgm", "dcgmExporter", "migManager", "gds", "gdrcopy"):
        assert policy[part]["enabled"] is False, part
    assert policy["devicePlugin"]["enabled"] is True and policy["mig"]["strategy"] == "mixed"
    assert policy["devicePlugin"]["config"] == {"name": "gpufleet-device-plugin", "default": "default"}
    assert not [item for item in made if item["kind"] == "NVIDIADriver"]
    (configs,) = [item for item in made if item["metadata"]["name"] == "gpufleet-device-plugin"]
    assert set(configs["data"]) == {"default", "time-slicing-4"}


@pytest.mark.parametrize("virtual", [False, True])
def test_network_operator_definitions_accept_the_fabric(
    api_server, apply: Apply, rest: Rest, virtual
) -> None:
    chart = nvidia("network-operator")
    more: dict[str, Any] = {
        "kubernetes_gpu_fabric_kind": "roce",
        "kubernetes_gpu_interfaces": ["ens1", "ens2"],
        "kubernetes_gpu_virtual_functions": 8 if virtual else 0,
        "kubernetes_gpu_mtu": 9000,
    }
    made = rendered(chart, values_of("network-operator", **more))
    assert not [item for item in made if "mofed" in item["metadata"]["name"]]
    operators = [item["metadata"]["name"] for item in made if item["kind"] == "Deployment"]
    assert any("sriov" in name for name in operators) is virtual
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "network-operator"}}
    definitions = [
        item
        for folder in (chart / "crds", chart / "charts" / "sriov-network-operator" / "crds")
        for file in sorted(folder.glob("*.yaml"))
        for item in yaml.safe_load_all(file.read_text())
        if item and item["kind"] == "CustomResourceDefinition"
    ]
    apply([namespace, *definitions], "definitions")
    objects = role(**more).value("kubernetes_gpu__fabric")
    assert len(apply(objects, "fabric", wait_s=60)["changed_objects"]) == len(objects)
    assert apply(objects, "fabric")["changed"] is False
    apply([], "fabric", prune=["nicclusterpolicies.mellanox.com"])
