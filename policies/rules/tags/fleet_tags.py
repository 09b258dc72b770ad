"""The tags that gpufleet sets say what the fleet file says, and are mended where they do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.policies.rules.tags._fleet import (
    NODE_GROUP,
    OF_A_SITE,
    SITE,
    STORAGE,
    TEAM,
    FleetTags,
    fleet_of,
)
from gpufleet.policies.rules.tags._mend import mended
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
    """The tag properties with the fleet's tags in them; None where nothing has to change."""
    spec = context.shared.spec
    if spec is None or resource.type in SINGLE:
        return None
    fleet = fleet_of(spec)
    site = fleet.site_in(_region(resource)) if resource.type in OF_A_SITE else None
    return mended(resource, fleet.everywhere, {SITE: site} if site is not None else {})


@resource_rule(
    "fleet-tags",
    group="tags",
    title="Tags say what the fleet file says",
    why="A tag that names another team, another environment or a site that does not exist sends its cost to "
    "somebody else, and budgets, which filter by these tags, do not count it.",
    fix="Pass a component's tags on unchanged. Under `enforcement: remediate` the fleet's tags are added, "
    "and wrong values of them replaced; a wrong site, node group or storage is for you to repair.",
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
    """Tags of resources, of what launch templates create, and single tags of other resources."""
    spec = context.shared.spec
    if spec is None:
        yield Violation(
            "this stack has no fleet file to compare its tags with",
            "name its fleet file in the configuration (gpufleet:fleetFile), or disable the rule here",
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
            f"{tags.path} {'are not known yet, and must hold' if tags.unclear else 'lack'} the fleet's "
            f"{', '.join(missing)}",
            "pass the component's tags on, or set the rule to remediate",
            prop=tags.path,
            unknown=tags.unclear,
        )
    for key, expected in fleet.everywhere.items():
        if key in tags.values and (key in tags.twice or tags.values[key] != expected):
            yield Violation(
                f"tag {key!r} is {tags.show(key)}, and the fleet file says {expected!r}",
                "change the fleet file, or leave the tag as it is there",
                prop=f"{tags.path}.{key}",
                unknown=is_unknown(tags.values[key]),
            )
    for key, message in fleet.wrong_places(tags.values, _region(resource)):
        yield Violation(
            f"tag {key!r} is {tags.show(key)}, {message}",
            "take the tags of the site, node group or storage that it belongs to",
            prop=f"{tags.path}.{key}",
            unknown=is_unknown(tags.values[key]),
        )


def _places(tags: Any) -> dict[str, Any]:
    """The tags that say where something belongs."""
    if not isinstance(tags, Mapping):
        return {}
    return {key: tags[key] for key in (SITE, NODE_GROUP, STORAGE, TEAM) if key in tags}


def _elsewhere(launched: Tags, of_template: Mapping[str, Any]) -> Iterator[Violation]:
    """What is launched belongs where its template does."""
    for key, value in of_template.items():
        found = launched.values.get(key)
        # A missing site is found with the fleet's tags.
        if found != value and not is_unknown(found) and not (key == SITE and found is None):
            yield Violation(
                f"tag {key!r} at {launched.path} is {launched.show(key)}, and the launch template's own is "
                f"{'not known yet' if is_unknown(value) else 'another'}",
                "give what is launched the tags of its launch template",
                prop=f"{launched.path}.{key}",
                unknown=is_unknown(value),
            )


def _region(resource: Resource) -> str | None:
    """Where the resource is, if that is known: a resource may name another region than its provider."""
    region = resource.get("region")
    if region is None and resource.provider is not None:
        region = resource.provider.props.get("region")
    return region if isinstance(region, str) else None


def _single(resource: Resource, fleet: FleetTags) -> Iterator[Violation]:
    """One tag of another resource. A key that is not known yet is for `required-tags` to judge."""
    at = "tag." if resource.type == AUTO_SCALING_TAG else ""
    key, value = resource.get(f"{at}key"), resource.get(f"{at}value")
    prop = f"{at}value"
    if key in fleet.everywhere and value != fleet.everywhere[key]:
        yield Violation(
            f"tag {key!r} is {resource.show(prop)}, and the fleet file says {fleet.everywhere[key]!r}",
            "leave the tag to the resource itself",
            prop=prop,
            unknown=is_unknown(value),
        )
    elif isinstance(key, str):
        for _, message in fleet.wrong_places({key: value}, None, alone=True):
            yield Violation(
                f"tag {key!r} is {resource.show(prop)}, {message}",
                "leave the tag to the resource itself",
                prop=prop,
                unknown=is_unknown(value),
            )
