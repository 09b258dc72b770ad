"""The region in which a resource is priced."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource
from gpufleet.resources.stack import Stack
from tests.unit.pricing.stacks import CATALOG


def region(inputs: Any, props: Any, provider: Any = None, default: str = "eu-west-1") -> str:
    instance = None if provider is None else ProviderInstance("aws", "one", "urn", {"region": provider})
    resource = Resource("kind", "one", "urn", props, inputs, provider=instance)
    return Pricing(Stack([resource]), CATALOG, None, default).prices(resource).region


@pytest.mark.parametrize(
    ("inputs", "props", "provider", "found"),
    [
        ({"region": "us-west-2"}, {"region": "us-east-2"}, "us-east-1", "us-west-2"),
        (None, {"region": "us-east-2"}, "us-east-1", "us-east-2"),
        ({}, {"region": "us-east-2"}, "us-east-1", "us-east-2"),
        ({}, {"region": UNKNOWN}, "us-east-1", "us-east-1"),
        ({}, {}, "us-east-1", "us-east-1"),
        ({}, {}, None, "eu-west-1"),
    ],
)
def test_region_is_that_of_the_resource_its_provider_or_the_default(
    inputs: Any, props: Any, provider: Any, found: str
) -> None:
    assert region(inputs, props, provider) == found


@pytest.mark.parametrize(
    ("inputs", "provider", "default"),
    [
        ({"region": UNKNOWN}, "us-east-1", "eu-west-1"),
        ({}, UNKNOWN, "eu-west-1"),
        ({}, None, ""),
        ({}, None, " "),
    ],
)
def test_unknown_region_is_refused(inputs: Any, provider: Any, default: str) -> None:
    with pytest.raises(UnpricedError, match="region is not known"):
        region(inputs, {}, provider, default)
