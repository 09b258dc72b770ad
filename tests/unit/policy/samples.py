"""Small rules and resources for the tests of the framework."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from gpufleet.catalog import load_catalog
from gpufleet.policy.context import PolicyContext, RuleContext
from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.rule import Enforcement, Example, Rule, Settings, Violation, resource_rule, stack_rule
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.resource import Resource, ResourceOptions
from gpufleet.resources.stack import Stack
from gpufleet.spec.policy import Exemption

TODAY = dt.date(2031, 6, 15)
BOX = "aws:test/box:Box"
NOTHING = Example(())


class Size(Settings):
    """How large a box may be."""

    most: int = Field(10, ge=1, description="Largest size")


def metadata(**more: Any) -> dict[str, Any]:
    """Metadata of every rule."""
    return {
        "group": "security",
        "title": "Boxes are small",
        "why": "Large ones do not fit.",
        "fix": "Make it smaller.",
        "severity": "low",
        "passes": NOTHING,
        "fails": NOTHING,
        **more,
    }


def small_boxes(**more: Any) -> Rule[Size]:
    """A resource rule with a setting: `size` of a box, at most `most`."""

    @resource_rule("small-boxes", types=(BOX,), settings=Size, **metadata(**more))
    def rule(resource: Resource, context: RuleContext[Size]) -> Iterator[Violation]:
        if resource.get("size", 0) > context.settings.most:
            yield Violation(
                f"size is {resource.show('size')}, and {context.settings.most} is the most",
                "make it smaller",
                prop="size",
            )

    return rule


def few_boxes(name: str = "few-boxes") -> Rule[Settings]:
    """A stack rule: at most one box; the violation is the whole stack's."""

    @stack_rule(name, types=(BOX,), **metadata())
    def rule(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
        del context
        count = len(stack.of_type(BOX))
        if count > 1:
            yield Violation(f"there are {count} boxes, and 1 is the most", "remove one")

    return rule


def broken_rule() -> Rule[Settings]:
    """A rule that raises on everything."""

    @resource_rule("broken", types=(), **metadata())
    def rule(resource: Resource, context: RuleContext[Settings]) -> Iterator[Violation]:
        del context
        yield Violation(str(resource.props["no such property"]), "never")

    return rule


def box(name: str = "box", kind: str = BOX, **props: Any) -> Resource:
    """A resource with the properties, and options as `_protect` and the like are not needed here."""
    return Resource(kind, name, f"urn:pulumi:test::project::{kind}::{name}", props, props)


def ignoring(*paths: str) -> Resource:
    """A box that ignores changes of the paths."""
    return Resource(BOX, "box", "urn:box", {}, {}, ResourceOptions(ignore_changes=paths))


def exemption(**more: Any) -> Exemption:
    """An exemption of small-boxes for the box, in force for another month."""
    return Exemption.model_validate(
        {
            "rule": "small-boxes",
            "resource": "box",
            "reason": "it is the last one",
            "approver": "Ada",
            "expires": TODAY + dt.timedelta(days=30),
            **more,
        }
    )


def shared(**more: Any) -> PolicyContext:
    """The context of a run without a fleet, on a fixed day."""
    now = dt.datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=dt.UTC)
    return PolicyContext(project="project", stack="test", catalog=load_catalog(), now=now, **more)


def judge(
    *rules: Rule[Any],
    enforcement: Enforcement = "mandatory",
    settings: Mapping[str, Any] | None = None,
    exemptions: tuple[Exemption, ...] = (),
) -> RuleEvaluator:
    """A judge with the rules, all enforced alike."""
    configured = [
        ConfiguredRule(rule, enforcement, rule.settings.model_validate(settings or {})) for rule in rules
    ]
    return RuleEvaluator(configured, shared(), exemptions)
