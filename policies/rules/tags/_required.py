"""The required tag keys of a resource, and their allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field, field_validator

from gpufleet.checks.tag_owners import names_nobody
from gpufleet.checks.tags import LONGEST_VALUE, TAG_TEXT
from gpufleet.policies.rules.tags._tags import Tags, misspelt
from gpufleet.policy.rule import Framework, Settings, Violation
from gpufleet.resources.resource import is_unknown
from gpufleet.spec.models import FleetSpec

ALLOCATION = Framework(
    "FinOps Framework", "Allocation", "https://www.finops.org/framework/capabilities/allocation/"
)
RESERVED = "aws:"
DEFAULT_KEYS: tuple[str, ...] = FleetSpec.model_fields["required_tags"].default


class RequiredKeySettings(Settings):
    """Required keys and their allowed values."""

    keys: tuple[str, ...] = Field((), description="Required keys besides the fleet file's `required_tags`")
    values: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Allowed values by key; such a key is required"
    )
    patterns: dict[str, re.Pattern[str]] = Field(
        default_factory=dict,
        description="Regular expressions by key, which must match the whole value; such a key is required",
    )

    @field_validator("keys", "values", "patterns")
    @classmethod
    def _are_keys(cls, value: dict[str, object] | tuple[str, ...]) -> dict[str, object] | tuple[str, ...]:
        for key in value:
            if not key.strip() or key.lower().startswith(RESERVED):
                raise ValueError(f"{key!r} is not a valid tag key")
        return value

    def all_keys(self, spec: FleetSpec | None) -> tuple[str, ...]:
        """Return the fleet file's required keys (its defaults without a fleet file), then these."""
        of_fleet = spec.required_tags if spec is not None else DEFAULT_KEYS
        if not (self.keys or self.values or self.patterns):
            return of_fleet
        return tuple(dict.fromkeys((*of_fleet, *self.keys, *self.values, *self.patterns)))


def missing_tags(
    tags: Tags, keys: tuple[str, ...], needed: RequiredKeySettings, what: str = ""
) -> Iterator[Violation]:
    """Yield what is wrong with the tags of `what` ("its volumes", or empty for the resource itself)."""
    whose = f"of {what} " if what else ""
    missing = [key for key in keys if key not in tags.values]
    if missing and tags.unclear:
        yield Violation(
            f"{tags.path} {whose}are not known yet, and {listed(missing)} must be among them",
            "write these tags as plain values; compute only other tags",
            prop=tags.path,
            unknown=True,
        )
    elif missing:
        near = [each for key in missing for each in misspelt(tags.values, key)]
        but = f" (there is {listed(near)}, and keys are compared letter by letter)" if near else ""
        yield Violation(
            f"{tags.path} {whose}lack {listed(missing)}{but}",
            "add these tags; under `tags` of a fleet file they reach everything that uses "
            "the component's own tags",
            prop=tags.path,
        )
    for key in keys:
        if key in tags.values:
            yield from value_problems(tags, key, needed, whose)
    for key in tags.values:
        if key[:4].lower() == RESERVED:
            yield Violation(
                f"{tags.path} {whose}hold {key!r}, and keys that start with aws: are AWS's own",
                "choose another key",
                prop=f"{tags.path}.{key}",
            )


def value_problems(tags: Tags, key: str, needed: RequiredKeySettings, whose: str = "") -> Iterator[Violation]:
    """Yield what is wrong with the value of one required key."""
    value, prop = tags.values[key], f"{tags.path}.{key}"
    if is_unknown(value):
        yield Violation(
            f"tag {key!r} {whose}is not known yet, and it is required",
            "write its value as text, or compute it from configuration",
            prop=prop,
            unknown=True,
        )
        return
    reason = _wrong(value, key, needed)
    if key in tags.twice:
        reason = "occurs twice, and it is not defined which one counts"
    if reason:
        yield Violation(
            f"tag {key!r} {whose}is {tags.show(key)}, which {reason}",
            f"write one of {listed(needed.values[key])}"
            if key in needed.values
            else f"write the value of one owner, such as {key}: atlas",
            prop=prop,
        )


def _wrong(value: object, key: str, needed: RequiredKeySettings) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return "is not text"
    text = str(value)
    if not text.strip():
        return "is blank: its cost is assigned to no owner"
    if text != text.strip():
        return "starts or ends with a blank, so cost reports list it separately"
    if len(text) > LONGEST_VALUE or not TAG_TEXT.fullmatch(text):
        return f"AWS rejects: a value has at most {LONGEST_VALUE} letters, digits, blanks and _ . : / = + - @"
    if names_nobody(text, key):
        return "names nobody: it has no visible letter or digit, or only words that suit everyone"
    if key in needed.values and text not in needed.values[key]:
        return "is not an allowed value"
    pattern = needed.patterns.get(key)
    if pattern is not None and not pattern.fullmatch(text):
        return f"does not match {pattern.pattern}"
    return ""


def listed(names: tuple[str, ...] | list[str]) -> str:
    """List names for a message, six at most."""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{', '.join(names[:6])}{more}"
