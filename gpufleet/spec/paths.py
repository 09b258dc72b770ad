"""Field paths: where in a fleet file a value stands.

A field path is dotted with list indices, as in `cloud[0].node_groups[1].capacity`; a key that is
no plain name is quoted in brackets (`labels["nvidia.com/gpu"]`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

FieldPath = Sequence[str | int]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SEGMENT = re.compile(r'\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|(?:^|\.)([^.\[\]]+)|(.)', re.DOTALL)


def field_path(path: FieldPath) -> str:
    """`("cloud", 0, "region")` as `cloud[0].region`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def parse_path(text: str) -> tuple[str | int, ...]:
    """The parts of a field path. Raises `ValueError` for text that is none."""
    parts: list[str | int] = []
    for match in _SEGMENT.finditer(text):
        index, quoted, name, rest = match.groups()
        if index is not None:
            parts.append(int(index))
        elif quoted is not None:
            parts.append(re.sub(r"\\(.)", r"\1", quoted))
        elif name is not None:
            parts.append(name)
        else:
            raise ValueError(f"not a field path: {text!r} (at {rest!r})")
    return tuple(parts)
