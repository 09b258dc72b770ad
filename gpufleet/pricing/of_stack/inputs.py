"""Reading of resource inputs. An unknown, secret or invalid value raises an error and is never 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource, shown


def dig(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `scalingConfig.maxSize`, through lists with one item.

    None if it is not set, UNKNOWN below an unknown value.
    """
    value: Any = values
    for part in path.split("."):
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        if value is UNKNOWN:
            return UNKNOWN
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def declared(resource: Resource, path: str) -> Any:
    """Return a property's value in the program, else its known value in the cloud.

    A property that the program does not set is an unknown output until the resource exists and counts as not
    set (None). Only an unknown input is UNKNOWN.
    """
    if any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in resource.secrets):
        raise UnpricedError(f"{path} is a secret")
    if resource.inputs is None:
        return dig(resource.props, path)
    value = dig(resource.inputs, path)
    if value is not None:
        return value
    output = dig(resource.props, path)
    return None if output is UNKNOWN else output


def text(resource: Resource, path: str) -> str | None:
    """Return a text, None if it is not set. Raises `UnpricedError` if it is unknown."""
    value = declared(resource, path)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UnpricedError(f"{path} is {shown(value)}")
    return value


def whole(value: Any, path: str, *, least: int = 0) -> int:
    """Return a whole number of at least `least`. Raises `UnpricedError` for other or unknown values."""
    if value is None or value is UNKNOWN:
        raise UnpricedError(f"{path} is {shown(value)}")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise UnpricedError(f"{path} is {shown(value)}, which is not a number") from None
    if not number.is_finite() or number != number.to_integral_value() or number < least:
        raise UnpricedError(f"{path} is {shown(value)}, which is not a whole number of {least} or more")
    return int(number)


def count(resource: Resource, path: str, default: int | None = None) -> int:
    """Return a whole number, `default` if it is not set. Raises `UnpricedError` as `whole`."""
    value = declared(resource, path)
    return default if value is None and default is not None else whole(value, path)


def price(resource: Resource, path: str) -> Decimal | None:
    """Return a price in USD, None if it is not set. Raises `UnpricedError` if it is not a number."""
    declared_price = text(resource, path)
    try:
        return None if declared_price is None else Decimal(declared_price)
    except InvalidOperation:
        raise UnpricedError(f"{path} is {shown(declared_price)}") from None


def flag(resource: Resource, path: str) -> bool:
    """Return a boolean of a resource's inputs (see `is_true`)."""
    return is_true(declared(resource, path), path)


def is_true(value: object, path: str) -> bool:
    """Return a boolean, also from a text. Raises `UnpricedError`, which names `path`, if it is unknown."""
    if value is UNKNOWN:
        raise UnpricedError(f"{path} is {shown(value)}")
    return value is True or (isinstance(value, str) and value.lower() == "true")


def entries(resource: Resource, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list. Raises `UnpricedError` if the list or an entry is unknown."""
    value = declared(resource, path)
    if value is None:
        return
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
        if not isinstance(each, Mapping):
            raise UnpricedError(f"{path} is {shown(each)}")
        yield each


def held(resource: Resource, *paths: str) -> None:
    """Raise `UnpricedError` if changes of a property are ignored, since the actual value may differ."""
    for path in paths:
        if resource.ignores(path):
            raise UnpricedError(f"changes of {path} are ignored, so the actual value may differ")


def first(values: Mapping[str, Any], *names: str) -> Any:
    """Return the first entry that is set, including unknown ones, None if none is."""
    return next((values[name] for name in names if values.get(name) is not None), None)
