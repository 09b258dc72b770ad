"""Keeps secret values out of everything that is shown or kept: a second line behind `no_log`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

MARK = "<secret>"
_SHORTEST = 6


class Redactor:
    """Replaces secret values, also in base64 or escaped as in JSON.

    Values shorter than six characters are not replaced, because they occur in ordinary text.
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= _SHORTEST for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        """`text` without secrets."""
        for form in self._forms:
            text = text.replace(form, MARK)
        return text

    def value(self, value: Any) -> Any:
        """Plain JSON values without secrets, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value


def _forms(value: str) -> Iterable[str]:
    stripped = value.strip()
    # Base64 of a text inside a longer one depends on where it starts: three ways, less the ends that mix.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + stripped.encode()).decode().rstrip("=")
        inner = encoded[-(-shift * 8 // 6) :][: len(encoded) - -(-shift * 8 // 6) - 1]
        if len(inner) >= _SHORTEST * 2:
            yield inner
    yield json.dumps(stripped)[1:-1]
    yield stripped
