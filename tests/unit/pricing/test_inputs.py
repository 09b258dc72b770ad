"""Declared inputs of a resource, and unknown values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.pricing.of_stack.inputs import (
    count,
    declared,
    dig,
    entries,
    first,
    flag,
    held,
    price,
    text,
    whole,
)
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource, ResourceOptions


def disk(
    value: Any = None,
    *,
    secrets: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
) -> Resource:
    """A resource with this `size`."""
    inputs = {"size": value}
    return Resource(
        "aws:ebs/volume:Volume",
        "disk",
        "urn",
        inputs,
        inputs,
        options=ResourceOptions(ignore_changes=ignored),
        secrets=frozenset(secrets),
    )


@pytest.mark.parametrize(
    ("inputs", "outputs", "found"),
    [
        ({"size": 4}, {"size": 5}, 4),
        ({"size": UNKNOWN}, {"size": UNKNOWN}, UNKNOWN),
        ({}, {"size": 5}, 5),
        ({}, {"size": UNKNOWN}, None),
        ({}, {}, None),
        (None, {"size": UNKNOWN}, UNKNOWN),
    ],
)
def test_inputs_override_outputs_and_an_unknown_output_is_unset(
    inputs: dict[str, Any] | None, outputs: dict[str, Any], found: Any
) -> None:
    disk = Resource("aws:ebs/volume:Volume", "disk", "urn", outputs, inputs)
    assert declared(disk, "size") is found


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"a": {"b": 1}}, 1),
        ({"a": [{"b": 1}]}, 1),
        ({"a": ({"b": 1},)}, 1),
        ({"a": [{"b": 1}, {"b": 2}]}, None),
        ({"a": []}, None),
        ({"a": UNKNOWN}, UNKNOWN),
        ({"a": [UNKNOWN]}, UNKNOWN),
        ({"a": {"b": UNKNOWN}}, UNKNOWN),
        ({"a": 7}, None),
        ({}, None),
    ],
)
def test_path_leads_through_lists_with_one_item(values: dict[str, Any], found: Any) -> None:
    assert dig(values, "a.b") is found


@pytest.mark.parametrize("path", ["size", "size.a", "size[0]"])
def test_secret_and_everything_below_it_is_refused(path: str) -> None:
    with pytest.raises(UnpricedError, match="is a secret"):
        declared(disk(4, secrets=("size",)), path)


@pytest.mark.parametrize("secret", ["sizes", "size.a", "other"])
def test_secret_of_another_property_is_none_of_this(secret: str) -> None:
    assert declared(disk(4, secrets=(secret,)), "size") == 4


@pytest.mark.parametrize(("value", "found"), [(None, None), ("gp3", "gp3")])
def test_text_is_read(value: Any, found: str | None) -> None:
    assert text(disk(value), "size") == found


@pytest.mark.parametrize("value", [UNKNOWN, "", "  ", 3, False])
def test_unknown_or_blank_text_is_refused(value: Any) -> None:
    with pytest.raises(UnpricedError, match="size is"):
        text(disk(value), "size")


@pytest.mark.parametrize("value", [2, "2", 2.0, Decimal(2)])
def test_whole_number_is_read(value: Any) -> None:
    assert whole(value, "size", least=2) == 2
    assert count(disk(value), "size", default=9) == 2


@pytest.mark.parametrize("value", [None, UNKNOWN])
def test_number_that_is_not_set_or_not_known_is_refused_without_more(value: Any) -> None:
    with pytest.raises(UnpricedError, match=r"^size is not (set|known yet)$"):
        whole(value, "size")


@pytest.mark.parametrize("value", [None, UNKNOWN, True, False, 1, 2.5, "many", "inf", "nan", -3])
def test_other_values_than_whole_numbers_from_the_least_are_refused(value: Any) -> None:
    with pytest.raises(UnpricedError, match="size is"):
        whole(value, "size", least=2)


def test_count_without_a_value_is_its_default() -> None:
    assert count(disk(), "size", default=0) == 0
    assert count(disk(0), "size", default=5) == 0
    with pytest.raises(UnpricedError, match="size is"):
        count(disk(), "size")


@pytest.mark.parametrize(("value", "found"), [(None, None), ("0.5", Decimal("0.5"))])
def test_price_is_read(value: Any, found: Decimal | None) -> None:
    assert price(disk(value), "size") == found


def test_price_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(UnpricedError, match="size is"):
        price(disk("cheap"), "size")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, True),
        ("true", True),
        ("True", True),
        (False, False),
        ("false", False),
        (None, False),
        (1, False),
    ],
)
def test_flag_is_read_also_from_a_text(value: Any, found: bool) -> None:
    assert flag(disk(value), "size") is found


def test_unknown_flag_is_refused() -> None:
    with pytest.raises(UnpricedError, match="size is"):
        flag(disk(UNKNOWN), "size")


@pytest.mark.parametrize(
    ("value", "found"), [(None, []), ([], []), ({"a": 1}, [{"a": 1}]), (({"a": 1}, {}), [{"a": 1}, {}])]
)
def test_entries_of_a_list_or_a_single_one_are_read(value: Any, found: list[Any]) -> None:
    assert list(entries(disk(value), "size")) == found


@pytest.mark.parametrize("value", [UNKNOWN, [{"a": 1}, UNKNOWN], "", [7], 7])
def test_unknown_entries_are_refused(value: Any) -> None:
    with pytest.raises(UnpricedError, match="size is"):
        list(entries(disk(value), "size"))


def test_property_whose_changes_are_ignored_is_refused() -> None:
    held(disk(4, ignored=("type",)), "size")
    with pytest.raises(UnpricedError, match="changes of size are ignored"):
        held(disk(4, ignored=("size",)), "type", "size")


@pytest.mark.parametrize(
    ("values", "found"),
    [({"b": 2}, 2), ({"a": 1, "b": 2}, 1), ({"a": None, "b": 2}, 2), ({"a": 0}, 0), ({"c": 3}, None)],
)
def test_first_value_that_is_set_counts(values: dict[str, Any], found: Any) -> None:
    assert first(values, "a", "b") == found
