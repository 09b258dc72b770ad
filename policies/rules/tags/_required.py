"""The keys that a tagged thing must have, and which values they take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field, field_validator

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
    """Which keys are required, and which values they take."""

    keys: tuple[str, ...] = Field((), description="Required keys besides the fleet file's `required_tags`")
    values: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Allowed values by key; such a key is required"
    )
    patterns: dict[str, re.Pattern[str]] = Field(
        default_factory=dict,
        description="Regular expressions by key, which the whole value matches; such a key is required",
    )

    @field_validator("keys", "values", "patterns")
    @classmethod
    def _are_keys(cls, value: dict[str, object] | tuple[str, ...]) -> dict[str, object] | tuple[str, ...]:
        for key in value:
            if not key.strip() or key.lower().startswith(RESERVED):
                raise ValueError(f"{key!r} is no key that a tag of yours can have")
        return value

    def all_keys(self, spec: FleetSpec | None) -> tuple[str, ...]:
        """The fleet file's required keys (without one, those it has by default), then these."""
        of_fleet = spec.required_tags if spec is not None else DEFAULT_KEYS
        if not (self.keys or self.values or self.patterns):
            return of_fleet
        return tuple(dict.fromkeys((*of_fleet, *self.keys, *self.values, *self.patterns)))


def lacking(
    tags: Tags, keys: tuple[str, ...], needed: RequiredKeySettings, what: str = ""
) -> Iterator[Violation]:
    """What is wrong with the tags of `what` ("its volumes", or empty for the resource itself)."""
    whose = f"of {what} " if what else ""
    missing = [key for key in keys if key not in tags.values]
    if missing and tags.unclear:
        yield Violation(
            f"{tags.path} {whose}are not known yet, and {listed(missing)} must be among them",
            "write these tags as plain values: compute no more than the values of others",
            prop=tags.path,
            unknown=True,
        )
    elif missing:
        near = [each for key in missing for each in misspelt(tags.values, key)]
        but = f" (there is {listed(near)}, and keys are compared letter by letter)" if near else ""
        yield Violation(
            f"{tags.path} {whose}lack {listed(missing)}{but}",
            "add these tags; in a fleet file they stand under `tags`, and reach whatever is made with "
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
    """What is wrong with the value of one required key that is there."""
    value, prop = tags.values[key], f"{tags.path}.{key}"
    if is_unknown(value):
        yield Violation(
            f"tag {key!r} {whose}is not known yet, and it is required",
            "write its value plainly, or compute it from configuration",
            prop=prop,
            unknown=True,
        )
        return
    reason = _wrong(value, key, needed)
    if key in tags.twice:
        reason = "is there twice, and which one counts is not said"
    if reason:
        yield Violation(
            f"tag {key!r} {whose}is {tags.show(key)}, which {reason}",
            f"write one of {listed(needed.values[key])}"
            if key in needed.values
            else f"write one value that says whose cost it is, such as {key}: atlas",
            prop=prop,
        )


def _wrong(value: object, key: str, needed: RequiredKeySettings) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return "is no text"
    text = str(value)
    if not text.strip():
        return "is blank: its cost is assigned to no owner"
    if text != text.strip():
        return "has blanks at its ends, so that cost reports list it apart"
    if len(text) > LONGEST_VALUE or not TAG_TEXT.fullmatch(text):
        return f"AWS refuses: a value has at most {LONGEST_VALUE} letters, digits, blanks and _ . : / = + - @"
    if key in needed.values and text not in needed.values[key]:
        return "is none of the allowed values"
    pattern = needed.patterns.get(key)
    if pattern is not None and not pattern.fullmatch(text):
        return f"does not match {pattern.pattern}"
    return ""


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Names for a message, the first six of them."""
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{', '.join(names[:6])}{more}"
