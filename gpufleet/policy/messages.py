"""Sanitizing of rule messages: no secret values and no terminal control characters.

Rules omit secrets themselves (`Resource.show`). This module also removes secrets that reach a message in
another way, such as in the text of an exception.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpufleet.resources.resource import Resource, shown

_SHORTEST = 5
"""Shorter values ("true", "8") cannot be distinguished from ordinary words."""

_BEGINNING = 12
"""Messages truncate long values: a match of this many first characters counts as the secret."""

_HIDDEN = "[secret]"
_OBEYED = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode control and format characters (escapes, text direction) and line breaks."""


class Secrets:
    """The secret values of resources, in the forms in which messages may contain them."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        found: set[str] = set()
        for resource in resources:
            if resource.secrets:
                for props in (resource.props, resource.inputs or {}):
                    found.update(_secret_texts(props, "", resource.secrets))
        spelt = {form for text in found for form in (text, repr(text)[1:-1])}
        # The longest first: a secret may be a prefix of another.
        self._texts = sorted((text for text in spelt if len(text) >= _SHORTEST), key=len, reverse=True)

    def hidden(self, text: str) -> str:
        """Return the text with `[secret]` instead of each value or its beginning."""
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
    """Return the text on one line, with control characters escaped such as `\\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode() if unicodedata.category(each) in _OBEYED else each
        for each in text
    )


def _secret_texts(value: Any, path: str, secrets: frozenset[str]) -> Iterator[str]:
    # Descend by properties, not by paths: a key may contain dots.
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
