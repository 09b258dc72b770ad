"""An assumed cost is stated again when its resource changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.plan.assumptions import FIELD, Assumptions, assumptions_of
from gpufleet.policies.rules.budget._caps import FORECASTING, example_fleet, fleet_of, no_fleet
from gpufleet.policy.change import ChangeStep, StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.pricing.assume import assumed_for
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import LAUNCH_CONFIGURATION, LAUNCH_TEMPLATE, LUSTRE

_FREE = frozenset(
    {
        *("tags", "tagsAll", "labels", "taints", "name", "namePrefix", "description", "policy", "metadata"),
        *("securityGroups", "securityGroupIds", "vpcSecurityGroupIds", "kmsKeyId", "userData", "region"),
        *("updateConfig", "deletionProtection", "forceDestroy", "skipFinalBackup", "copyTagsToBackups"),
        *("rootSquashConfiguration", "logConfiguration", "importPath", "exportPath", "autoImportPolicy"),
        *("weeklyMaintenanceStartTime", "dailyAutomaticBackupStartTime", "finalBackupTags", "releaseVersion"),
    }
)
"""Properties that never affect the cost."""

_LAUNCHED = frozenset({"blockDeviceMappings", "instanceType", "instanceRequirements"})
"""Properties of a launch template that affect the cost of its group."""

_ASSUMED = {"atlas-prod-usw2-scratch": "300 USD"}


def _scratch(gib: int) -> tuple[dict[str, Any], ...]:
    props = {"deploymentType": "SCRATCH_2", "storageCapacity": gib}
    return ({"type": LUSTRE, "name": "atlas-prod-usw2-scratch", "region": "us-gov-west-1", "props": props},)


_FLEET = {**example_fleet(), "policies": {"budget-unknown-cost": {"settings": {"assume": _ASSUMED}}}}
_RENEWED = {
    **_FLEET,
    "policies": {"budget-unknown-cost": {"settings": {"assume": {"atlas-prod-usw2-scratch": "30000 USD"}}}},
}


@change_rule(
    "budget-assumption-renewed",
    group="budget",
    title="An assumed cost is stated again when its resource changes",
    why="An amount assumed for a file system of 1 TiB would also apply to one of 100 TiB, and to every "
    "resource whose name matches the same pattern. No cap would detect the difference.",
    fix="Write the cost of the new size into the fleet file, or read real prices with "
    "`gpufleet catalog refresh`.",
    severity="high",
    framework=FORECASTING,
    fleet_field=FIELD,
    passes=Example(_scratch(120_000), before=_scratch(1200), fleet=_RENEWED, fleet_before=_FLEET),
    fails=Example(_scratch(120_000), before=_scratch(1200), fleet=_FLEET, fleet_before=_FLEET),
)
def budget_assumption_renewed(change: StackChange, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Report resources that change while their assumed amount stays, and new types under an old pattern.

    A run that has no earlier fleet file (`up`) has no earlier assumptions to compare with.
    """
    spec, spec_before = fleet_of(context), change.spec_before
    if spec is None:
        yield no_fleet(context)
        return
    if spec_before is None or spec_before is spec:
        return
    given, stale = assumptions_of(spec), assumptions_of(spec_before)
    stale = {key: amount for key, amount in stale.items() if given.get(key) == amount}
    covered: dict[str, str] = {}
    for line in change.cost_after.lines:
        found = assumed_for(line, given) if line.assumed else None
        if found is not None and found[0] in stale:
            covered[line.urn] = found[0]
    yield from _changed(change, covered, stale)
    yield from _new(change, covered, stale)


def _changed(change: StackChange, covered: Mapping[str, str], stale: Assumptions) -> Iterator[Violation]:
    for step in change.steps:
        for urn, prop in _more_expensive(change, step):
            key = covered.get(urn)
            if key is not None:
                yield Violation(
                    f"{prop} of {step.resource.name} changes, and {stale[key]} USD stay assumed for {key}",
                    f"write what it costs now into {FIELD}",
                    urn=step.urn,
                    prop=prop,
                    fleet_field=FIELD,
                )


def _new(change: StackChange, covered: Mapping[str, str], stale: Assumptions) -> Iterator[Violation]:
    """Report new resources of a type that the pattern did not cover before."""
    types: dict[str, set[str]] = {}
    for line in change.cost_before.lines:
        found = assumed_for(line, stale) if line.assumed else None
        if found is not None:
            types.setdefault(found[0], set()).add(line.type)
    for step in change.steps:
        key = covered.get(step.urn, "") if step.operation == "create" else ""
        if key in types and step.resource.type not in types[key]:
            yield Violation(
                f"{step.resource.name} is a {step.resource.type}, and {key} was assumed for "
                f"{', '.join(sorted(types[key]))}",
                f"write what it costs into {FIELD}, under its own name",
                urn=step.urn,
                fleet_field=FIELD,
            )


def _more_expensive(change: StackChange, step: ChangeStep) -> Iterator[tuple[str, str]]:
    """Yield (URN, property) of what may become more expensive: a resource, or launches from a template."""
    if step.operation not in ("update", "replace") or step.after is None:
        return
    props = [each for each in (*step.diff, *step.replace_keys) if each not in _FREE]
    if props and step.after.type not in (LAUNCH_TEMPLATE, LAUNCH_CONFIGURATION):
        yield step.urn, props[0]
    for prop in props:
        if step.after.type in (LAUNCH_TEMPLATE, LAUNCH_CONFIGURATION) and prop in _LAUNCHED:
            yield from ((each.urn, prop) for each in change.after if _refers(each, step.after))
            return


def _refers(resource: Resource, template: Resource) -> bool:
    return any(template.urn in urns for urns in resource.property_dependencies.values())
