"""Differences between old and new: a provider's diff, property paths, and the options that change a diff."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.engine.embedded.values import Properties, reveal

Path = tuple[str | int, ...]

# A diff without a property: the resource failed to initialize last time.
INIT_ERROR_KEY = "#initerror"


class ResourceDiff(Struct, frozen=True):
    """A provider's diff. `changes` None: the provider does not know, so inputs must be compared."""

    changes: bool | None
    replace_keys: tuple[str, ...] = ()
    changed_keys: tuple[str, ...] = ()
    delete_before_replace: bool = False
    detailed: Mapping[str, bool] | None = None  # property path -> whether it forces a replacement

    @property
    def replaces(self) -> bool:
        """Return whether the change needs a new resource."""
        return bool(self.replace_keys) or any((self.detailed or {}).values())

    def shown_keys(self) -> tuple[str, ...]:
        """Return the top-level properties that differ, for messages."""
        if self.detailed:
            return tuple(sorted({str(parse_path(path)[0]) for path in self.detailed if path}))
        return tuple(sorted({*self.changed_keys, *self.replace_keys}))

    def shown_replace_keys(self) -> tuple[str, ...]:
        """Return the top-level properties that force a replacement, for messages."""
        paths = [path for path, replacing in (self.detailed or {}).items() if replacing and path]
        return tuple(sorted({*self.replace_keys, *(str(parse_path(path)[0]) for path in paths)}))


NO_DIFF = ResourceDiff(changes=False)

_SEGMENT = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|\.?([^.\[\]"]+)')


def parse_path(text: str) -> Path:
    """Parse a property path (`a.b[0]["c d"]`, `*` for any) into its keys and indices."""
    segments: list[str | int] = []
    position = 0
    while position < len(text):
        match = _SEGMENT.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"property path {text!r} is malformed at character {position}")
        quoted, index, name = match.groups()
        if quoted is not None:
            segments.append(quoted.replace('\\"', '"'))
        elif index is not None:
            segments.append("*" if index == "*" else int(index))
        else:
            segments.append(name)
        position = match.end()
    return tuple(segments)


def covers(pattern: Path, path: Path) -> bool:
    """Return whether `pattern` (`*` matches any one segment) is `path` or contains it."""
    return len(pattern) <= len(path) and all(
        want in ("*", have) for want, have in zip(pattern, path, strict=False)
    )


def ignore_changes(inputs: Properties, old: Properties, paths: Iterable[str]) -> Properties:
    """Return `inputs` with the old value of each ignored property, or without it if it was absent."""
    result = inputs
    for text in paths:
        path = parse_path(text)
        if path == ("*",):
            return dict(old)
        if result is inputs:
            result = copy.deepcopy(inputs)
        _reset(result, old, path)
    return result


def _reset(target: Any, source: Any, path: Path) -> None:
    head, rest = path[0], path[1:]
    for key in _keys(target, source, head):
        here = _get(source, key)
        if not rest or here is _ABSENT:
            if here is _ABSENT:
                _remove(target, key)
            else:
                _set(target, key, copy.deepcopy(here))
        else:
            inner = _get(target, key)
            if inner is not _ABSENT:
                _reset(inner, here, rest)


_ABSENT = object()


def _keys(target: Any, source: Any, head: str | int) -> list[str | int]:
    if head != "*":
        return [head]
    if isinstance(target, dict):
        return list(dict.fromkeys([*target, *(source if isinstance(source, dict) else ())]))
    return list(range(len(target))) if isinstance(target, list) else []


def _get(container: Any, key: str | int) -> Any:
    if isinstance(container, dict):
        return container.get(str(key), _ABSENT)
    if isinstance(container, list) and isinstance(key, int) and key < len(container):
        return container[key]
    return _ABSENT


def _set(container: Any, key: str | int, value: Any) -> None:
    if isinstance(container, dict):
        container[str(key)] = value
    elif isinstance(container, list) and isinstance(key, int) and key < len(container):
        container[key] = value


def _remove(container: Any, key: str | int) -> None:
    if isinstance(container, dict):
        container.pop(str(key), None)


def compare_inputs(old: Properties, new: Properties) -> ResourceDiff:
    """Compare top-level inputs, secrets or not, for a provider that cannot diff."""
    before, after = reveal(old), reveal(new)
    keys = tuple(sorted(key for key in {*before, *after} if before.get(key) != after.get(key)))
    return ResourceDiff(changes=bool(keys), changed_keys=keys)


def apply_replace_on_changes(diff: ResourceDiff, paths: Sequence[str], *, init_errors: bool) -> ResourceDiff:
    """Apply the option replaceOnChanges to `diff` (`#initerror` or `*` also covers init errors)."""
    if not paths or (not diff.changes and not init_errors):
        return diff
    patterns = [parse_path(path) for path in paths]
    replace_keys = dict.fromkeys(diff.replace_keys)
    for key in diff.changed_keys:
        if any(covers(pattern, parse_path(key)) for pattern in patterns):
            replace_keys.setdefault(key)
    for path in diff.detailed or ():
        if any(covers(pattern, parse_path(path)) for pattern in patterns):
            replace_keys.setdefault(str(parse_path(path)[0]))
    changes = diff.changes
    if init_errors and any(covers(pattern, (INIT_ERROR_KEY,)) for pattern in patterns):
        replace_keys.setdefault(INIT_ERROR_KEY)
        changes = True
    return replace(diff, changes=changes, replace_keys=tuple(replace_keys))
