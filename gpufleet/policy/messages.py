"""What goes out in a rule's message: no secret value, whatever the rule wrote, and nothing terminals obey.

Rules leave secrets out themselves (`Resource.show`). A value that reaches a message by another way, by an
exception's text or a name that a property holds, is found here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpufleet.resources.resource import Resource, shown

_SHORTEST = 5
"""A shorter value ("true", "8") is no secret that could be told from other words."""

_BEGINNING = 12
"""Messages cut long values off: so much of a secret's beginning is enough to find it."""

_HIDDEN = "[secret]"
_OBEYED = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode's control and format characters (escapes, changes of the direction) and its line breaks."""


class Secrets:
    """The secret values of some resources, as messages might have them."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        found: set[str] = set()
        for resource in resources:
            if resource.secrets:
                for props in (resource.props, resource.inputs or {}):
                    found.update(_secret_texts(props, "", resource.secrets))
        spelt = {form for text in found for form in (text, repr(text)[1:-1])}
        # The longest first: one may begin as another does.
        self._texts = sorted((text for text in spelt if len(text) >= _SHORTEST), key=len, reverse=True)

    def hidden(self, text: str) -> str:
        """The text with `[secret]` in place of each of the values, and of their beginnings."""
        for secret in self._texts:
            beginning = secret[:_BEGINNING]
            at = text.find(beginning)
            while at >= 0:
                end = at + len(beginning)
                while end < len(text) and end - at < len(secret) and text[end] == secret[end - at]:
                    end += 1
                text = f"{text[:at]}{_HIDDEN}{text[end:]}"
                at = text.find(beginning, at + len(_HIDDEN))
        return text


def printable(text: str) -> str:
    """The text on one line, with escapes such as `\\x1b` in place of what terminals obey."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode() if unicodedata.category(each) in _OBEYED else each
        for each in text
    )


def _secret_texts(value: Any, path: str, secrets: frozenset[str]) -> Iterator[str]:
    # Down the properties and not by the paths: a key may have dots in it.
    if path in secrets:
        yield from _texts(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secret_texts(item, f"{path}.{key}" if path else str(key), secrets)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _secret_texts(item, f"{path}[{index}]", secrets)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield shown(value)
