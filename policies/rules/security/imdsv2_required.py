"""Instances require session tokens for the metadata service, and containers cannot reach it."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.types import (
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_CLASS,
    NODE_GROUP,
    SPOT_INSTANCE_REQUEST,
)

METADATA_DEFAULTS = "aws:ec2/instanceMetadataDefaults:InstanceMetadataDefaults"


class Imdsv2RequiredSettings(Settings):
    """The hop limit of the metadata service."""

    hop_limit: int = Field(1, ge=1, le=64, description="Maximum number of network hops; containers need two")


@resource_rule(
    "imdsv2-required",
    group="security",
    title="Instances require IMDSv2 with a hop limit of 1",
    why="IMDSv1 gives the node's credentials to any request that a program can be tricked into sending. "
    "With a hop limit above 1, pods without the host's network can reach them too.",
    fix="Set `metadataOptions` to `httpTokens: required` and `httpPutResponseHopLimit: 1`.",
    severity="high",
    framework=Framework(
        "AWS Foundational Security Best Practices",
        "EC2.8",
        "https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html#ec2-8",
    ),
    types=(
        LAUNCH_TEMPLATE,
        INSTANCE,
        SPOT_INSTANCE_REQUEST,
        LAUNCH_CONFIGURATION,
        NODE_GROUP,
        NODE_CLASS,
        METADATA_DEFAULTS,
    ),
    settings=Imdsv2RequiredSettings,
    passes=Example(
        (
            {
                "type": LAUNCH_TEMPLATE,
                "props": {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}},
            },
        )
    ),
    fails=Example(({"type": LAUNCH_TEMPLATE, "props": {"metadataOptions": {"httpTokens": "optional"}}},)),
)
def imdsv2_required(resource: Resource, context: RuleContext[Imdsv2RequiredSettings]) -> Iterator[Violation]:
    """Check the metadata options of launch templates, instances and launch configurations, the defaults of
    an account, and node groups without a launch template: EKS's own allows two hops. An EC2NodeClass has good
    defaults."""
    if resource.type == NODE_CLASS:
        for path, default in (("httpTokens", "required"), ("httpPutResponseHopLimit", 1)):
            if resource.get(f"spec.metadataOptions.{path}", default) != default:
                yield from _check(resource, "spec.metadataOptions.", context.settings.hop_limit)
                return
        return
    if resource.type == NODE_GROUP:
        if resource.get("launchTemplate") is None:
            yield Violation(
                "launchTemplate is not set, and EKS's default lets pods reach the node's credentials",
                "add a launch template with metadataOptions",
                prop="launchTemplate",
            )
        return
    # An instance with a launch template has the template's options, which are checked there.
    if resource.get("launchTemplate") is not None and resource.get("metadataOptions") is None:
        return
    prefix = "" if resource.type == METADATA_DEFAULTS else "metadataOptions."
    if resource.get(f"{prefix}httpEndpoint") == "disabled" and not resource.ignores(f"{prefix}httpEndpoint"):
        return
    yield from _check(resource, prefix, context.settings.hop_limit)


def _check(resource: Resource, prefix: str, most: int) -> Iterator[Violation]:
    path = f"{prefix}httpTokens"
    tokens = resource.get(path)
    if tokens != "required":
        yield Violation(
            f"{path} is {resource.show(path)}, and IMDSv2 needs 'required'",
            f"set {path} to required",
            prop=path,
            unknown=is_unknown(tokens),
        )
    elif resource.ignores(path):
        yield ignored(resource, path, "IMDSv2 needs 'required'")
    path = f"{prefix}httpPutResponseHopLimit"
    hops = resource.get(path)
    if isinstance(hops, bool) or not isinstance(hops, (int, float)) or hops > most:
        yield Violation(
            f"{path} is {resource.show(path)}, and {most} is the maximum",
            f"set {path} to {most}",
            prop=path,
            unknown=is_unknown(hops),
        )
    elif resource.ignores(path):
        yield ignored(resource, path, f"{most} is the maximum")
