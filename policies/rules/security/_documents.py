"""IAM policy documents: their statements in one form, and what they allow to whom.

IAM accepts a string in place of a list, and AWS's own tools differ in the case of element names.
A document that does not parse is an error, never an empty document: readers may disagree on, for
example, a duplicate element.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gpufleet.policies.rules.security._conditions import Condition
from gpufleet.policies.rules.security._patterns import has_wildcard, matches, measure
from gpufleet.resources.resource import holds_unknown, is_unknown


class Statement(Struct, frozen=True):
    """One statement; actions and effect in lower case.

    `principals` are (kind, value) with kind in lower case and "*" for anyone. `unknown`: part of the
    statement is not known yet.
    """

    name: str
    effect: str
    principals: tuple[tuple[str, str], ...]
    not_principals: bool
    actions: tuple[str, ...]
    not_actions: bool
    resources: tuple[str, ...]
    not_resources: bool
    conditions: tuple[Condition, ...]
    unknown: bool = False

    @property
    def allows(self) -> bool:
        """Return whether it is an Allow statement."""
        return self.effect != "deny"

    @property
    def any_principal(self) -> bool:
        """Return whether it applies to every principal, before conditions."""
        return self.not_principals or any(
            value.strip() == "*" for kind, value in self.principals if kind in ("*", "aws")
        )

    @property
    def open(self) -> bool:
        """Return whether it may apply to anyone, before conditions.

        AWS takes no wildcard in a part of a principal: one there is an error, or everyone.
        """
        return self.not_principals or any(has_wildcard(value) for _, value in self.principals)

    @property
    def restricted(self) -> bool:
        """Return whether a condition restricts the caller."""
        return any(condition.restricts for condition in self.conditions)

    @property
    def all_resources(self) -> bool:
        """Return whether it applies to all resources of AWS or of a service."""
        return self.not_resources or any(_is_all(resource) for resource in self.resources)

    def share_of(self, service: str) -> Fraction:
        """Return the share of the resources of a service that it applies to, of the type with the most."""
        return Fraction(1) if self.not_resources else measure(self.resources, service)

    def covers(self, action: str) -> bool:
        """Return whether an action (in lower case) is among its actions."""
        return any(matches(pattern, action) for pattern in self.actions) != self.not_actions


class Document(Struct, frozen=True):
    """The statements of a document. `unknown`: its text is not known yet; `error`: it is not a policy."""

    statements: tuple[Statement, ...] = ()
    unknown: bool = False
    error: str = ""

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)


def parse(value: Any) -> Document:
    """Parse a policy, given as JSON or as a mapping. An empty value is an empty document."""
    if is_unknown(value):
        return Document(unknown=True)
    if value is None or (isinstance(value, str) and not value.strip()):
        return Document()
    return _parsed(value) if isinstance(value, str) else _read(value)


@lru_cache(maxsize=512)
def _parsed(text: str) -> Document:
    try:
        return _read(json.loads(text, object_pairs_hook=_once))
    except ValueError as error:
        return Document(error=f"it is not JSON ({error})")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an element occurs twice")
    return found


def _read(value: Any) -> Document:
    document = _lower(value)
    if document is None or "statement" not in document:
        return Document(error="it has no Statement")
    statements = document["statement"]
    found: list[Statement] = []
    for index, each in enumerate(_list(statements)):
        if is_unknown(each):
            return Document(unknown=True)
        statement = _lower(each)
        if statement is None:
            return Document(error=f"Statement[{index}] is not an object")
        found.append(_statement(index, statement))
    return Document(tuple(found), unknown=holds_unknown(statements))


def _statement(index: int, given: Mapping[str, Any]) -> Statement:
    not_principals, not_actions, not_resources = (
        f"not{each}" in given for each in ("principal", "action", "resource")
    )
    return Statement(
        name=str(given.get("sid") or f"Statement[{index}]"),
        effect=str(given.get("effect", "")).strip().lower(),
        principals=tuple(_principals(given.get("notprincipal" if not_principals else "principal"))),
        not_principals=not_principals,
        actions=tuple(
            each.strip().lower() for each in _strings(given.get("notaction" if not_actions else "action"))
        ),
        not_actions=not_actions,
        resources=tuple(_strings(given.get("notresource" if not_resources else "resource"))),
        not_resources=not_resources,
        conditions=tuple(_conditions(given.get("condition"))),
        unknown=holds_unknown(given),
    )


def _lower(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    found = {str(key).strip().lower(): item for key, item in value.items()}
    # Two spellings of one name: readers may disagree on which counts.
    return found if len(found) == len(value) else None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _strings(value: Any) -> list[str]:
    return [] if value is None else [str(each) for each in _list(value) if not is_unknown(each)]


def _principals(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for kind, named in value.items():
            for each in _strings(named):
                yield str(kind).strip().lower(), each
    else:
        for each in _strings(value):
            yield "*", each


def _conditions(value: Any) -> Iterator[Condition]:
    for operator, keys in (_lower(value) or {}).items():
        for key, values in (_lower(keys) or {}).items():
            yield Condition(operator, key, tuple(_text(each) for each in _list(values)))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if is_unknown(value) else str(value)


def _is_all(resource: str) -> bool:
    parts = resource.strip().split(":", 5)
    last = parts[5] if len(parts) == 6 else resource
    return not last.strip("*?/: ")
