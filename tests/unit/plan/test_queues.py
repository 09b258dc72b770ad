"""Queues of an EKS site: flavors, quotas at maximum size, orders as one, and topology where it can work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpufleet.plan.kueue import Object
from gpufleet.plan.models import KubernetesPlan, NodeGroupPlan
from gpufleet.plan.queue_models import FlavorPlan, QueuesPlan
from gpufleet.plan.queues import ORDER_LABEL, queue_objects, queue_values
from tests.unit.plan.fleets import CATALOG, block, group, odcr, on_demand, plan_of, spot

TEAMS = [
    {"name": "research", "gpus": 16, "neuron_devices": 16},
    {"name": "serving", "gpus": 8, "priority": "high"},
]
EFA = {"network": "efa", "zones": ["us-east-1a"]}
LAYERS = tuple(f"topology.k8s.aws/network-node-layer-{number}" for number in (1, 2, 3, 4))
HOST = "kubernetes.io/hostname"


def kubernetes(
    *groups: dict[str, Any], queues: Any = None, autoscaler: Any = None, **site: Any
) -> KubernetesPlan:
    settings: dict[str, Any] = {"teams": TEAMS, "queues": {} if queues is None else queues}
    if autoscaler is not None:
        settings["autoscaler"] = autoscaler
    found = plan_of(*groups, scheduler="kubernetes", kubernetes=settings, **site).cloud[0].kubernetes
    assert found is not None
    return found


def queues_of(*groups: dict[str, Any], **more: Any) -> QueuesPlan:
    found = kubernetes(*groups, **more).queues
    assert found is not None
    return found


def only(*groups: dict[str, Any], **more: Any) -> FlavorPlan:
    (flavor,) = queues_of(*groups, **more).flavors
    return flavor


def objects(plan: KubernetesPlan) -> dict[str, Object]:
    assert plan.queues is not None
    found = queue_objects("use1", plan.queues, plan.teams)
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in found}


def test_site_without_the_field_or_with_none_has_no_queues_and_the_same_nodes() -> None:
    order = {"ordered_capacity": [{"name": "drawn", "nodes": 2, "groups": ["a"]}]}
    groups = [group("a", "g6.xlarge", on_demand(0, 2))]
    plain = plan_of(*groups, scheduler="kubernetes", kubernetes={"teams": TEAMS}, **order)
    off = plan_of(
        *groups, scheduler="kubernetes", kubernetes={"teams": TEAMS, "queues": {"kind": "none"}}, **order
    )
    assert plain == off
    assert plain.cloud[0].kubernetes is not None and plain.cloud[0].kubernetes.queues is None
    assert not any(ORDER_LABEL in each.labels for each in plain.node_groups)


def test_group_of_an_order_on_slurm_or_without_settings_has_no_label_of_queues() -> None:
    order = {"ordered_capacity": [{"name": "drawn", "nodes": 2, "groups": ["a"]}]}
    made = group("a", "g6.xlarge", on_demand(0, 2))
    for site in ({"kubernetes": {"teams": TEAMS, "queues": {}}}, {"scheduler": "kubernetes"}):
        (found,) = plan_of(made, **order, **site).node_groups
        assert ORDER_LABEL not in found.labels


def test_each_group_with_devices_is_a_flavor_of_its_nodes_at_maximum_size() -> None:
    found = queues_of(
        group("gpu", "g6.12xlarge", spot(0, 4)),
        group("part", "g6f.large", on_demand(1, 3)),
        group("neuron", "trn1.32xlarge", on_demand(0, 2)),
        group("cpu", "m7i.xlarge", on_demand(1, 9)),
    )
    assert [(each.name, each.resource, each.devices) for each in found.flavors] == [
        ("gpu", "nvidia.com/gpu", 16),
        ("part", "nvidia.com/gpu", 3),
        ("neuron", "aws.amazon.com/neuron", 32),
    ]
    assert found.flavors[0].labels == {"gpufleet.io/node-group": "gpu"}
    assert [taint.key for taint in found.flavors[2].taints] == ["aws.amazon.com/neuron"]
    assert sum(found.guaranteed["research"].values()) == 12 + 1 + 16


def test_shares_of_gpus_count_as_their_part_of_a_gpu() -> None:
    plan = kubernetes(
        group("whole", "g6.12xlarge", on_demand(0, 2)),
        group("sliced", "g6.12xlarge", on_demand(0, 2)) | {"gpu_sharing": {"time_slicing": {"replicas": 4}}},
        group("parts", "p5.48xlarge", on_demand(0, 1)) | {"mig_profile": "1g.10gb"},
    )
    assert plan.queues is not None
    assert [(each.resource, each.devices, each.per_device) for each in plan.queues.flavors] == [
        ("nvidia.com/gpu", 8, 1),
        ("nvidia.com/gpu.shared", 8, 4),
        ("nvidia.com/mig-1g.10gb", 8, 7),
    ]
    own = plan.queues.guaranteed["research"]
    assert sum(own.values()) == 16
    queue = objects(plan)["ClusterQueue/research"]["spec"]["resourceGroups"]
    quotas = {
        flavor["name"]: flavor["resources"][0] for resources in queue[:3] for flavor in resources["flavors"]
    }
    assert quotas["sliced"]["nominalQuota"] == str(4 * own["sliced"])
    assert quotas["parts"]["nominalQuota"] == str(7 * own["parts"])
    configuration = queue_values(plan.queues, plan.teams, 1)["managerConfig"]["controllerManagerConfigYaml"]
    transformed = json.loads(configuration)["resources"]["transformations"]
    assert {each["input"]: each["outputs"] for each in transformed} == {
        "nvidia.com/gpu": {"gpufleet.io/gpu-thousandths": "1000"},
        "nvidia.com/gpu.shared": {"gpufleet.io/gpu-thousandths": "250"},
        "nvidia.com/mig-1g.10gb": {"gpufleet.io/gpu-thousandths": "142"},
    }


def test_guarantees_are_shares_where_teams_ask_for_more_than_there_is() -> None:
    found = queues_of(group("gpu", "g6.12xlarge", on_demand(3, 3)))
    assert found.guaranteed == {"research": {"gpu": 8}, "serving": {"gpu": 4}}


def test_order_is_one_flavor_of_no_more_nodes_than_it_draws() -> None:
    groups = [
        group("held", "p5.48xlarge", odcr(2), network="efa", zones=["us-east-1a"]),
        group("cheap", "p5.48xlarge", spot(0, 4), **EFA, taints=[{"key": "example.com/spot"}]),
    ]
    order = {"ordered_capacity": [{"name": "train", "nodes": 4, "groups": ["held", "cheap"]}]}
    flavor = only(*groups, **order)
    assert flavor.name.startswith("ordered.train.") and flavor.devices == 32
    assert flavor.node_groups == ("held", "cheap")
    assert [taint.key for taint in flavor.taints] == ["nvidia.com/gpu", "example.com/spot"]
    plan = plan_of(*groups, scheduler="kubernetes", kubernetes={"teams": TEAMS, "queues": {}}, **order)
    for each in plan.node_groups:
        assert flavor.labels.items() <= each.labels.items()
    assert flavor.topology == (*LAYERS[:3], HOST)


def test_group_outside_of_an_order_is_a_flavor_of_its_own() -> None:
    groups = [group("drawn", "g6.xlarge", on_demand(0, 2)), group("own", "g6.xlarge", on_demand(0, 2))]
    order = {"ordered_capacity": [{"name": "first", "nodes": 2, "groups": ["drawn"]}]}
    flavors = queues_of(*groups, **order).flavors
    assert {each.name: each.node_groups for each in flavors} == {
        "own": ("own",),
        "ordered.first": ("drawn",),
    }
    assert [each.labels for each in flavors] == [
        {"gpufleet.io/node-group": "own"},
        {ORDER_LABEL: "first"},
    ]
    plan = plan_of(*groups, scheduler="kubernetes", kubernetes={"teams": TEAMS, "queues": {}}, **order)
    assert [each.labels.get(ORDER_LABEL) for each in plan.node_groups] == ["first", None]


def test_order_of_gpus_and_neuron_devices_is_a_flavor_of_each() -> None:
    groups = [group("gpu", "g6.xlarge", on_demand(0, 2)), group("neuron", "inf2.xlarge", on_demand(0, 2))]
    order = {"ordered_capacity": [{"name": "mixed", "nodes": 2, "groups": ["gpu", "neuron"]}]}
    found = queues_of(*groups, **order).flavors
    assert [(each.name, each.devices) for each in found] == [
        ("ordered.mixed.gpu", 2),
        ("ordered.mixed.neuron", 2),
    ]
    plan = plan_of(*groups, scheduler="kubernetes", kubernetes={"teams": TEAMS, "queues": {}}, **order)

    def chosen(nodes: NodeGroupPlan) -> list[str]:
        return [each.name for each in found if each.labels.items() <= nodes.labels.items()]

    assert [chosen(each) for each in plan.node_groups] == [["ordered.mixed.gpu"], ["ordered.mixed.neuron"]]


@pytest.mark.parametrize(
    ("made", "layers"),
    [
        (group("a", "p5.48xlarge", on_demand(2, 2), **EFA), 3),
        (group("a", "p6-b200.48xlarge", on_demand(2, 2), **EFA), 4),
        (group("a", "p5.48xlarge", block(2), zones=["us-east-1a"]), 3),
        (group("a", "p5.48xlarge", odcr(2, id="cr-0123456789abcdef0", zone="us-east-1a"), network="efa"), 3),
        (group("a", "g6e.2xlarge", on_demand(2, 2), placement="cluster", zones=["us-east-1a"]), 3),
        # Not close together, not described by EC2, or of two depths.
        (group("a", "g6e.2xlarge", on_demand(2, 2)), 0),
        (group("a", "g6.2xlarge", on_demand(2, 2), placement="cluster", zones=["us-east-1a"]), 0),
        (group("a", ["p5.48xlarge", "p6-b200.48xlarge"], on_demand(2, 2), **EFA), 0),
    ],
)
def test_topology_has_the_layers_that_ec2_describes_for_all_types(made: dict[str, Any], layers: int) -> None:
    flavor = only(made)
    assert flavor.topology == ((*LAYERS[:layers], HOST) if layers else ())
    assert (flavor.name == "a") is (layers == 0)


def test_region_that_ec2_does_not_describe_has_no_topology() -> None:
    made = group("a", "p5.48xlarge", on_demand(2, 2), network="efa", zones=["ca-west-1a"])
    assert only(made, region="ca-west-1", zones=["ca-west-1a"]).topology == ()


def test_nodes_that_are_added_for_pods_have_no_topology() -> None:
    """Kueue places pods on nodes that exist, and the autoscaler adds nodes for pods that Kueue placed."""
    grows = group("a", "p5.48xlarge", on_demand(0, 2), **EFA)
    fixed = group("a", "p5.48xlarge", on_demand(2, 2), **EFA)
    assert only(grows).topology != ()
    assert only(grows, autoscaler={}).topology == ()
    assert only(grows, autoscaler={"kind": "none"}).topology == (), "another program adds nodes"
    held = group("a", "p5.48xlarge", odcr(2), **EFA)
    karpenter = {"kind": "karpenter"}
    assert only(held, autoscaler=karpenter).topology != ()
    assert only(held, autoscaler=karpenter | {"reserved_nodes": "node-pools"}).topology == ()
    assert only(fixed, autoscaler={}).topology != ()
    order = {"ordered_capacity": [{"name": "train", "nodes": 2, "groups": ["a"]}]}
    assert only(grows, autoscaler={}, **order).topology != (), "the order adds them"
    assert only(fixed, queues={"topology": False}).topology == ()


def test_flavor_with_a_topology_has_another_name_once_its_tolerations_change() -> None:
    first = only(group("a", "p5.48xlarge", on_demand(2, 2), **EFA))
    same = only(group("a", "p5.48xlarge", on_demand(4, 4), **EFA))
    tainted = group("a", "p5.48xlarge", on_demand(2, 2), **EFA, taints=[{"key": "example.com/x"}])
    assert first.name == same.name != only(tainted).name


def test_objects_name_only_what_comes_before_them() -> None:
    plan = kubernetes(
        group("a", "p5.48xlarge", on_demand(2, 2), **EFA),
        group("b", "p6-b200.48xlarge", on_demand(2, 2), **EFA),
        group("c", "trn1.32xlarge", on_demand(0, 2)),
    )
    found = objects(plan)
    topologies = {name for name in found if name.startswith("Topology/")}
    assert topologies == {"Topology/ec2-3-layers", "Topology/ec2-4-layers"}
    for item in found.values():
        named = item.get("spec", {}).get("topologyName")
        assert named is None or f"Topology/{named}" in topologies
    for team in ("research", "serving"):
        flavors = [
            flavor["name"]
            for resources in found[f"ClusterQueue/{team}"]["spec"]["resourceGroups"]
            for flavor in resources["flavors"]
        ]
        assert all(f"ResourceFlavor/{name}" in found for name in flavors)
        assert found[f"ClusterQueue/{team}"]["spec"]["cohortName"] == "use1"


def test_kueue_runs_on_system_nodes() -> None:
    plan = kubernetes(group("a", "g6.xlarge", on_demand(1, 1)))
    assert plan.queues is not None
    manager = queue_values(plan.queues, plan.teams, 2)["controllerManager"]
    assert manager["nodeSelector"] == {"gpufleet.io/node-group": "system"}
    assert manager["manager"]["image"]["tag"] == f"v{plan.queues.kueue}"
    assert (plan.queues.jobset, plan.queues.leader_worker_set) == (None, None)


def test_further_controllers_are_those_of_the_channel() -> None:
    plan = kubernetes(queues={"jobset": True, "leader_worker_set": True})
    lock = CATALOG.lock("2026.11")
    assert plan.queues is not None
    assert (plan.queues.jobset, plan.queues.leader_worker_set) == (lock.jobset, lock.lws)
