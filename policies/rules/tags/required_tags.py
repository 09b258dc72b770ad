"""Every taggable resource has the tags by which cost is split."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field, field_validator

from gpufleet.policies.rules.tags._required import (
    ALLOCATION,
    RequiredKeySettings,
    missing_tags,
    value_problems,
)
from gpufleet.policies.rules.tags._tags import Tags, effective
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, resource_rule
from gpufleet.resources.aws_types import exists, single_tag_types, taggable_types
from gpufleet.resources.resource import UNKNOWN, Resource, is_unknown
from gpufleet.resources.types import AUTO_SCALING_TAG, VOLUME

SINGLE = single_tag_types() | {AUTO_SCALING_TAG}


class RequiredTagsSettings(RequiredKeySettings):
    """Which keys are required of which types."""

    except_types: frozenset[str] = Field(
        frozenset(), description="Resource types that need none, such as aws:iam/role:Role"
    )

    @field_validator("except_types")
    @classmethod
    def _exist(cls, value: frozenset[str]) -> frozenset[str]:
        for each in sorted(value):
            if not exists(each):
                raise ValueError(f"{each!r} is not a resource type of pulumi_aws")
        return value


@resource_rule(
    "required-tags",
    group="tags",
    title="Every taggable resource has the required tags, with valid values",
    why="Cost is split by tags. A resource without a tag, or with another spelling of it, has no owner in "
    "cost reports. A later correction does not change past reports.",
    fix="Put the required keys under `tags` of the fleet file, and pass a component's tags on to each of its "
    "resources. Default tags of the AWS provider count.",
    severity="medium",
    framework=ALLOCATION,
    types=taggable_types() | SINGLE,
    settings=RequiredTagsSettings,
    fleet_field="tags",
    passes=Example(
        (
            {
                "type": VOLUME,
                "props": {
                    "size": 100,
                    "tags": {"team": "research", "cost-center": "cc-4711", "project": "atlas"},
                },
            },
        )
    ),
    fails=Example(
        ({"type": VOLUME, "props": {"size": 100, "tags": {"Team": "research", "cost-center": "  "}}},)
    ),
)
def required_tags(resource: Resource, context: RuleContext[RequiredTagsSettings]) -> Iterator[Violation]:
    """Check the tags of all taggable types, and resources that are a tag of another one."""
    needed = context.settings
    if resource.type in needed.except_types:
        return
    keys = needed.all_keys(context.shared.spec)
    if resource.type in SINGLE:
        yield from _single(resource, keys, needed)
    else:
        yield from missing_tags(effective(resource), keys, needed)


def _single(resource: Resource, keys: tuple[str, ...], needed: RequiredTagsSettings) -> Iterator[Violation]:
    """Check one tag of another resource: it replaces that resource's own tag."""
    at = "tag." if resource.type == AUTO_SCALING_TAG else ""
    key = resource.get(f"{at}key")
    if is_unknown(key):
        yield Violation(
            f"{at}key is not known yet, and may be a required one",
            "write the key as text",
            prop=f"{at}key",
            unknown=True,
        )
    elif key in keys:
        hidden = frozenset({key}) if resource.show(f"{at}value") == "[secret]" else frozenset[str]()
        value = resource.get(f"{at}value")
        tags = Tags(f"{at}value", {key: "" if value is None else value}, hidden=hidden)
        for each in value_problems(tags, key, needed):
            yield Violation(each.message, each.remedy, prop=f"{at}value", unknown=value is UNKNOWN)
