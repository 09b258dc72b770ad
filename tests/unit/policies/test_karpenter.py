"""Karpenter's node pools are judged as node groups are: ours pass, and careless ones do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.policy import examples
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.examples import policy_context
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Example
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import UNKNOWN
from tests.conftest import ROOT
from tests.unit.plan.fleets import CATALOG
from tests.unit.pricing.node_pools import CAPACITY, TYPE, ZONE, need, node_class, pool, pool_cost
from tests.unit.pricing.programs import registered
from tests.unit.stacks.test_karpenter import fleet

RULES = {rule.name: rule for rule in load_rules(ROOT)}
WITHOUT_FLEET = ("allowed-regions", "cost-allocation-tags")


def ask(rule: str, *resources: Mapping[str, Any], **settings: Any) -> list[RuleViolation]:
    found = examples.evaluate(RULES[rule], Example(resources, settings=settings))
    assert all(each.violation.message and each.violation.remedy for each in found)
    return found


def judged(autoscaler: dict[str, Any]) -> list[tuple[str, str]]:
    """What all rules find in our program's stack: rule, and the message without the resource."""
    made = fleet(autoscaler, on_breach="stop-scale-out")
    plan = build_plan(made, CATALOG)
    stack = registered(plan, preview=True)
    shared = policy_context(spec=made, plan=plan)
    rules = [ConfiguredRule(rule, rule.enforcement, rule.settings()) for rule in RULES.values()]
    judge = RuleEvaluator(rules, shared)
    found = [*judge.stack(stack), *(each for one in stack for each in judge.resource(declared(one)))]
    return [(each.rule.name, f"{each.urn.rpartition('::')[2]}: {each.message}") for each in found]


def test_our_program_breaks_no_rule_with_karpenter_that_it_keeps_without() -> None:
    before = {rule for rule, _ in judged({})}
    assert [each for each in judged({"kind": "karpenter"}) if each[0] not in before] == []
    reserved = {"kind": "karpenter", "reserved_nodes": "node-pools"}
    assert [each for each in judged(reserved) if each[0] not in before] == []


def test_ordinary_pool_passes_every_rule() -> None:
    for name, rule in RULES.items():
        # Without a fleet file no region is allowed, and no key is activated.
        if rule.group in ("security", "capacity", "tags") and name not in WITHOUT_FLEET:
            found = examples.evaluate(rule, Example((node_class(), pool())))
            assert [each.message for each in found] == [], name


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("imdsv2-required", "metadataOptions.httpTokens", "optional"),
        ("imdsv2-required", "metadataOptions.httpTokens", UNKNOWN),
        ("imdsv2-required", "metadataOptions.httpPutResponseHopLimit", 2),
        ("ebs-encrypted", "blockDeviceMappings.0.ebs.encrypted", False),
        ("ebs-encrypted", "blockDeviceMappings.0.ebs.encrypted", None),
        ("ebs-encrypted", "blockDeviceMappings.0.deviceName", "/dev/sdf"),
        ("ebs-encrypted", "blockDeviceMappings", None),
        ("no-public-ip", "associatePublicIPAddress", True),
        ("no-public-ip", "associatePublicIPAddress", None),
        ("no-public-ip", "associatePublicIPAddress", UNKNOWN),
        ("propagated-tags", "tags.team", None),
        ("propagated-tags", "tags", UNKNOWN),
        ("karpenter-images-pinned", "amiSelectorTerms", None),
        ("karpenter-images-pinned", "amiSelectorTerms", UNKNOWN),
        ("karpenter-images-pinned", "amiSelectorTerms", [{"alias": "al2023@latest"}]),
        ("karpenter-images-pinned", "amiSelectorTerms", [{"alias": UNKNOWN}]),
        ("karpenter-images-pinned", "amiSelectorTerms", [{"name": "gpu-*"}]),
        ("karpenter-images-pinned", "amiSelectorTerms", [{"tags": {"role": "gpu"}}]),
        ("karpenter-images-pinned", "amiSelectorTerms", [{"ssmParameter": "/golden/gpu"}]),
        (
            "karpenter-images-pinned",
            "amiSelectorTerms",
            [{"ssmParameter": "/aws/service/eks/optimized-ami/1.35/recommended/image_id"}],
        ),
    ],
)
def test_careless_node_class_is_found(rule: str, path: str, value: Any) -> None:
    assert ask(rule, node_class(path, value), pool())


@pytest.mark.parametrize(
    "terms",
    [
        [{"alias": "al2023@v20260714"}],
        [{"name": "amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260714"}],
        [{"ssmParameter": "/golden/gpu:7"}],
        [{"id": UNKNOWN}],
    ],
)
def test_pinned_images_pass(terms: list[dict[str, Any]]) -> None:
    assert ask("karpenter-images-pinned", node_class("amiSelectorTerms", terms)) == []


def test_defaults_of_metadata_options_are_safe() -> None:
    assert ask("imdsv2-required", node_class("metadataOptions")) == []
    assert ask("imdsv2-required", node_class("metadataOptions", {"httpEndpoint": "enabled"})) == []


def test_node_with_several_interfaces_gets_no_public_address() -> None:
    several = node_class("associatePublicIPAddress")
    several["props"]["spec"]["networkInterfaces"] = [{}, {}]
    assert ask("no-public-ip", several) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"limits": {}},
        {"limits": {"nodes": "4"}},
        {"limits": {"memory": "100Gi"}},
        {"limits": {"nvidia.com/gpu": "many"}},
        {"limits": {"aws.amazon.com/neuron": 4}},
        {"limits": UNKNOWN},
        {"replicas": UNKNOWN},
    ],
)
def test_pool_without_a_limit_that_holds_is_found(spec: dict[str, Any]) -> None:
    assert ask("node-pools-limited", node_class(), pool(**spec))
    assert pool_cost(pool(**spec)).unknown


@pytest.mark.parametrize(
    "spec", [{"limits": {"cpu": 16}}, {"limits": {"nvidia.com/gpu": 4}}, {"replicas": 2}]
)
def test_pool_with_a_limit_of_what_its_types_have_passes(spec: dict[str, Any]) -> None:
    assert ask("node-pools-limited", node_class(), pool(**spec)) == []
    assert pool_cost(pool(**spec)).unknown == ()


@pytest.mark.parametrize(
    "needs",
    [
        [need(CAPACITY, "on-demand"), ZONE],
        [{"key": TYPE, "operator": "NotIn", "values": ["p5.48xlarge"]}, need(CAPACITY, "on-demand"), ZONE],
        [{"key": TYPE, "operator": "In", "values": UNKNOWN}, need(CAPACITY, "on-demand"), ZONE],
        [UNKNOWN],
    ],
)
def test_pool_whose_types_are_not_listed_is_found(needs: list[Any]) -> None:
    for rule in ("node-pools-limited", "allowed-instance-types"):
        assert ask(rule, node_class(), pool(*needs)), rule
    assert pool_cost(pool(*needs)).unknown
    assert ask("maximum-gpus", node_class(), pool(*needs), max_gpus={"all": 1000})


def test_pool_without_a_region_or_with_reservations_or_without_its_class_has_an_unknown_cost() -> None:
    kind = need(TYPE, "g6.xlarge")
    for needs in (
        [kind, need(CAPACITY, "on-demand")],
        [kind, ZONE],
        [kind, need(CAPACITY, "reserved", "on-demand"), ZONE],
    ):
        assert pool_cost(pool(*needs)).unknown
    assert ask("propagated-tags", pool())


def test_gpus_of_a_pool_count_at_its_limit() -> None:
    (found,) = ask("maximum-gpus", node_class(), pool(), max_gpus={"L4": 3})
    assert "4 GPUs (L4)" in found.message
    assert ask("maximum-gpus", node_class(), pool(), max_gpus={"L4": 4}) == []
    (found,) = ask("maximum-gpus", node_class(), pool(replicas=2), max_gpus={"L4": 1})
    assert "2 GPUs" in found.message


def test_nodes_that_always_run_do_not_scale_to_zero() -> None:
    (found,) = ask("scale-to-zero", node_class(), pool(replicas=2), environments=[])
    assert "keeps 2 nodes" in found.message
    assert ask("scale-to-zero", node_class(), pool(), environments=[]) == []


def test_spot_is_for_the_listed_workloads() -> None:
    wanted = pool(need(TYPE, "g6.xlarge"), need(CAPACITY, "spot"), ZONE)
    assert ask("spot-only-in-dev", node_class(), wanted)
    wanted["props"]["spec"]["template"]["metadata"] = {"labels": {"gpufleet.io/workload": "batch"}}
    assert ask("spot-only-in-dev", node_class(), wanted)
    assert ask("spot-only-in-dev", node_class(), wanted, workloads=["batch"]) == []


@pytest.mark.parametrize("kind", ["NodePoolPatch", "NodeClaim", "NodeOverlay"])
def test_what_the_rules_do_not_read_of_karpenter_stays_unjudged(kind: str) -> None:
    assert ask("judged-resources", {"type": f"kubernetes:karpenter.sh/v1:{kind}", "props": {}})
    assert ask("judged-resources", pool(), node_class()) == []
