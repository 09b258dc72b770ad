"""Backups, snapshots, tasks and volumes that a service creates later have the tags of their source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpufleet.policies.rules.tags._required import RequiredKeySettings, missing_tags
from gpufleet.policies.rules.tags._tags import Tags, read
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Violation, resource_rule
from gpufleet.resources.aws_types import besides, taggable_types
from gpufleet.resources.lustre import is_scratch
from gpufleet.resources.resource import Resource, is_unknown, shown
from gpufleet.resources.types import LUSTRE

ADDON = "aws:eks/addon:Addon"
LIFECYCLE = "aws:dlm/lifecyclePolicy:LifecyclePolicy"
ECS = ("aws:ecs/service:Service", "aws:ecs/daemon:Daemon")
JOB_DEFINITION = "aws:batch/jobDefinition:JobDefinition"
VOLUME_DRIVER = "aws-ebs-csi-driver"

OF_ITS_CLUSTER = ("aws:rds/clusterInstance:ClusterInstance", "aws:docdb/clusterInstance:ClusterInstance")
"""Types whose switch has no effect: the snapshots, and so their tags, are the cluster's."""

COPIES = {
    token: tuple(prop for prop in besides(token) if prop.startswith("copyTagsTo"))
    for token in taggable_types()
    if token not in OF_ITS_CLUSTER and any(prop.startswith("copyTagsTo") for prop in besides(token))
}
"""Type -> switches that copy its tags; off by default."""

MADE_WITH = {
    "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration": "resourceTags",
    "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate": "resourceTags",
    "aws:drs/replicationConfigurationTemplate:ReplicationConfigurationTemplate": "stagingAreaTags",
}
"""Type -> the property with the tags of what it creates."""


@resource_rule(
    "copied-tags",
    group="tags",
    title="Backups, snapshots, tasks and volumes of a tagged resource are tagged too",
    why="Backups of a parallel file system and volumes claimed by Kubernetes are billed separately for "
    "years. They get no tags unless the resource copies them.",
    fix="Set `copyTagsToBackups` (FSx), `copyTagsToSnapshot` (RDS, Neptune), `copyTags` (lifecycle "
    "policies), `propagateTags` (ECS, Batch), and `controller.extraVolumeTags` in the configuration of "
    "the EKS add-on aws-ebs-csi-driver.",
    severity="medium",
    framework=Framework(
        "AWS Foundational Security Best Practices",
        "FSx.2",
        "https://docs.aws.amazon.com/securityhub/latest/userguide/fsx-controls.html#fsx-2",
    ),
    types=(*COPIES, *MADE_WITH, *ECS, LIFECYCLE, JOB_DEFINITION, ADDON),
    settings=RequiredKeySettings,
    passes=Example(
        ({"type": LUSTRE, "props": {"deploymentType": "PERSISTENT_2", "copyTagsToBackups": True}},)
    ),
    fails=Example(({"type": LUSTRE, "props": {"deploymentType": "PERSISTENT_2"}},)),
)
def copied_tags(resource: Resource, context: RuleContext[RequiredKeySettings]) -> Iterator[Violation]:
    """Check switches that copy tags, and tags of what is created."""
    for prop in COPIES.get(resource.type, ()):
        if not _has_no_backups(resource):
            yield from _switched_on(resource, prop)
    if resource.type in ECS:
        yield from _ecs(resource)
    elif resource.type == JOB_DEFINITION:
        yield from _switched_on(resource, "propagateTags")
    elif resource.type in MADE_WITH or resource.type in (LIFECYCLE, ADDON):
        keys = context.settings.all_keys(context.shared.spec)
        for what, tags in _made(resource):
            yield from missing_tags(tags, keys, context.settings, what)


def _has_no_backups(resource: Resource) -> bool:
    # Scratch file systems have no backups, and FSx rejects the switch.
    return resource.type == LUSTRE and is_scratch(resource)


def _switched_on(resource: Resource, prop: str) -> Iterator[Violation]:
    value = resource.get(prop)
    if value not in (True, "true"):
        yield Violation(
            f"{prop} is {shown(value)}, and what is created from this gets tags only if it is true",
            f"set {prop} to true",
            prop=prop,
            unknown=is_unknown(value),
        )


def _ecs(resource: Resource) -> Iterator[Violation]:
    value = resource.get("propagateTags")
    allowed = "DAEMON" if resource.type.endswith(":Daemon") else "SERVICE or TASK_DEFINITION"
    if value not in ("SERVICE", "DAEMON", "TASK_DEFINITION"):
        yield Violation(
            f"propagateTags is {shown(value)}, and tasks get no tags without it",
            f"set propagateTags to {allowed}",
            prop="propagateTags",
            unknown=is_unknown(value),
        )


def _made(resource: Resource) -> Iterator[tuple[str, Tags]]:
    if resource.type in MADE_WITH:
        prop = MADE_WITH[resource.type]
        yield "what it creates", read(resource, resource.get(prop), prop)
    elif resource.type == LIFECYCLE:
        for path, schedule in resource.items("policyDetails.schedules"):
            copies = schedule.get("copyTags") if isinstance(schedule, Mapping) else schedule
            if copies not in (True, "true"):
                tags = None if is_unknown(copies) else resource.get(f"{path}.tagsToAdd")
                yield "snapshots", read(resource, copies if is_unknown(copies) else tags, f"{path}.tagsToAdd")
    elif resource.get("addonName") == VOLUME_DRIVER:
        path = "configurationValues.controller.extraVolumeTags"
        yield "volumes that Kubernetes claims", read(resource, _configured(resource), path)


def _configured(resource: Resource) -> Any:
    text = resource.get("configurationValues")
    if text is None or is_unknown(text):
        return text
    try:
        # The add-on takes YAML, of which JSON is a part.
        value: Any = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return None
    for part in ("controller", "extraVolumeTags"):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
