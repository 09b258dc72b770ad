"""The plan as JSON: a stable contract that others build on.

Every field and every property of a plan model is a key, so that a new one needs no line here.
`json_defaults` of a model are keys that it may lack, with what they are then. Keys are added and
never renamed or dropped. Money is a number of USD rounded half-even to cents, here and nowhere
before; null means unknown. Lists keep the order of the fleet file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from types import MappingProxyType
from typing import Any

MONEY = MappingProxyType({"json": "money"})
"""Metadata of a field that is an amount of USD, or has some in it: rounded to cents."""

ELSEWHERE = MappingProxyType({"json": "elsewhere"})
"""Metadata of a field whose content the JSON has under another key, of a property."""

_CENT = Decimal("0.01")


def model_to_json(model: Any) -> dict[str, Any]:
    """A plan, or another model, as plain JSON values. Its cost is apart (`gpufleet.pricing.json`).

    Equal plans give equal documents, key order included.
    """
    written = {
        each.name: _value(getattr(model, each.name), money=each.metadata == MONEY)
        for each in fields(model)
        if each.metadata != ELSEWHERE
    }
    properties = [
        name
        for parent in reversed(type(model).__mro__)
        for name, each in vars(parent).items()
        if isinstance(each, property)
    ]
    without: Mapping[str, Any] = getattr(model, "json_defaults", {})
    return {**without, **written, **{name: _value(getattr(model, name), money=False) for name in properties}}


def cents(amount: Decimal | None) -> float | None:
    """An amount rounded half-even to cents."""
    return None if amount is None else float(amount.quantize(_CENT, ROUND_HALF_EVEN))


def _value(value: Any, *, money: bool) -> Any:
    if is_dataclass(value):
        return model_to_json(value)
    if isinstance(value, Decimal):
        return cents(value) if money else float(value)
    if isinstance(value, Mapping):
        return {key: _value(each, money=money) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_value(each, money=money) for each in value]
    return value
