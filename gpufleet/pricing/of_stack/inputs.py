"""Reading what a resource declares: an unknown, secret or senseless value is a reason and never a 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource, shown


def dig(values: Mapping[str, Any], path: str) -> Any:
    """The value at a path such as `scalingConfig.maxSize`; a list of one is looked through.

    None where nothing is set, UNKNOWN below an unknown value.
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
    """What the program says of a property, else what the cloud has made of it where that is known.

    A property that the program leaves out is an unknown output until the resource exists: that is
    "not set", and None. Only what was declared as unknown is UNKNOWN.
    """
    if resource.secrets and any(
        path == each or path.startswith((f"{each}.", f"{each}[")) for each in resource.secrets
    ):
        raise UnpricedError(f"{path} is a secret")
    if resource.inputs is None:
        return dig(resource.props, path)
    value = dig(resource.inputs, path)
    if value is not None:
        return value
    output = dig(resource.props, path)
    return None if output is UNKNOWN else output


def text(resource: Resource, path: str) -> str | None:
    """A text that is declared; None where none is. Raises `UnpricedError` for an unknown one."""
    value = declared(resource, path)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UnpricedError(f"{path} is {shown(value)}")
    return value


def whole(value: Any, path: str, *, least: int = 0) -> int:
    """A whole number of at least `least`. Raises `UnpricedError` for anything else, an unknown value too."""
    if value is None or value is UNKNOWN or isinstance(value, bool):
        raise UnpricedError(f"{path} is {shown(value)}")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise UnpricedError(f"{path} is {shown(value)}, which is no number") from None
    if not number.is_finite() or number != number.to_integral_value() or number < least:
        raise UnpricedError(f"{path} is {shown(value)}, which is no whole number of {least} or more")
    return int(number)


def count(resource: Resource, path: str, default: int | None = None) -> int:
    """A declared whole number; `default` where none is declared. Raises `UnpricedError` as `whole` does."""
    value = declared(resource, path)
    return default if value is None and default is not None else whole(value, path)


def price(resource: Resource, path: str) -> Decimal | None:
    """A declared price in USD; None where none is. Raises `UnpricedError` for what is no number."""
    declared_price = text(resource, path)
    try:
        return None if declared_price is None else Decimal(declared_price)
    except InvalidOperation:
        raise UnpricedError(f"{path} is {shown(declared_price)}") from None


def flag(resource: Resource, path: str) -> bool:
    """A declared yes or no, also as a text. Raises `UnpricedError` for an unknown one."""
    value = declared(resource, path)
    if value is UNKNOWN:
        raise UnpricedError(f"{path} is {shown(value)}")
    return value is True or (isinstance(value, str) and value.lower() == "true")


def entries(resource: Resource, path: str) -> Iterator[Mapping[str, Any]]:
    """The mappings of a declared list. Raises `UnpricedError` where the list or one of them is unknown."""
    value = declared(resource, path)
    if value is None:
        return
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
        if not isinstance(each, Mapping):
            raise UnpricedError(f"{path} is {shown(each)}")
        yield each


def held(resource: Resource, *paths: str) -> None:
    """Raises `UnpricedError` where changes of a property are ignored, so that what the program says of it
    need not be what runs."""
    for path in paths:
        if resource.ignores(path):
            raise UnpricedError(f"changes of {path} are ignored: what was set later stays")


def first(values: Mapping[str, Any], *names: str) -> Any:
    """The first of the entries that is set, an unknown one too; None where none is."""
    return next((values[name] for name in names if values.get(name) is not None), None)
