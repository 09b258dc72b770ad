"""Clusters use a Kubernetes version in standard support."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._eks_calendar import CALENDAR, version_of
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import CLUSTER


class EksVersionStandardSupportSettings(Settings):
    """How early to report the end of support, and whether extended support is allowed."""

    days: int = Field(0, ge=0, description="Days before the end of standard support to start reporting it")
    extended: bool = Field(False, description="Whether extended support, at its price, is allowed")


@resource_rule(
    "eks-version-standard-support",
    group="security",
    title="Clusters use a version in standard support",
    why="After 14 months a Kubernetes version is in extended support: the cluster costs six times as "
    "much, and at its end EKS upgrades it automatically. The rule is advisory, because a change that "
    "passed yesterday should not fail only because a day has passed.",
    fix="Use a newer version, and set `upgradePolicy.supportType: STANDARD`.",
    severity="low",
    enforcement="advisory",
    framework=fsbp("EKS.2"),
    types=(CLUSTER,),
    settings=EksVersionStandardSupportSettings,
    passes=Example(
        ({"type": CLUSTER, "props": {"version": "1.35", "upgradePolicy": {"supportType": "STANDARD"}}},)
    ),
    fails=Example(
        ({"type": CLUSTER, "props": {"version": "1.31", "upgradePolicy": {"supportType": "STANDARD"}}},)
    ),
)
def eks_version_standard_support(
    resource: Resource, context: RuleContext[EksVersionStandardSupportSettings]
) -> Iterator[Violation]:
    """Check each cluster whose version is in the calendar; `eks-version-offered` checks others."""
    if context.settings.extended:
        return
    yield from require(
        resource,
        "upgradePolicy.supportType",
        lambda value: value == "STANDARD",
        "STANDARD keeps a cluster out of extended support",
        "set it to STANDARD",
    )
    version = version_of(resource.get("version"))
    support = CALENDAR.get(version) if version is not None else None
    today = context.shared.now.date()
    if support is None or support.standard is None:
        return
    left = (support.standard - today).days
    if left < context.settings.days:
        past = support.extended is not None and today > support.extended
        state = f"extended support ended on {support.extended}" if past else "it is in extended support since"
        if left >= 0:
            state = "standard support ends in"
        when = f"{left} days" if left >= 0 else str(support.standard)
        yield Violation(
            f"version is {resource.show('version')}, and {state}{'' if past else f' {when}'}",
            "use a newer version; upgrade one minor version at a time",
            prop="version",
        )
