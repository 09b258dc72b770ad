"""The property table matches the pinned pulumi_aws, and every handler matches the table."""

from __future__ import annotations

import pytest

from gpufleet.lab.aws.provider import VERSION, schema
from gpufleet.lab.aws.provider.handler import Handler
from gpufleet.lab.aws.provider.registry import _MODULES, handler_for, tokens
from gpufleet.lab.aws.provider.schema import build

each_type = pytest.mark.parametrize("token", tokens())


def test_table_matches_the_installed_pulumi_aws() -> None:
    assert build.TARGET.read_text() == build.render()


def test_table_is_of_the_supported_version() -> None:
    assert schema._table()["version"] == VERSION


def test_every_type_of_the_table_has_a_handler() -> None:
    assert set(_MODULES) == set(tokens())


@each_type
def test_handler_uses_only_existing_properties(token: str) -> None:
    handler = handler_for(token)
    assert handler.pulumi_type == token
    inputs = handler.schema.inputs.properties
    for fact in ("force_new", "computed", "sets", "ordered", "documents"):
        for path in getattr(handler, fact):
            assert exists(handler, path), f"{fact}: {path}"
    assert set(handler.defaults) <= set(inputs)
    assert handler.auto_name is None or handler.auto_name.prop in inputs


def exists(handler: Handler, path: str) -> bool:
    properties = handler.schema.outputs
    for step in path.split("."):
        if step not in properties:
            return False
        kind = properties[step]
        while isinstance(kind, dict) and "array" in kind:
            kind = kind["array"]
        properties = schema.struct(kind["ref"]).properties if isinstance(kind, dict) and "ref" in kind else {}
    return True


def test_nested_block_lists_its_required_properties() -> None:
    taint = schema.struct("eks/NodeGroupTaint")
    assert taint.required == {"effect", "key"}


def test_tag_list_is_not_a_tag_map() -> None:
    assert not schema.resource("aws:autoscaling/group:Group").tagged
    assert schema.resource("aws:ec2/vpc:Vpc").tagged
    assert not schema.resource("aws:ec2/route:Route").tagged
