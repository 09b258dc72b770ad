"""The tags of instances, volumes and network interfaces that a launch creates.

According to AWS's documentation:
- An EKS node group's own tags do not reach them; its launch template's tag specifications do (EKS User
  Guide, "Customize managed nodes with launch templates").
- An Auto Scaling group's propagated tags reach instances only, and override the launch template's (EC2
  Auto Scaling User Guide, "Tag Auto Scaling groups and instances").
- An EC2 Fleet's own tags are only the fleet's (CreateFleet).

Volumes, and interfaces with a public address, are billed separately, so both need tags. A spot request
costs nothing, and a specification for it makes every on-demand launch fail, so it needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gpufleet.policies.rules.tags._tags import Tags, default_tags, propagated, read, specified
from gpufleet.resources.launches import Launch
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    INSTANCE,
    LAUNCH_TEMPLATE,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
)

Kind = Literal["instance", "volume", "network-interface", "spot-instances-request"]
REQUIRED: tuple[Kind, ...] = ("instance", "volume", "network-interface")

Launched = tuple[Resource, Kind, Tags]
"""A resource to repair, a kind of resource that it creates, and the tags of that kind."""

_FARGATE = ("FARGATE", "FARGATE_SPOT")


def of_template(template: Resource, kinds: Sequence[Kind]) -> Iterator[Launched]:
    """Yield the tags of a launch template."""
    for kind in kinds:
        yield template, kind, _of_template(template, kind)


def of_launch(launch: Launch, kinds: Sequence[Kind]) -> Iterator[Launched]:
    """Yield the tags of one launch, for each of its launch templates."""
    resource = launch.resource
    if resource.type == INSTANCE:
        if "volume" in kinds:
            yield from _volumes(resource, launch.templates)
    elif resource.type == SPOT_INSTANCE_REQUEST:
        # RequestSpotInstances, the API of this resource, tags only the request.
        yield from ((resource, kind, Tags("tags", {})) for kind in kinds if kind in ("instance", "volume"))
    elif resource.type == BATCH:
        if resource.get("computeResources.type") not in _FARGATE and "instance" in kinds:
            yield from _batch(resource, launch.templates)
    else:
        yield from _group(launch, kinds)


def _group(launch: Launch, kinds: Sequence[Kind]) -> Iterator[Launched]:
    resource = launch.resource
    by_group = propagated(resource) if resource.type == AUTO_SCALING_GROUP else None
    for template in launch.templates:
        for kind in kinds:
            tags = _of_template(template, kind)
            if kind == "instance" and by_group is not None:
                tags = by_group.over(tags)
            yield template if template.type == LAUNCH_TEMPLATE else resource, kind, tags
    if resource.type == SPOT_FLEET:
        for path, _ in resource.items("launchSpecifications"):
            yield resource, "instance", read(resource, resource.get(f"{path}.tags"), f"{path}.tags")
            if "volume" in kinds:
                yield resource, "volume", Tags(path, {})


def _of_template(template: Resource, kind: Kind) -> Tags:
    # A launch configuration, the predecessor of launch templates, has no tags.
    found = specified(template, kind) if template.type == LAUNCH_TEMPLATE else None
    return found or Tags("tagSpecifications", {})


def _batch(resource: Resource, templates: Sequence[Resource]) -> Iterator[Launched]:
    mine = read(resource, resource.get("computeResources.tags"), "computeResources.tags")
    for template in templates:
        mine = mine.over(_of_template(template, "instance"))
    yield resource, "instance", mine


def _volumes(instance: Resource, templates: Sequence[Resource]) -> Iterator[Launched]:
    """Yield the tags of a single instance's volumes: the instance's do not reach them, default tags do."""
    beneath = default_tags(instance)
    for template in templates:
        beneath = _of_template(template, "volume").over(beneath)
    volume_tags = read(instance, instance.get("volumeTags"), "volumeTags").over(beneath)
    own: list[Tags] = []
    for prop in ("rootBlockDevice", "ebsBlockDevices"):
        for path, device in instance.items(prop):
            tags = None if is_unknown(device) else instance.get(f"{path}.tags")
            if is_unknown(device) or tags is not None:
                tags_of = read(instance, device if is_unknown(device) else tags, f"{path}.tags")
                own.append(tags_of.over(volume_tags))
    if instance.get("rootBlockDevice.tags") is None and instance.get("rootBlockDevice[0].tags") is None:
        own.append(volume_tags)
    yield from ((instance, "volume", tags) for tags in own)


def has_no_template(launch: Launch) -> bool:
    """Return whether this launch needs a launch template for its tags, and has none."""
    without_template = (INSTANCE, SPOT_INSTANCE_REQUEST, BATCH)
    if launch.templates or launch.unclear or launch.resource.type in without_template:
        return False
    return not (
        launch.resource.type == SPOT_FLEET and launch.resource.get("launchSpecifications") is not None
    )
