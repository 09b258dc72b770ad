"""Everything is in a region that the environment allows."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.capacity._regions import region_of, site_regions
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Framework, Settings, Violation, stack_rule
from gpufleet.resources.resource import UNKNOWN, Resource, Unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BLOCK_OFFERING, INSTANCE

WITHOUT_REGION = frozenset({"account", "budgets", "cloudfront", "costexplorer", "iam", "organizations"})
"""Modules of pulumi_aws for global services: the region of their provider has no effect."""

ACCOUNT_SERVICES = frozenset({"cloudwatch", "kms", "lambda", "sns", "ssm"})
"""Modules of what alerts of AWS Budgets use: topic and key, and the function that stops growth with its logs
and parameter. AWS Budgets exists in one region only."""


class AllowedRegionsSettings(Settings):
    """Which regions may be used."""

    regions: tuple[str, ...] = Field(
        (), description="Allowed regions; those of the fleet's cloud sites if not set"
    )
    account_regions: tuple[str, ...] = Field(
        ("us-east-1",),
        description="Additional regions for topics and keys of the account's budget",
    )


@stack_rule(
    "allowed-regions",
    group="capacity",
    title="Everything is in a region that the environment allows",
    why="Data must stay in the regions that were agreed on, quotas and reservations are regional, and "
    "resources in an unwatched region are first noticed on the bill.",
    fix="Use the provider of one of the fleet's sites and no `region` property, or add the region as a site.",
    severity="high",
    framework=Framework(
        "AWS Control Tower",
        "AWS-GR_REGION_DENY",
        "https://docs.aws.amazon.com/controltower/latest/userguide/region-deny.html",
    ),
    types=(),
    settings=AllowedRegionsSettings,
    fleet_field="cloud",
    passes=Example(
        ({"type": INSTANCE, "props": {"instanceType": "g6.xlarge"}, "region": "us-east-1"},),
        settings={"regions": ["us-east-1"]},
    ),
    fails=Example(
        ({"type": INSTANCE, "props": {"instanceType": "g6.xlarge", "region": "sa-east-1"}},),
        settings={"regions": ["us-east-1"]},
    ),
)
def allowed_regions(stack: Stack, context: RuleContext[AllowedRegionsSettings]) -> Iterator[Violation]:
    """Check each resource's own region, and each provider once for all resources that use it."""
    shared, settings = context.shared, context.settings
    allowed = frozenset(settings.regions or site_regions(shared))
    beside = allowed | frozenset(settings.account_regions)
    if not allowed and shared.spec is None:
        yield Violation(
            "no region is allowed: the stack has no fleet file, and the rule has no `regions`",
            "set the rule's `regions`, or add a fleet file to the stack",
            unknown=True,
        )
        return
    followers: dict[tuple[str, str | Unknown], list[Resource]] = {}
    for resource in stack:
        if resource.type == BLOCK_OFFERING:
            value = resource.get("region", "")
            region: str | Unknown = UNKNOWN if value is UNKNOWN else str(value)
        elif resource.type.startswith("aws:"):
            region = region_of(resource, shared)
        else:
            continue
        module = resource.type.split(":")[1].partition("/")[0]
        if module in WITHOUT_REGION or region in (beside if module in ACCOUNT_SERVICES else allowed):
            continue
        own = (resource.inputs or {}).get("region")
        provider = resource.provider
        if own is None and provider is not None and provider.urn in stack.by_urn:
            followers.setdefault((provider.urn, region), []).append(resource)
        else:
            yield _violation(resource.urn, region, "region" if own is not None else "", allowed, "")
    for (urn, region), resources in followers.items():
        names = ", ".join(each.name for each in resources[:3]) + (", ..." if len(resources) > 3 else "")
        yield _violation(urn, region, "region", allowed, f" for {len(resources)} resources ({names})")


def _violation(urn: str, region: str | Unknown, prop: str, allowed: frozenset[str], more: str) -> Violation:
    places = ", ".join(sorted(allowed))
    limit = f"only {places} may be used" if places else "no region is allowed: the fleet has no cloud site"
    if region is UNKNOWN or not region:
        why = "not known yet" if region is UNKNOWN else "not set here, in a provider or in aws:region"
        return Violation(
            f"the region is {why}{more}, and {limit}",
            "set the region in the provider" if places else "add a cloud site to the fleet file",
            urn=urn,
            prop=prop,
            unknown=True,
        )
    return Violation(
        f"the region is {region!r}{more}, and {limit}",
        (f"use the provider of one of {places}, or " if places else "")
        + f"add a site in {region} to the fleet file",
        urn=urn,
        prop=prop,
    )
