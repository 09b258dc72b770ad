"""No option hides changes of the tags by which cost is split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.policies.rules.tags._required import ALLOCATION, RequiredKeySettings
from gpufleet.policies.rules.tags._tags import decoded
from gpufleet.policies.rules.tags.copied_tags import COPIES, MADE_WITH
from gpufleet.policies.rules.tags.required_tags import SINGLE
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, resource_rule
from gpufleet.resources.aws_types import taggable_types
from gpufleet.resources.resource import Resource, is_unknown, shown
from gpufleet.resources.types import AUTO_SCALING_TAG, PROVIDER, VOLUME

_PART = re.compile(r'"((?:[^"\\]|\\.)*)"|([^.\[\]"]+)')

_TAGGING = {"tagSpecifications", "volumeTags", "propagateTags", *MADE_WITH.values()}.union(*COPIES.values())
"""Properties that pass tags on to what a resource creates."""


@resource_rule(
    "tag-changes-not-ignored",
    group="tags",
    title="Changes of cost tags are never ignored",
    why="With `ignoreChanges` on tags a resource keeps its first tags. The fleet file has a new team or cost "
    "centre, the preview shows it, and the old one keeps getting the bill.",
    fix="Remove `tags` and `tagsAll` from `ignoreChanges`; list single keys that other tools write "
    '(`tags["backup.example/last"]`) instead. Do the same in the provider\'s `ignoreTags`.',
    severity="medium",
    framework=ALLOCATION,
    types=taggable_types() | SINGLE | {PROVIDER},
    settings=RequiredKeySettings,
    passes=Example(
        (
            {
                "type": VOLUME,
                "props": {},
                "options": {"ignoreChanges": ['tags["backup.example/last"]']},
            },
        )
    ),
    fails=Example(({"type": VOLUME, "props": {}, "options": {"ignoreChanges": ["tags"]}},)),
)
def tag_changes_not_ignored(
    resource: Resource, context: RuleContext[RequiredKeySettings]
) -> Iterator[Violation]:
    """Check the option of every taggable resource, and the provider's list of ignored tags."""
    if resource.type == PROVIDER:
        yield from _ignored_by_provider(resource, context.settings.all_keys(context.shared.spec))
        return
    for path in resource.options.ignore_changes:
        if _hides(path, resource, context):
            yield Violation(
                f"ignoreChanges holds {path!r}, which hides changes of cost tags",
                "remove it, or list single other keys",
                prop=path,
            )


def _hides(path: str, resource: Resource, context: RuleContext[RequiredKeySettings]) -> bool:
    parts = [quoted or plain for quoted, plain in _PART.findall(path)]
    required = context.settings.all_keys(context.shared.spec)
    if parts[:1] == ["*"]:
        return True
    if resource.type in SINGLE:
        at = "tag." if resource.type == AUTO_SCALING_TAG else ""
        key = resource.get(f"{at}key")
        return parts[:1] != ["region"] and (not isinstance(key, str) or _is_cost_key(key, required))
    place = next((index for index, part in enumerate(parts) if part in ("tags", "tagsAll")), None)
    if place is None:
        return bool(parts) and parts[0] in _TAGGING
    key = ".".join(parts[place + 1 :])
    # The index of a list does not say which tag it is.
    return not key or "*" in key or parts[place + 1].isdigit() or _is_cost_key(key, required)


def _is_cost_key(key: str, required: tuple[str, ...]) -> bool:
    return key in required or key.startswith(TAG_PREFIX)


def _ignored_by_provider(provider: Resource, required: tuple[str, ...]) -> Iterator[Violation]:
    ignored = decoded(provider.get("ignoreTags"))
    if ignored is None:
        return
    if not isinstance(ignored, Mapping):
        ignored = {"keys": ignored}
    for part, covers in (("keys", _is_cost_key), ("keyPrefixes", _covers)):
        found = ignored.get(part)
        for each in [found] if is_unknown(found) else found or ():
            if is_unknown(each) or covers(str(each), required):
                yield Violation(
                    f"ignoreTags.{part} holds {shown(each)}, and no resource of this provider gets such tags",
                    "remove it; only keys by which no cost is split can be ignored",
                    prop=f"ignoreTags.{part}",
                    unknown=is_unknown(each),
                )


def _covers(prefix: str, required: tuple[str, ...]) -> bool:
    return prefix.startswith(TAG_PREFIX) or any(key.startswith(prefix) for key in (*required, TAG_PREFIX))
