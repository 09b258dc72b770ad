"""Every EBS volume that a stack creates, or that EC2 creates at launch, is encrypted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import is_off, is_on, region_of, require, require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_CLASS,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
    VOLUME,
)

DEFAULT = "aws:ebs/encryptionByDefault:EncryptionByDefault"
SNAPSHOT_COPY = "aws:ebs/snapshotCopy:SnapshotCopy"
MACHINES = (INSTANCE, SPOT_INSTANCE_REQUEST, LAUNCH_CONFIGURATION)
RULE = "every volume must be encrypted"
REMEDY = "set it to true"


class EbsEncryptedSettings(Settings):
    """Which volumes need a key, and which devices are root devices."""

    volume_key: bool = Field(
        True, description="Whether stand-alone volumes, which keep data, need a customer-managed key"
    )
    root_devices: tuple[str, ...] = Field(
        ("/dev/xvda", "/dev/sda1"), description="Names of root devices; a launch template must map one"
    )


@stack_rule(
    "ebs-encrypted",
    group="security",
    title="EBS volumes are encrypted",
    why="Nodes keep checkpoints, credentials and container layers on their disks. Whoever gets a copy of a "
    "snapshot of an unencrypted volume can read it. Without a mapping of the root device, the launch "
    "template uses the image's setting, which is unencrypted for AWS's own images.",
    fix="Map the root device in the launch template with `ebs.encrypted: true`, set `encrypted: true` on "
    "volumes, or turn on `aws:ebs/encryptionByDefault` for the region.",
    severity="high",
    framework=fsbp("EC2.3"),
    types=(*MACHINES, LAUNCH_TEMPLATE, NODE_GROUP, NODE_CLASS, SPOT_FLEET, VOLUME, DEFAULT, SNAPSHOT_COPY),
    settings=EbsEncryptedSettings,
    passes=Example(
        (
            {
                "type": LAUNCH_TEMPLATE,
                "props": {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true"}}]},
            },
        )
    ),
    fails=Example(
        (
            {
                "type": LAUNCH_TEMPLATE,
                "props": {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200}}]},
            },
        )
    ),
)
def ebs_encrypted(stack: Stack, context: RuleContext[EbsEncryptedSettings]) -> Iterator[Violation]:
    """Check volumes, snapshot copies, and the block devices of all launches."""
    by_default: set[object] = set()
    for each in map(declared, stack.of_type(DEFAULT)):
        region = region_of(each, context.shared)
        found = list(
            require(each, "enabled", lambda value: value is None or is_on(value), RULE, "leave it enabled")
        )
        yield from found
        if not found and not is_unknown(region):
            by_default.add(region)
    for resource in map(declared, stack.of_type(VOLUME)):
        yield from require(resource, "encrypted", is_on, RULE, REMEDY)
        if context.settings.volume_key:
            yield from require_key(
                stack, resource, "kmsKeyId", "a customer-managed key is required", "set it to a KMS key"
            )
    for resource in map(declared, stack.of_type(SNAPSHOT_COPY)):
        yield from require(resource, "encrypted", is_on, RULE, REMEDY)
    for resource in map(declared, stack.of_type(LAUNCH_TEMPLATE, *MACHINES, SPOT_FLEET, NODE_GROUP)):
        encrypted = region_of(resource, context.shared) in by_default
        yield from _launcher(resource, encrypted, context.settings.root_devices)
    for resource in map(declared, stack.of_type(NODE_CLASS)):
        # Which region its cluster is in, and so whether EBS encrypts by default there, it does not say.
        yield from _node_class(resource, context.settings.root_devices)


def _launcher(resource: Resource, by_default: bool, roots: Sequence[str]) -> Iterator[Violation]:
    if resource.type == LAUNCH_TEMPLATE:
        yield from _mappings(resource, by_default, roots)
    elif resource.type == NODE_GROUP:
        if resource.get("launchTemplate") is None and not by_default:
            yield _no_root(resource, "launchTemplate", "EKS's own launch template does not encrypt")
    elif resource.type == SPOT_FLEET:
        for path, _ in resource.items("launchSpecifications"):
            yield from _machine(resource, f"{path}.", "rootBlockDevices[0]", by_default)
    else:
        yield from _machine(resource, "", "rootBlockDevice", by_default)


def _mappings(resource: Resource, by_default: bool, roots: Sequence[str]) -> Iterator[Violation]:
    root = by_default
    for path, _ in resource.items("blockDeviceMappings"):
        name = resource.get(f"{path}.deviceName")
        root = root or name in roots
        if resource.get(f"{path}.ebs") is not None:
            yield from _device(resource, f"{path}.ebs.encrypted", by_default)
    if not root:
        yield _no_root(resource, "blockDeviceMappings", "no root device is mapped")


def _node_class(resource: Resource, roots: Sequence[str]) -> Iterator[Violation]:
    mapped = list(resource.items("spec.blockDeviceMappings"))
    for path, _ in mapped:
        yield from require(resource, f"{path}.ebs.encrypted", is_on, RULE, REMEDY)
    if not any(
        is_on(resource.get(f"{path}.rootVolume")) or resource.get(f"{path}.deviceName") in roots
        for path, _ in mapped
    ):
        yield _no_root(resource, "spec.blockDeviceMappings", "no root device is mapped")


def _machine(resource: Resource, prefix: str, root: str, by_default: bool) -> Iterator[Violation]:
    for path, _ in resource.items(f"{prefix}ebsBlockDevices"):
        yield from _device(resource, f"{path}.encrypted", by_default)
    # An instance with a launch template gets its devices from it, and the template is checked itself.
    if resource.get(f"{prefix}{root}") is not None:
        yield from _device(resource, f"{prefix}{root}.encrypted", by_default)
    elif resource.get("launchTemplate") is None and not by_default:
        yield _no_root(resource, f"{prefix}{root}", "the root device is not mapped")


def _device(resource: Resource, path: str, by_default: bool) -> Iterator[Violation]:
    if by_default and not is_off(resource.get(path)):
        return
    yield from require(resource, path, is_on, RULE, REMEDY)


def _no_root(resource: Resource, path: str, why: str) -> Violation:
    return Violation(
        f"{path} is {resource.show(path)}: {why}, so the root volume is encrypted only if the image is",
        "map the root device (/dev/xvda or /dev/sda1) with encrypted true",
        urn=resource.urn,
        prop=path,
        unknown=is_unknown(resource.get(path)),
    )
