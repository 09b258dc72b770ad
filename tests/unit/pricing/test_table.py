"""The table of types: each token is one of pulumi_aws, is in one column, and pricing is quick."""

from __future__ import annotations

import importlib

import pytest

from gpufleet.policy import examples
from gpufleet.pricing import price_stack
from gpufleet.pricing.of_stack.table import BY_USE, FREE, PRICED
from tests.unit.pricing.stacks import CATALOG, scaling_group, template

TOKENS = sorted({token for table in (PRICED, FREE, BY_USE) for token in table if token.startswith("aws:")})


@pytest.mark.parametrize("token", TOKENS)
def test_every_type_of_the_table_is_in_pulumi_aws(token: str) -> None:
    _, place, name = token.split(":")
    module = importlib.import_module(f"pulumi_aws.{place.split('/')[0].replace('lambda', 'lambda_')}")
    assert getattr(module, name).pulumi_type == token


def test_every_type_is_priced_free_or_paid_by_use() -> None:
    assert not set(PRICED) & set(FREE)
    assert not set(PRICED) & set(BY_USE)
    assert not set(FREE) & set(BY_USE)


def test_two_thousand_resources_have_a_price_each() -> None:
    described = []
    for number in range(1000):
        launch = template(f"t{number}", id=f"lt-{number}")
        group = scaling_group(uses=f"t{number}") | {"name": f"g{number}"}
        described += [launch, group]
    stack = examples.stack(described)
    found = price_stack(stack, CATALOG)
    assert len(found.lines) == 2000
    assert found.unknown == ()
