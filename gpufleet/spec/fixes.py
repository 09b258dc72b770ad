"""Machine-readable fixes from the remedies of findings: field and new value.

A remedy is machine-readable if it contains `write 'VALUE'` or `write 'FIELD: VALUE'`, with alternatives after
`or`. Examples (`such as '...'`) and other texts are not. Tests apply all fixes and validate again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from gpufleet.findings import Finding
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.paths import FieldPath, field_path, parse_path
from gpufleet.spec.shape import fields_of, is_model, type_at

_CHOICES = re.compile(r"\bwrite ('[^']+'(?:,? or '[^']+')*)")
_PLACEHOLDER = re.compile(r"<[^>]*>|\.\.\.")
_FIELD = re.compile(r"([a-z_]+): (.*)", re.DOTALL)


class Fix(Struct, frozen=True):
    """A valid value for a field: `value` is text, or a list or mapping of texts."""

    field: str
    value: Any


def fixes(finding: Finding) -> tuple[Fix, ...]:
    """Return the fixes in a finding's remedy, empty if it is not machine-readable."""
    return tuple(_fixes(finding))


def _fixes(finding: Finding) -> Iterator[Fix]:
    try:
        path = parse_path(finding.field)
    except ValueError:
        return
    if not path:
        return
    for choices in _CHOICES.findall(finding.remedy):
        for text in re.findall(r"'([^']+)'", choices):
            if _PLACEHOLDER.search(text):
                continue
            named = _FIELD.fullmatch(text)
            where = _place(path, named[1]) if named is not None else None
            written = named[2] if named is not None and where is not None else text
            yield Fix(field_path(where if where is not None else path), _value(written))


def _place(path: FieldPath, name: str) -> FieldPath | None:
    """Return the path of a remedy's field: the finding's field, one inside it, or the nearest sibling or
    parent."""
    if path and path[-1] == name:
        return path
    for end in range(len(path), -1, -1):
        model = type_at(FleetSpec, path[:end])
        if is_model(model) and name in fields_of(model):
            return (*path[:end], name)
    return None


def _value(text: str) -> Any:
    """Parse text as the fleet file's reader does: brackets and braces contain more texts."""
    return yaml.load(text, yaml.BaseLoader) if text[:1] in "[{" else text  # noqa: S506 - creates only texts
