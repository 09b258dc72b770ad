"""Clusters, caches, search domains and volumes of services are encrypted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpufleet.policies.rules.security._flags import named
from gpufleet.policies.rules.security._properties import ignored, is_on, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown

CACHE = "aws:elasticache/replicationGroup:ReplicationGroup"
FLAGS = frozenset(
    {
        *("storageEncrypted", "encrypted", "kmsEncrypted", "requireEncryption"),
        *("atRestEncryptionEnabled", "transitEncryptionEnabled", "enableInterContainerTrafficEncryption"),
        *("rootVolumeEncryptionEnabled", "userVolumeEncryptionEnabled"),
    }
)
"""Flags of pulumi_aws' types. None of them may be switched off."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    "aws:docdb/cluster:Cluster": ("storageEncrypted",),
    "aws:neptune/cluster:Cluster": ("storageEncrypted",),
    "aws:rds/cluster:Cluster": ("storageEncrypted",),
    "aws:rds/instance:Instance": ("storageEncrypted",),
    CACHE: ("atRestEncryptionEnabled", "transitEncryptionEnabled"),
    "aws:opensearch/domain:Domain": ("encryptAtRest.enabled", "nodeToNodeEncryption.enabled"),
    "aws:elasticsearch/domain:Domain": ("encryptAtRest.enabled", "nodeToNodeEncryption.enabled"),
    "aws:workspaces/workspace:Workspace": ("rootVolumeEncryptionEnabled", "userVolumeEncryptionEnabled"),
}
"""Types that are not encrypted unless it is requested."""

RULE = "a service must encrypt what it stores and sends"


@resource_rule(
    "services-encrypted",
    group="security",
    title="Services encrypt what they store and send",
    why="Databases, caches and search domains beside a fleet hold job accounting, prompts and results. "
    "Encryption cannot be switched on later without a new resource. The rule judges every type of pulumi_aws "
    "by the names of its properties; `data-stores-encrypted` says with whose key.",
    fix="Set `storageEncrypted`, `atRestEncryptionEnabled` and the like to true.",
    severity="high",
    types=(),
    passes=Example(
        ({"type": CACHE, "props": {"atRestEncryptionEnabled": True, "transitEncryptionEnabled": True}},)
    ),
    fails=Example(({"type": CACHE, "props": {"atRestEncryptionEnabled": True}},)),
)
def services_encrypted(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check flags at any depth, and the types that need one."""
    if not resource.type.startswith("aws:"):
        return
    needed = NEEDED.get(resource.type, ())
    for path in needed:
        yield from require(resource, path, is_on, RULE, "set it to true")
    for path, value in named(resource, FLAGS):
        if path in needed:
            continue
        if not is_on(value):
            yield Violation(
                f"{path} is {resource.show(path)}, and {RULE}",
                "set it to true",
                urn=resource.urn,
                prop=path,
                unknown=is_unknown(value),
            )
        elif resource.ignores(path):
            yield ignored(resource, path, RULE)
