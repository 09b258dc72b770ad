"""The plan as JSON: a stable contract that others build on.

Every annotated name and every property of a plan model is a key, so that a new one needs no line here.
`json_defaults` of a model are keys that it may lack, with what they are then. Keys are added and
never renamed or dropped. Money is a number of USD rounded half-even to cents, here and nowhere
before; null means unknown. Lists keep the order of the fleet file.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Any, Final, get_type_hints

from msgspec import Struct

MONEY: Final = "money"
"""Annotation of a field that is an amount of USD, or has some in it: rounded to cents."""

ELSEWHERE: Final = "elsewhere"
"""Annotation of a field whose content the JSON has under another key, of a property."""

_CENT = Decimal("0.01")


def model_to_json(model: Struct) -> dict[str, Any]:
    """A plan, or another model, as plain JSON values. Its cost is apart (`gpufleet.pricing.json`).

    Equal plans give equal documents, key order included.
    """
    without: Mapping[str, Any] = getattr(model, "json_defaults", {})
    keys = _keys(type(model)).items()
    return {**without, **{name: _value(getattr(model, name), money=money) for name, money in keys}}


@cache
def _keys(model: type[Struct]) -> dict[str, bool]:
    """The keys of a model in their order, and whether each is money."""
    marks = {
        name: getattr(hint, "__metadata__", ())
        for name, hint in get_type_hints(model, include_extras=True).items()
    }
    properties = [
        name
        for parent in reversed(model.__mro__)
        for name, each in vars(parent).items()
        if isinstance(each, property)
    ]
    annotated = {name: MONEY in mark for name, mark in marks.items() if ELSEWHERE not in mark}
    return annotated | dict.fromkeys(properties, False)


def cents(amount: Decimal | None) -> float | None:
    """An amount rounded half-even to cents."""
    return None if amount is None else float(amount.quantize(_CENT, ROUND_HALF_EVEN))


def _value(value: Any, *, money: bool) -> Any:
    if isinstance(value, Struct):
        return model_to_json(value)
    if isinstance(value, Decimal):
        return cents(value) if money else float(value)
    if isinstance(value, Mapping):
        return {key: _value(each, money=money) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_value(each, money=money) for each in value]
    return value
