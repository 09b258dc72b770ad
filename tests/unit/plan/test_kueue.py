"""Kueue's objects: quotas of teams, sums over flavors, taints and topology."""

from __future__ import annotations

from typing import Any

import yaml

from gpufleet.kinds import PRIORITIES, priority_class
from gpufleet.plan.gpu_quotas import GpuPool
from gpufleet.plan.kueue import (
    NEURON_SUM,
    Devices,
    Flavor,
    kueue_configuration,
    kueue_objects,
    kueue_values,
    priority_policy,
)
from gpufleet.plan.rack_models import TaintPlan

LIMITS = {"research": 12, "product": 8}
TAINT = TaintPlan("example.com/notebooks", "only", "NoSchedule")


def flavor(name: str, gpus: int, resource: str = "nvidia.com/gpu", per_gpu: int = 1, **more: Any) -> Flavor:
    return Flavor(GpuPool(name, resource, per_gpu, gpus), {"gpufleet.io/node-group": name}, **more)


WHOLE = flavor("train", 16)
SLICED = flavor("notebooks", 8, "nvidia.com/gpu.shared", 4, taints=(TAINT,))


def objects(*devices: Devices, levels: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    topologies = {"dc1": levels} if levels else {}
    found = kueue_objects("dc1", list(LIMITS), devices, topologies)
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in found}


def of(*flavors: Flavor) -> Devices:
    return Devices(flavors, LIMITS)


def test_team_has_a_nominal_quota_and_borrows_up_to_its_limit() -> None:
    spec = objects(of(WHOLE))["ClusterQueue/research"]["spec"]
    (group,) = spec["resourceGroups"]
    assert group["coveredResources"] == ["nvidia.com/gpu"]
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "10", "borrowingLimit": "2"}
    assert group["flavors"] == [{"name": "train", "resources": [quota]}]
    assert spec["cohortName"] == "dc1" and spec["preemption"]["reclaimWithinCohort"] == "Any"


def test_nominal_quotas_of_all_teams_are_never_more_than_there_is() -> None:
    found = objects(of(WHOLE))
    quotas = [
        int(item["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])
        for name, item in found.items()
        if name.startswith("ClusterQueue/")
    ]
    assert sum(quotas) == 16


def test_devices_that_no_team_is_guaranteed_are_for_all_to_borrow() -> None:
    """A team can fill a flavor up to its limit, also where its guarantees are spread over several."""
    second = flavor("serve", 8)
    found = objects(of(WHOLE, second, SLICED))
    shared = {
        quota["name"]: (each["name"], int(quota["nominalQuota"]))
        for group in found["Cohort/dc1"]["spec"]["resourceGroups"]
        for each in group["flavors"]
        for quota in each["resources"]
    }
    assert "borrowingLimit" not in str(found["Cohort/dc1"])
    guaranteed = of(WHOLE, second, SLICED).guaranteed()
    left = 8 - sum(own["notebooks"] for own in guaranteed.values())
    assert shared["nvidia.com/gpu.shared"] == ("notebooks", left * 4)
    assert "Cohort/dc1" not in objects(of(WHOLE)), "teams have it all"


def test_sum_in_thousandths_limits_a_team_over_several_flavors() -> None:
    found = objects(of(WHOLE, SLICED))
    groups = found["ClusterQueue/research"]["spec"]["resourceGroups"]
    covered = [group["coveredResources"] for group in groups]
    assert covered == [["nvidia.com/gpu"], ["nvidia.com/gpu.shared"], ["gpufleet.io/gpu-thousandths"]]
    (whole,) = groups[-1]["flavors"][0]["resources"]
    assert (whole["nominalQuota"], whole["borrowingLimit"]) == ("12000", "0")
    shared = groups[1]["flavors"][0]["resources"][0]
    assert (shared["nominalQuota"], shared["borrowingLimit"]) == ("16", "16")
    assert "nodeLabels" not in found["ResourceFlavor/gpufleet-all"]["spec"]
    assert "ResourceFlavor/gpufleet-all" not in objects(of(WHOLE)), "one flavor has no sum"
    assert kueue_configuration([of(WHOLE, SLICED)])["resources"]["transformations"] == [
        {"input": name, "strategy": "Retain", "outputs": {"gpufleet.io/gpu-thousandths": count}}
        for name, count in (("nvidia.com/gpu", "1000"), ("nvidia.com/gpu.shared", "250"))
    ]


def test_sums_of_gpus_and_neuron_devices_share_a_group_as_a_flavor_may_be_in_one_only() -> None:
    neuron = Devices(
        (flavor("trn-a", 16, "aws.amazon.com/neuron"), flavor("trn-b", 16, "aws.amazon.com/neuron")),
        {"research": 32, "product": 0},
        NEURON_SUM,
    )
    groups = objects(of(WHOLE, SLICED), neuron)["ClusterQueue/research"]["spec"]["resourceGroups"]
    flavors = [each["name"] for group in groups for each in group["flavors"]]
    assert len(flavors) == len(set(flavors))
    (sums,) = groups[-1]["flavors"]
    assert groups[-1]["coveredResources"] == [each["name"] for each in sums["resources"]]
    assert [each["nominalQuota"] for each in sums["resources"]] == ["12000", "32000"]


def test_flavors_are_nodes_with_taints_and_the_topology_of_the_site() -> None:
    levels = ("gpufleet.io/leaf", "kubernetes.io/hostname")
    placed = flavor("notebooks", 8, taints=(TAINT,), topology="dc1")
    found = objects(of(WHOLE, placed), levels=levels)
    spec = found["ResourceFlavor/notebooks"]["spec"]
    taint = {"key": TAINT.key, "value": "only", "effect": "NoSchedule"}
    assert spec["nodeLabels"] == {"gpufleet.io/node-group": "notebooks"}
    assert spec["nodeTaints"] == [taint] and spec["topologyName"] == "dc1"
    assert spec["tolerations"] == [{**taint, "operator": "Equal"}]
    assert [item["nodeLabel"] for item in found["Topology/dc1"]["spec"]["levels"]] == list(levels)
    plain = objects(of(WHOLE))
    assert "Topology/dc1" not in plain
    assert plain["ResourceFlavor/train"]["spec"] == {"nodeLabels": {"gpufleet.io/node-group": "train"}}


def test_workload_priorities_are_those_of_pods() -> None:
    found = objects(of(WHOLE))
    values = {
        item["metadata"]["name"]: item["value"]
        for item in found.values()
        if item["kind"] == "WorkloadPriorityClass"
    }
    assert values == {priority_class(level): value for level, value in PRIORITIES.items()}


def test_each_team_may_use_its_own_priority_and_those_below() -> None:
    policy, binding = priority_policy()
    (variable,) = policy["spec"]["variables"]
    allowed = yaml.safe_load(variable["expression"].partition("}")[0] + "}")
    assert allowed == {
        "low": ["gpufleet-low"],
        "normal": ["gpufleet-low", "gpufleet-normal"],
        "high": ["gpufleet-low", "gpufleet-normal", "gpufleet-high"],
    }
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_kueue_manages_only_namespaces_of_teams_and_counts_only_devices() -> None:
    values = kueue_values([of(WHOLE)], "0.19.2", replicas=1, node_selector={"a": "b"})
    reported = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    assert reported["managedJobsNamespaceSelector"] == {
        "matchExpressions": [{"key": "gpufleet.io/team", "operator": "Exists"}]
    }
    assert reported["manageJobsWithoutQueueName"] is True
    assert reported["resources"] == {"quotaCheckStrategy": "IgnoreUndeclared"}
    manager = values["controllerManager"]
    assert (manager["replicas"], manager["nodeSelector"]) == (1, {"a": "b"})
    twice = kueue_values([of(WHOLE)], "0.19.2", replicas=2, node_selector={})["controllerManager"]
    assert manager["podDisruptionBudget"]["enabled"] is False
    assert twice["podDisruptionBudget"]["enabled"] is True


def test_queue_of_a_team_is_in_its_namespace_and_nothing_else_is_in_one() -> None:
    found = kueue_objects("dc1", list(LIMITS), [of(WHOLE)], {})
    places = [
        (item["kind"], item["metadata"]["namespace"]) for item in found if "namespace" in item["metadata"]
    ]
    assert places == [("LocalQueue", team) for team in LIMITS]
