"""Instances answer the metadata service by session tokens alone, and not to what runs in containers."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policy.context import Context
from gpufleet.policy.resource import Resource, is_unknown, shown
from gpufleet.policy.rule import Example, Framework, Settings, Violation, resource_rule
from gpufleet.policy.types import INSTANCE, LAUNCH_CONFIGURATION, LAUNCH_TEMPLATE


class HopLimit(Settings):
    """How far an answer of the metadata service may travel."""

    hop_limit: int = Field(1, ge=1, le=64, description="Network hops at most; containers are two away")


@resource_rule(
    "imdsv2-required",
    group="security",
    title="Instances answer IMDSv2 alone, one hop far",
    why="IMDSv1 hands the node's credentials to any request that a program can be tricked into sending, "
    "and with a hop limit above 1 every pod without a network namespace of its host's reaches them.",
    fix="Set `metadataOptions` to `httpTokens: required` and `httpPutResponseHopLimit: 1`.",
    severity="high",
    framework=Framework(
        "AWS Foundational Security Best Practices",
        "EC2.8",
        "https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html#ec2-8",
    ),
    types=(LAUNCH_TEMPLATE, INSTANCE, LAUNCH_CONFIGURATION),
    settings=HopLimit,
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
def imdsv2_required(resource: Resource, context: Context[HopLimit]) -> Iterator[Violation]:
    """The metadata options of launch templates, instances and launch configurations."""
    if resource.get("metadataOptions.httpEndpoint") == "disabled":
        return
    tokens = resource.get("metadataOptions.httpTokens")
    if tokens != "required":
        yield Violation(
            f"metadataOptions.httpTokens is {shown(tokens)}, and IMDSv2 needs 'required'",
            "set metadataOptions.httpTokens to required",
            prop="metadataOptions.httpTokens",
            unknown=is_unknown(tokens),
        )
    hops = resource.get("metadataOptions.httpPutResponseHopLimit")
    most = context.settings.hop_limit
    if is_unknown(hops) or not isinstance(hops, int) or hops > most:
        yield Violation(
            f"metadataOptions.httpPutResponseHopLimit is {shown(hops)}, and {most} is the most",
            f"set metadataOptions.httpPutResponseHopLimit to {most}",
            prop="metadataOptions.httpPutResponseHopLimit",
            unknown=is_unknown(hops),
        )
