"""Kueue in an EKS cluster: pinned charts in guarded namespaces, and objects in the order of their names."""

from __future__ import annotations

import dataclasses
from typing import Any

import pulumi
import pytest

from gpufleet.components.team_queues import TeamQueues, TeamQueuesArgs
from gpufleet.plan.gpu_quotas import GpuPool
from gpufleet.plan.kueue import Devices, Flavor, kueue_objects, kueue_values, priority_policy
from gpufleet.policy.examples import evaluate
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example
from tests.conftest import ROOT
from tests.unit.components.recording import EchoMocks, Recording, Registration, record

DEVICES = Devices(
    (Flavor(GpuPool("train", "nvidia.com/gpu", 1, 24), {"a": "b"}, topology="ec2"),), {"red": 8, "blue": 8}
)
OBJECTS = kueue_objects("use1", ["red", "blue"], [DEVICES], {"ec2": ["kubernetes.io/hostname"]})
ARGS = TeamQueuesArgs(
    version="0.19.2",
    values=kueue_values([DEVICES], "0.19.2", replicas=2, node_selector={"gpufleet.io/node-group": "system"}),
    objects=OBJECTS,
    policies=priority_policy(),
    namespaces={"red": "red-1", "blue": "blue-1"},
    jobset_version="0.12.0",
    leader_worker_set_version="0.9.0",
    labels={"gpufleet.io/site": "use1"},
)


def build(**changes: Any) -> Recording:
    return record(lambda: TeamQueues("queues", dataclasses.replace(ARGS, **changes)), EchoMocks())


@pytest.fixture(scope="module")
def made() -> Recording:
    return build()


def after(built: Recording, each: Registration) -> set[str]:
    """The names of what a resource waits for."""
    names = {one.urn: one.name for one in built}
    return {names[urn] for urn in each.dependencies}


def test_rules_of_the_policy_pack_accept_it(made: Recording) -> None:
    objects = tuple(
        {"type": each.type, "props": dict(each.inputs), "provider": "urn:x::y"}
        for each in made
        if each.type.startswith("kubernetes:")
    )
    found = [
        f"{rule.name}: {violation.message}"
        for rule in load_rules(ROOT)
        if rule.name.startswith("kubernetes-") or rule.name == "judged-resources"
        for violation in evaluate(rule, Example(objects))
    ]
    assert found == []


def test_charts_are_pinned_and_come_from_the_registry_of_kubernetes(made: Recording) -> None:
    charts = {
        each.inputs["name"]: (each.inputs["chart"], each.inputs["version"]) for each in made.of("Release")
    }
    assert charts == {
        "kueue": ("oci://registry.k8s.io/kueue/charts/kueue", "0.19.2"),
        "jobset": ("oci://registry.k8s.io/jobset/charts/jobset", "0.12.0"),
        "lws": ("oci://registry.k8s.io/lws/charts/lws", "0.9.0"),
    }


def test_namespace_of_each_chart_refuses_pods_with_rights_on_their_node(made: Recording) -> None:
    for part in ("kueue", "jobset", "lws"):
        metadata = made.one("Namespace", f"queues-{part}").inputs["metadata"]
        assert metadata["name"] == f"{part}-system"
        assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
        release = made.one("Release", f"queues-{part}")
        assert release.inputs["namespace"] == f"{part}-system"
        assert f"queues-{part}" in after(made, release)


def test_controllers_of_jobs_are_only_installed_if_wanted() -> None:
    plain = build(jobset_version="", leader_worker_set_version="")
    assert [each.inputs["name"] for each in plain.of("Release")] == ["kueue"]


def test_run_waits_for_kueue_before_its_objects(made: Recording) -> None:
    release = made.one("Release", "queues-kueue")
    assert not release.inputs.get("skipAwait")
    for item in OBJECTS:
        for each in made.of(item["kind"]):
            assert release.urn in each.dependencies


def test_objects_follow_those_that_they_name_and_are_deleted_before_them(made: Recording) -> None:
    flavor = made.one("ResourceFlavor")
    assert "queues-topology-ec2" in after(made, flavor)
    queue = made.one("ClusterQueue", "queues-clusterqueue-red")
    assert {"queues-resourceflavor-train", "queues-cohort-use1"} <= after(made, queue)
    local = made.one("LocalQueue", "queues-localqueue-red-default")
    assert "queues-clusterqueue-red" in after(made, local)


def test_objects_are_those_of_the_plan_in_the_namespaces_of_the_teams(made: Recording) -> None:
    local = made.one("LocalQueue", "queues-localqueue-red-default").inputs
    assert local["metadata"]["namespace"] == "red-1"
    assert local["spec"] == {"clusterQueue": "red"}
    assert (
        made.one("WorkloadPriorityClass", "queues-workloadpriorityclass-gpufleet-high").inputs["value"]
        == 100_000
    )
    kinds = {each.type for each in made if each.type.startswith("kubernetes:kueue")}
    assert kinds == {f"kubernetes:{item['apiVersion']}:{item['kind']}" for item in OBJECTS}


def test_priorities_are_limited_before_kueue_reads_them(made: Recording) -> None:
    policy = made.one("ValidatingAdmissionPolicy")
    assert policy.inputs["spec"]["failurePolicy"] == "Fail"
    binding = made.one("ValidatingAdmissionPolicyBinding")
    assert policy.urn in binding.dependencies


def test_namespace_may_be_an_output() -> None:
    found = build(namespaces={"red": pulumi.Output.from_input("red-2"), "blue": "blue-1"})
    local = found.one("LocalQueue", "queues-localqueue-red-default")
    assert local.inputs["metadata"]["namespace"] == "red-2"
