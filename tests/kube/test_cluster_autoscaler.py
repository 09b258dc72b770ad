"""A real Cluster Autoscaler with the flags and rights that `up` gives it, on a real API server.

The tests go on from each other, in the order in which they stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.conftest import Checkout
from tests.kube.cluster import ApiServerProcess
from tests.kube.scaled_cluster import (
    CLUSTER,
    ENVIRONMENT,
    NAME,
    Autoscaler,
    ScaledCluster,
    autoscaler_program,
)

pytestmark = pytest.mark.xdist_group("kube")

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
SMALL = {"cpu": "4", "memory": "30Gi"}
LARGE = {"cpu": "32", "memory": "120Gi"}
SYSTEM = {"cpu": "4", "memory": "15Gi"}
TOLERATES_GPU = {"key": GPU, "operator": "Exists"}
TOLERATES_BOTH = [TOLERATES_GPU, {"key": "dedicated", "operator": "Exists"}]
ON_SWEEP = {"nodeSelector": {"gpufleet.io/gpu": "l40s"}, "tolerations": [TOLERATES_GPU]}
ON_TRAIN = {"nodeSelector": {"gpufleet.io/node-group": "train"}, "tolerations": TOLERATES_BOTH}
ON_STOPPED = {"nodeSelector": {"gpufleet.io/node-group": "stopped"}, "tolerations": [TOLERATES_GPU]}

FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "flt",
    "environment": ENVIRONMENT,
    "budget": {"monthly": "900000 USD"},
    "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
    "cloud": [
        {
            "site": "use1",
            "region": "us-east-1",
            "zones": ["us-east-1a", "us-east-1b"],
            "network": {"cidr": "10.42.0.0/16"},
            "scheduler": "kubernetes",
            "kubernetes": {"version": "1.35", "access": "ssm", "autoscaler": {}},
            "node_groups": [
                {
                    "name": "sweep",
                    "instance_types": ["g6e.xlarge"],
                    "capacity": {"spot": {"min": 0, "max": 3, "on_shortage": ["on-demand"]}},
                },
                {
                    "name": "train",
                    "instance_types": ["g6.8xlarge"],
                    "capacity": {"on_demand": {"min": 0, "max": 2}},
                    "zones": ["us-east-1a"],
                    "network": "efa",
                    "taints": [{"key": "dedicated"}],
                },
                {
                    "name": "stopped",
                    "instance_types": ["g6.xlarge"],
                    "capacity": {"on_demand": {"min": 1, "max": 4}},
                },
                {
                    "name": "fixed",
                    "instance_types": ["g6.xlarge"],
                    "capacity": {"on_demand": {"min": 1, "max": 1}},
                },
                {
                    "name": "drawn",
                    "instance_types": ["g6.xlarge"],
                    "capacity": {"on_demand": {"min": 0, "max": 4}},
                },
            ],
            "ordered_capacity": [{"name": "order", "nodes": 1, "groups": ["drawn"]}],
        }
    ],
    "software": {"channel": "2026.11"},
}


@pytest.fixture(scope="module")
def cluster(shared_checkout: Checkout, api_server: ApiServerProcess) -> Iterator[ScaledCluster]:
    autoscaler_program()
    file = shared_checkout.root / "stacks" / ENVIRONMENT / "fleet.yaml"
    file.write_text(yaml.safe_dump(FLEET, sort_keys=False))
    env = {"GPUFLEET_KUBECONFIG": str(api_server.kubeconfig)}
    options = ("--engine", "embedded", "--yes", "--skip-policies")
    done = shared_checkout.json("up", ENVIRONMENT, *options, env=env)
    assert done["ok"], done
    made = ScaledCluster(shared_checkout, api_server)
    # As EKS may describe a taint without a value: the autoscaler leaves it out.
    made.eks.update_nodegroup_config(
        clusterName=CLUSTER,
        nodegroupName=made.groups["train"]["nodegroupName"],
        taints={"addOrUpdateTaints": [{"key": "dedicated", "effect": "NO_SCHEDULE"}]},
    )
    for group, capacity in (("system", SYSTEM), ("fixed", SMALL), ("drawn", SMALL), ("stopped", SMALL)):
        made.join(group, capacity if group == "system" else capacity | {GPU: "1"})
    yield made
    shared_checkout.run("destroy", ENVIRONMENT, *options[:3], "--allow-data-loss", env=env)


@pytest.fixture(scope="module")
def scaler(cluster: ScaledCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autoscaler]:
    # A busy pod on each node that it may end, but for those of the tests.
    for group in ("system", "stopped"):
        for index, instance in enumerate(cluster.scaling_group(group)["Instances"]):
            requests = {"cpu": "3"} if group == "system" else {GPU: "1"}
            cluster.wait_for_node(f"busy-{group}-{index}", requests, tolerations=[TOLERATES_GPU])
            cluster.run_on(f"busy-{group}-{index}", instance["InstanceId"])
    made = Autoscaler(cluster, tmp_path_factory.mktemp("autoscaler"))
    made.waits(lambda: made.loops() > 1, "in its main loop")
    yield made
    made.stop()


def test_it_finds_the_groups_that_may_scale_and_no_others(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    found = {
        name
        for name in cluster.groups
        if cluster.scaling_group(name)["AutoScalingGroupName"] in scaler.registered()
    }
    assert found == {"system", "sweep", "sweep-fallback", "train", "stopped"}
    assert cluster.groups.keys() - found == {"fixed", "drawn"}


def test_pod_that_asks_for_a_gpu_grows_the_spot_group_from_zero(
    cluster: ScaledCluster, scaler: Autoscaler
) -> None:
    """Its fallback has the same nodes, `train` larger ones: only spot grows."""
    before = cluster.sizes()
    assert before["sweep"] == 0
    cluster.wait_for_node("one", {GPU: "1"}, **ON_SWEEP)
    scaler.waits(lambda: cluster.sizes()["sweep"] == 1, "growing")
    assert cluster.sizes() == before | {"sweep": 1}


def test_it_waits_for_the_device_plugin_of_a_new_node(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    """The node is ready, has no GPU yet, and the pod waits: one node more would be one too many."""
    (node,) = cluster.join("sweep", SMALL)
    scaler.waits(lambda: f"Overriding status of node {node}" in scaler.log, "seeing the node")
    scaler.settle()
    assert (cluster.sizes()["sweep"], cluster.sizes()["sweep-fallback"]) == (1, 0)
    cluster.report(node, SMALL | {GPU: "1"})
    cluster.run_on("one", node)
    scaler.settle()
    assert (cluster.sizes()["sweep"], cluster.sizes()["sweep-fallback"]) == (1, 0)


def test_taint_without_a_value_keeps_pods_away_from_a_group_without_nodes(
    cluster: ScaledCluster, scaler: Autoscaler
) -> None:
    """The autoscaler reads it in a tag of the Auto Scaling group."""
    cluster.wait_for_node("stranger", {GPU: "1", EFA: "1"}, tolerations=[TOLERATES_GPU])
    scaler.waits(lambda: bool(cluster.refused("stranger")), "refusing the pod")
    assert "untolerated taint" in cluster.refused("stranger")
    assert cluster.sizes()["train"] == 0
    cluster.finish("stranger")


def test_pods_that_ask_for_efa_grow_its_group_to_its_maximum(
    cluster: ScaledCluster, scaler: Autoscaler
) -> None:
    for index in range(4):
        cluster.wait_for_node(f"train-{index}", {GPU: "1", EFA: "1"}, **ON_TRAIN)
    scaler.waits(lambda: cluster.sizes()["train"] == 2, "growing")
    nodes = cluster.join("train", LARGE | {GPU: "1", EFA: "1"})
    assert len(nodes) == 2
    for index, node in enumerate(nodes):
        cluster.run_on(f"train-{index}", node)
    scaler.waits(lambda: bool(cluster.refused("train-3")), "refusing a pod")
    assert "max node group size reached" in cluster.refused("train-3")
    assert cluster.sizes()["train"] == cluster.scaling_group("train")["MaxSize"] == 2
    for index in (2, 3):
        cluster.finish(f"train-{index}")


def test_group_that_a_budget_stopped_does_not_grow(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    """As the function of the budget does: the maximum in EKS becomes the present size."""
    cluster.eks.update_nodegroup_config(
        clusterName=CLUSTER,
        nodegroupName=cluster.groups["stopped"]["nodegroupName"],
        scalingConfig={"maxSize": 1},
    )
    name = cluster.scaling_group("stopped")["AutoScalingGroupName"]
    scaler.waits(lambda: f"ASG cache for {name}. min/max/current is 1/1/1" in scaler.log, "read")
    cluster.wait_for_node("more", {GPU: "1"}, **ON_STOPPED)
    scaler.waits(lambda: bool(cluster.refused("more")), "refusing the pod")
    assert "max node group size reached" in cluster.refused("more")
    assert cluster.sizes()["stopped"] == 1
    cluster.finish("more")


def test_node_without_work_ends_and_one_with_work_stays(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    """Groups of others keep their idle nodes."""
    before = cluster.sizes()
    cluster.finish("train-0")
    scaler.waits(lambda: cluster.sizes()["train"] == 1, "shrinking")
    gone = {"train": 1}
    assert cluster.sizes() == before | gone
    assert before["fixed"] == before["drawn"] == 1
    cluster.finish("one")
    scaler.waits(lambda: cluster.sizes()["sweep"] == 0, "shrinking")
    assert cluster.sizes() == before | gone | {"sweep": 0}


def test_fallback_grows_where_spot_has_no_capacity(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    """The emulated shortage is of the type: the fallback is asked for a node, and gets none either."""
    asked = [
        f"Setting asg {cluster.scaling_group(name)['AutoScalingGroupName']} size to 1"
        for name in ("sweep", "sweep-fallback")
    ]
    before = scaler.log.count(asked[0])
    cluster.checkout.run("sandbox", "faults", "--no-capacity", "g6e.xlarge")
    cluster.wait_for_node("short", {GPU: "1"}, **ON_SWEEP)
    scaler.waits(lambda: asked[1] in scaler.log, "asking for the fallback")
    assert scaler.log.count(asked[0]) == before + 1
    assert scaler.log.rindex(asked[0]) < scaler.log.index(asked[1])
    scaler.waits(lambda: cluster.sizes()["sweep"] == 0, "giving up spot")
    cluster.finish("short")
    cluster.checkout.run("sandbox", "faults", "--clear")


def test_its_rights_in_kubernetes_suffice(scaler: Autoscaler) -> None:
    assert [line for line in scaler.log.splitlines() if "is forbidden" in line] == []


def test_its_role_in_aws_allows_what_it_calls_and_nothing_else(
    cluster: ScaledCluster, scaler: Autoscaler
) -> None:
    iam = cluster.client("iam")
    (role,) = [
        each["RoleName"]
        for each in iam.list_roles(MaxItems=1000)["Roles"]
        if each["RoleName"].startswith(f"{CLUSTER}-scaling-")
    ]
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    statements = (document if isinstance(document, dict) else json.loads(document))["Statement"]
    allowed = {action.partition(":")[2] for each in statements for action in each["Action"]}
    # Types come from a static list here, and templates are read before the program has metrics.
    assert scaler.aws_calls() | {"DescribeInstanceTypes", "DescribeLaunchTemplateVersions"} == allowed


def test_its_state_is_in_the_cluster(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    status = cluster.rest.call("GET", f"/api/v1/namespaces/kube-system/configmaps/{NAME}-status")
    assert "autoscalerStatus: Running" in status["data"]["status"]
    lease = cluster.rest.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{NAME}")
    assert lease["spec"]["holderIdentity"]


def test_second_run_changes_no_size(cluster: ScaledCluster, scaler: Autoscaler) -> None:
    """The sizes are the autoscaler's: a group that it has grown from zero stays so."""
    before = cluster.sizes()
    assert before["train"] == 1
    env = {"GPUFLEET_KUBECONFIG": str(cluster.server.kubeconfig)}
    options = ("--engine", "embedded", "--yes", "--skip-policies")
    done = cluster.checkout.json("up", ENVIRONMENT, *options, env=env)
    assert done["ok"], done
    assert cluster.sizes() == before
