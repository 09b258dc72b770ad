"""A rule's examples as resources, and the violations found in them, for documentation and tests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from gpufleet.catalog import load_catalog
from gpufleet.plan import build_plan
from gpufleet.policy.change import ChangeStep, OpenChange, StackChange
from gpufleet.policy.context import PolicyContext
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.rule import Example, Rule
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.resource import UNKNOWN, ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.policy import Exemption

PROJECT = "gpufleet"
STACK = "prod"
REGION = "us-east-1"
DAY = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
"""The fixed time at which examples are evaluated."""


def urn_of(kind: str, name: str) -> str:
    """Return the URN of an example's resource."""
    return f"urn:pulumi:{STACK}::{PROJECT}::{kind}::{name}"


def resource(described: Mapping[str, Any], others: Mapping[str, str] | None = None) -> Resource:
    """Return one resource of an example (see `Example`); `others` maps names to URNs for `parent` and
    `depends`."""
    kind = described["type"]
    name = described.get("name", "example")
    known = others or {}
    options = described.get("options", {})
    depends: Mapping[str, Sequence[str]] = described.get("depends", {})
    provider = ProviderInstance(
        "pulumi:providers:aws",
        "example",
        urn_of("pulumi:providers:aws", "example"),
        {"region": described.get("region", REGION)},
    )
    return Resource(
        type=kind,
        name=name,
        urn=urn_of(kind, name),
        props=described.get("props", {}),
        inputs=described.get("props", {}),
        options=ResourceOptions(
            protect=options.get("protect", False),
            ignore_changes=tuple(options.get("ignoreChanges", ())),
            aliases=tuple(urn_of(kind, each) for each in options.get("aliases", ())),
            retain_on_delete=options.get("retainOnDelete", False),
        ),
        provider=provider if kind.startswith("aws:") else None,
        parent=known.get(described.get("parent", ""), ""),
        dependencies=tuple(known[each] for names in depends.values() for each in names),
        property_dependencies={prop: tuple(known[each] for each in names) for prop, names in depends.items()},
        secrets=frozenset(described.get("secrets", ())),
    )


def stack(described: Sequence[Mapping[str, Any]]) -> Stack:
    """Return the stack of an example's resources. Names are unique in it."""
    urns = {
        each.get("name", "example"): urn_of(each["type"], each.get("name", "example")) for each in described
    }
    return Stack(resource(each, urns) for each in described)


def policy_context(fleet: Mapping[str, Any] | None = None, **more: Any) -> PolicyContext:
    """Return the context of a run on a fixed day, with a fleet file given as a mapping."""
    catalog = load_catalog()
    spec = FleetSpec.model_validate(fleet) if fleet is not None else None
    return PolicyContext(
        **{
            "project": PROJECT,
            "stack": STACK,
            "catalog": catalog,
            "now": DAY,
            "spec": spec,
            "plan": build_plan(spec, catalog) if spec is not None else None,
            "config": {"aws:region": REGION},
            **more,
        }
    )


def evaluate(
    rule: Rule[Any], example: Example, exemptions: Sequence[Exemption] = (), **more: Any
) -> list[RuleViolation]:
    """Return the violations of an example. A resource rule checks only resources of its types."""
    shared = policy_context(example.fleet, **more)
    settings = rule.settings.model_validate(example.settings or {})
    evaluator = RuleEvaluator([ConfiguredRule(rule, rule.enforcement, settings)], shared, exemptions)
    after = stack(example.resources)
    if rule.scope == "stack":
        return evaluator.stack(after)
    if rule.scope == "resource":
        return [violation for each in after for violation in evaluator.resource(each)]
    spec_before = FleetSpec.model_validate(example.fleet_before) if example.fleet_before is not None else None
    made = change(stack(example.before), after, shared)
    waiting = tuple(OpenChange(name, Decimal(usd)) for name, usd in example.open_changes.items())
    return evaluator.change(
        replace(
            made,
            spec_before=spec_before,
            jobs=example.jobs,
            open_changes=waiting,
            unfinished=example.unfinished,
        )
    )


def change(before: Stack, after: Stack, shared: PolicyContext) -> StackChange:
    """Return the change between two stacks, one step per resource: `same` for equal inputs, else an update.

    The property `__replace: [names]` of an example lists the inputs that force a replacement.
    """
    steps: list[ChangeStep] = []
    renamed = {alias: new for new in after for alias in new.options.aliases if alias in before.by_urn}
    former = {new.urn: before.by_urn[alias] for alias, new in renamed.items()}
    for urn in dict.fromkeys([*(urn for urn in before.by_urn if urn not in renamed), *after.by_urn]):
        old, new = before.by_urn.get(urn) or former.get(urn), after.by_urn.get(urn)
        if old is None:
            steps.append(ChangeStep(urn, "create", None, new))
        elif new is None:
            steps.append(ChangeStep(urn, "delete", old, None))
        else:
            keys = sorted(key for key in {*old.props, *new.props} if old.get(key) != new.get(key))
            forced = tuple(new.props.get("__replace", ()))
            kind = "replace" if forced else "update" if keys else "same"
            steps.append(ChangeStep(urn, kind, old, new, tuple(keys), forced))  # type: ignore[arg-type]
    return StackChange(tuple(steps), before, after, shared.cost_of(before), shared.cost_of(after))


def unknown() -> Any:
    """Return the unknown value, for examples with unknown inputs."""
    return UNKNOWN
