"""The page of AWS features is current and complete."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import botocore.session
import pulumi
import pulumi_aws
import pytest

from gpufleet.lab.aws.provider import registry
from tests.captures import ROOT
from tests.documents.aws_features import FEATURES, AwsFeature, parts, reference

ALL = [feature for features in FEATURES.values() for feature in features]


def _types_of_programs() -> Iterator[str]:
    """Yield each resource type of pulumi_aws that a component or the stack program creates."""
    for folder in ("components", "stacks"):
        for path in (ROOT / folder).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("aws."):
                    module, _, name = ast.unparse(node.func).removeprefix("aws.").partition(".")
                    found = getattr(getattr(pulumi_aws, module), name, None) if name else None
                    if isinstance(found, type) and issubclass(found, pulumi.CustomResource):
                        yield f"{module}.{name}"


def test_the_page_is_current() -> None:
    page = (ROOT / "docs/reference/aws.md").read_text(encoding="utf-8")
    assert page == reference(), "run `make docs`"


def test_each_resource_type_of_the_programs_has_one_row() -> None:
    rows = Counter(name for feature in ALL for name in feature.types)
    assert set(rows) == set(_types_of_programs())
    assert [name for name, count in rows.items() if count > 1] == []


@pytest.mark.parametrize("feature", ALL, ids=lambda item: item.feature)
def test_operations_are_those_of_botocore(feature: AwsFeature) -> None:
    session = botocore.session.get_session()
    for service, name in parts(feature):
        assert name in session.get_service_model(service).operation_names
    assert feature.operations


def test_each_resource_type_of_the_programs_is_served_by_the_provider() -> None:
    served = set(registry.tokens())
    for name in _types_of_programs():
        module, _, resource = name.partition(".")
        assert getattr(getattr(pulumi_aws, module), resource).pulumi_type in served
