"""allowed-regions: by provider, by a resource's own property, by configuration, and unknown."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpufleet.policies.rules.capacity.allowed_regions import WITHOUT_REGION, allowed_regions
from gpufleet.policy import examples
from gpufleet.policy.context import RuleContext
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BLOCK_OFFERING, BUCKETS, INSTANCE

Ask = Callable[..., list[RuleViolation]]
RULE = "allowed-regions"
EAST = {"regions": ["us-east-1"]}


def instance(provider: Any = "us-east-1", **props: Any) -> dict[str, Any]:
    return {"type": INSTANCE, "props": {"instanceType": "g6.xlarge", **props}, "region": provider}


def test_provider_of_another_region_is_found(ask: Ask) -> None:
    (found,) = ask(RULE, instance("eu-west-1"), settings=EAST)
    assert "'eu-west-1'" in found.message
    assert not found.violation.unknown


def test_region_property_of_a_resource_overrides_its_provider(ask: Ask) -> None:
    (found,) = ask(RULE, instance("us-east-1", region="eu-west-1"), settings=EAST)
    assert found.violation.prop == "region"
    assert ask(RULE, instance("eu-west-1", region="us-east-1"), settings=EAST) == []


@pytest.mark.parametrize("region", ["US-EAST-1", " us-east-1", "us-east-1a"])
def test_region_in_another_spelling_is_another_region(region: str, ask: Ask) -> None:
    assert len(ask(RULE, instance(region=region), settings=EAST)) == 1


@pytest.mark.parametrize("described", [instance(UNKNOWN), instance(region=UNKNOWN)])
def test_unknown_region_fails_closed(described: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, described, settings=EAST)
    assert found.violation.unknown


def test_missing_region_fails_closed(ask: Ask) -> None:
    (found,) = ask(RULE, instance(""), settings=EAST, config={})
    assert found.violation.unknown


def test_nothing_is_allowed_without_a_fleet_and_settings(ask: Ask) -> None:
    (found,) = ask(RULE, instance())
    assert "no region is allowed" in found.message


FLEET: dict[str, Any] = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "prod",
    "budget": {"monthly": "1000 USD"},
    "tags": {"team": "ml", "cost-center": "c", "project": "p"},
    "software": {"channel": "2026.11"},
}


def test_regions_of_the_fleet_sites_are_the_default(ask: Ask) -> None:
    site = {
        "site": "use1",
        "region": "us-west-2",
        "zones": ["us-west-2a"],
        "network": {"cidr": "10.0.0.0/16"},
        "scheduler": "slurm",
    }
    fleet = {**FLEET, "cloud": [site]}
    assert ask(RULE, instance("us-west-2"), fleet=fleet) == []
    assert len(ask(RULE, instance("us-east-1"), fleet=fleet)) == 1


def test_fleet_without_cloud_sites_passes_only_without_cloud_resources(ask: Ask) -> None:
    assert ask(RULE, fleet=FLEET) == []
    (found,) = ask(RULE, instance("us-east-1"), fleet=FLEET)
    assert "the fleet has no cloud site" in found.message
    assert "add a site in us-east-1" in found.message
    (unknown,) = ask(RULE, instance(UNKNOWN), fleet=FLEET)
    assert unknown.violation.unknown


def test_provider_with_many_resources_is_reported_once() -> None:
    provider = examples.resource({"type": "pulumi:providers:aws", "name": "example"})
    buckets = [
        examples.resource({"type": BUCKETS[0], "name": f"b{n}", "region": "eu-west-1"}) for n in range(9)
    ]
    context = RuleContext(allowed_regions.settings.model_validate(EAST), examples.policy_context())
    (found,) = allowed_regions.evaluate(Stack([provider, *buckets]), context)
    assert found.urn == provider.urn
    assert "9 resources" in found.message


def test_topic_and_key_of_the_budget_may_be_in_its_region_and_a_bucket_may_not(ask: Ask) -> None:
    west = {"regions": ["us-west-2"]}
    assert ask(RULE, {"type": "aws:sns/topic:Topic", "region": "us-east-1"}, settings=west) == []
    assert ask(RULE, {"type": "aws:kms/key:Key", "region": "us-east-1"}, settings=west) == []
    assert len(ask(RULE, {"type": BUCKETS[0], "region": "us-east-1"}, settings=west)) == 1


def test_region_of_a_capacity_block_search_counts(ask: Ask) -> None:
    offering = {"type": BLOCK_OFFERING, "props": {"region": "eu-west-1", "instance_type": "p5.48xlarge"}}
    assert len(ask(RULE, offering, settings=EAST)) == 1


@pytest.mark.parametrize("module", sorted(WITHOUT_REGION))
def test_skipped_services_have_no_region_in_pulumi_aws(module: str) -> None:
    found = importlib.util.find_spec("pulumi_aws")
    assert found is not None
    assert found.origin is not None
    sources = {path: path.read_text() for path in (Path(found.origin).parent / module).glob("*.py")}
    resources = [path.name for path, text in sources.items() if f'type_token("aws:{module}/' in text]
    assert resources
    assert [name for name in resources if 'set(__self__, "region", region)' in _args(sources, name)] == []


def _args(sources: Mapping[Path, str], name: str) -> str:
    """The class of a resource's arguments, without that of its state."""
    text = next(text for path, text in sources.items() if path.name == name)
    return text.partition("Args:")[2].partition("class _")[0]
