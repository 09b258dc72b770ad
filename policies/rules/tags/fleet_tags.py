"""gpufleet's tags match the fleet file; with `enforcement: remediate` they are corrected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.policies.rules.tags._add_tags import with_tags
from gpufleet.policies.rules.tags._fleet import (
    NODE_GROUP,
    OF_A_SITE,
    SITE,
    STORAGE,
    TEAM,
    FleetTags,
    fleet_of,
)
from gpufleet.policies.rules.tags._required import ALLOCATION
from gpufleet.policies.rules.tags._tags import Tags, effective, read
from gpufleet.policies.rules.tags.required_tags import SINGLE
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.aws_types import taggable_types
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import AUTO_SCALING_TAG, LAUNCH_TEMPLATE, VOLUME

_FLEET = {
    "apiVersion": "gpufleet/v1",
    "fleet": "atlas",
    "environment": "prod",
    "budget": {"monthly": "1000 USD"},
    "tags": {"team": "research", "cost-center": "cc-4711", "project": "atlas"},
    "software": {"channel": "2026.11"},
}
_TAGS = {
    "team": "research",
    "cost-center": "cc-4711",
    "project": "atlas",
    "gpufleet:environment": "prod",
    "gpufleet:fleet": "atlas",
}


def remediate(resource: Resource, context: RuleContext[Settings]) -> Mapping[str, Any] | None:
    """Return the tag properties with the fleet's tags; None if nothing has to change."""
    spec = context.shared.spec
    if spec is None or resource.type in SINGLE:
        return None
    fleet = fleet_of(spec)
    site = fleet.site_in(_region(resource)) if resource.type in OF_A_SITE else None
    return with_tags(resource, fleet.everywhere, {SITE: site} if site is not None else {})


@resource_rule(
    "fleet-tags",
    group="tags",
    title="Tags match the fleet file",
    why="A tag with another team, another environment or an unknown site charges the wrong owner, "
    "and budgets, which filter by these tags, do not count it.",
    fix="Pass a component's tags on unchanged. With `enforcement: remediate` gpufleet adds missing tags "
    "and corrects wrong values; correct a wrong site, node group or storage yourself.",
    severity="medium",
    framework=ALLOCATION,
    types=taggable_types() | SINGLE,
    fleet_field="tags",
    remediate=remediate,
    passes=Example(({"type": VOLUME, "props": {"tags": {**_TAGS, "Name": "scratch"}}},), fleet=_FLEET),
    fails=Example(
        (
            {
                "type": VOLUME,
                "props": {"tags": {**_TAGS, "gpufleet:environment": "dev", "gpufleet:site": "moon"}},
            },
        ),
        fleet=_FLEET,
    ),
)
def fleet_tags(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check tags of resources, of what launch templates create, and single tags of other resources."""
    spec = context.shared.spec
    if spec is None:
        yield Violation(
            "this stack has no fleet file to compare its tags with",
            "set its fleet file in the configuration (gpufleet:fleetFile), or disable the rule here",
            unknown=True,
        )
        return
    fleet = fleet_of(spec)
    if resource.type in SINGLE:
        yield from _single(resource, fleet)
        return
    yield from _differences(effective(resource), fleet, resource)
    if resource.type == LAUNCH_TEMPLATE:
        of_template = _places(resource.props.get("tags"))
        for path, entry in resource.items("tagSpecifications"):
            found = read(resource, entry.get("tags") if isinstance(entry, Mapping) else entry, f"{path}.tags")
            yield from _differences(found, fleet, resource)
            yield from _elsewhere(found, of_template)


def _differences(tags: Tags, fleet: FleetTags, resource: Resource) -> Iterator[Violation]:
    wanted = (*fleet.everywhere, *((SITE,) if fleet.regions and resource.type in OF_A_SITE else ()))
    missing = [key for key in wanted if key not in tags.values]
    if missing:
        yield Violation(
            f"{tags.path} {'are not known yet, and must include' if tags.unclear else 'lack'} the fleet's "
            f"{', '.join(missing)}",
            "pass the component's tags on, or set the rule to remediate",
            prop=tags.path,
            unknown=tags.unclear,
        )
    for key, expected in fleet.everywhere.items():
        if key in tags.values and (key in tags.twice or tags.values[key] != expected):
            yield Violation(
                f"tag {key!r} is {tags.show(key)}, and the fleet file says {expected!r}",
                "change the fleet file, or keep its value",
                prop=f"{tags.path}.{key}",
                unknown=is_unknown(tags.values[key]),
            )
    for key, message in fleet.wrong_places(tags.values, _region(resource)):
        yield Violation(
            f"tag {key!r} is {tags.show(key)}, {message}",
            "use the tags of its site, node group or storage",
            prop=f"{tags.path}.{key}",
            unknown=is_unknown(tags.values[key]),
        )


def _places(tags: Any) -> dict[str, Any]:
    """Return the site, group and storage tags."""
    if not isinstance(tags, Mapping):
        return {}
    return {key: tags[key] for key in (SITE, NODE_GROUP, STORAGE, TEAM) if key in tags}


def _elsewhere(launched: Tags, of_template: Mapping[str, Any]) -> Iterator[Violation]:
    """Check that launched resources have the same tags as their template."""
    for key, value in of_template.items():
        found = launched.values.get(key)
        # Missing tags are reported with the fleet's tags.
        if found != value and not is_unknown(found) and not (key == SITE and found is None):
            yield Violation(
                f"tag {key!r} at {launched.path} is {launched.show(key)}, and the launch template's own is "
                f"{'not known yet' if is_unknown(value) else 'another'}",
                "use the tags of the launch template",
                prop=f"{launched.path}.{key}",
                unknown=is_unknown(value),
            )


def _region(resource: Resource) -> str | None:
    """Return the region of the resource, if known: it may differ from its provider's."""
    region = resource.get("region")
    if region is None and resource.provider is not None:
        region = resource.provider.props.get("region")
    return region if isinstance(region, str) else None


def _single(resource: Resource, fleet: FleetTags) -> Iterator[Violation]:
    """Check one tag of another resource; `required-tags` checks unknown keys."""
    at = "tag." if resource.type == AUTO_SCALING_TAG else ""
    key, value = resource.get(f"{at}key"), resource.get(f"{at}value")
    prop = f"{at}value"
    if key in fleet.everywhere and value != fleet.everywhere[key]:
        yield Violation(
            f"tag {key!r} is {resource.show(prop)}, and the fleet file says {fleet.everywhere[key]!r}",
            "set the tag on the resource itself",
            prop=prop,
            unknown=is_unknown(value),
        )
    elif isinstance(key, str):
        for _, message in fleet.wrong_places({key: value}, None, single=True):
            yield Violation(
                f"tag {key!r} is {resource.show(prop)}, {message}",
                "set the tag on the resource itself",
                prop=prop,
                unknown=is_unknown(value),
            )
