"""Attributes of SNS and SQS: a map of texts with a resource's settings."""

from __future__ import annotations

import json
from typing import Any

from gpufleet.lab.aws.provider.schema import Type


def names_of(*properties: str) -> dict[str, str]:
    """Return property to attribute for names that differ only in the first letter."""
    return {name: name[0].upper() + name[1:] for name in properties}


def attribute_text(value: Any) -> str:
    """Return a property's value as AWS writes it in an attribute."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)


def attribute_value(kind: Type, text: str) -> Any:
    """Return a property's value of the declared type."""
    if kind == "boolean":
        return text == "true"
    if kind == "integer":
        return int(text)
    return text
