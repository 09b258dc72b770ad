"""The page of the fleet file's fields: complete, with valid examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from gpufleet.changes.fields import Field, fleet_fields
from gpufleet.changes.fleet_file import example_of, fleet_file_reference, inner_type, is_nested, unit_of
from gpufleet.spec.quantity import HostList, HostRange, Moment, Quantity

ROOT = Path(__file__).resolve().parents[3]
FIELDS = {each.path: each for each in fleet_fields()}
PLAIN = [path for path, each in FIELDS.items() if not is_nested(each)]


def adapter(field: Field) -> TypeAdapter[Any]:
    """A validator for the value of the field, from its model."""
    return TypeAdapter(Annotated[(field.info.annotation, *field.info.metadata, None)])


def as_read(value: Any) -> Any:
    """A value from the reader of fleet files: every scalar is text."""
    if isinstance(value, dict):
        return {key: as_read(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_read(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_field_has_a_description() -> None:
    assert [path for path, each in FIELDS.items() if len(each.description) < 4] == []


@pytest.mark.parametrize("path", PLAIN)
def test_examples_of_a_field_are_valid(path: str) -> None:
    field = FIELDS[path]
    example = example_of(field)
    assert example is not None
    for each in field.info.examples or [example]:
        adapter(field).validate_python(each)
        adapter(field).validate_python(as_read(each))


def test_quantities_and_counts_have_a_unit() -> None:
    quantities = [
        path
        for path in PLAIN
        if isinstance(kind := inner_type(FIELDS[path]), type)
        and issubclass(kind, Quantity)
        and kind not in (HostRange, HostList, Moment)
    ]
    assert len(quantities) > 20
    assert [path for path in quantities if not unit_of(FIELDS[path])] == []
    assert unit_of(FIELDS["budget.monthly"]) == "USD"
    assert unit_of(FIELDS["cloud[].node_groups[].volume.throughput"]) == "(MB/s)"
    assert unit_of(FIELDS["cloud[].node_groups[].capacity.spot.max"]) == "(nodes)"
    assert unit_of(FIELDS["cloud[].node_groups[].capacity.spot.desired"]) == "(nodes)"


def test_page_lists_every_field_with_type_and_effect_of_a_change() -> None:
    page = fleet_file_reference()
    headings = set(re.findall(r"^## `(.*)`$", page, re.MULTILINE))
    for path, field in FIELDS.items():
        parent = path.removesuffix(".<name>").rpartition(".")[0]
        assert not parent or parent in headings, path
        assert field.description in page
    assert page.count("\n| ") == len(FIELDS) + page.count("\n| field |")
    (nat,) = [line for line in page.splitlines() if line.startswith("| `nat` |")]
    assert "`single` or `per-zone` or `none`" in nat
    assert nat.endswith("| single to per-zone: in place; to none: **replacement** |")


def test_every_link_of_the_page_has_its_heading() -> None:
    page = fleet_file_reference()
    links = set(re.findall(r"\(#([^)]*)\)", page))
    headings = re.findall(r"^## `(.*)`$", page, re.MULTILINE)
    assert len(links) > 30
    assert links - {re.sub(r"[^a-z0-9_-]", "", heading.lower()) for heading in headings} == set()


def test_committed_page_is_current() -> None:
    written = (ROOT / "docs" / "reference" / "fleet_file.md").read_text(encoding="utf-8")
    assert written == fleet_file_reference(), "run `make docs`"
