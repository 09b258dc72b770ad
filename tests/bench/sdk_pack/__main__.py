"""The same rules on the policy SDK's own server: the peer of `gpufleet.policy.server`.

Each rule is one policy that passes the SDK's view of a resource to the rule's function. The judging
code is the same; the difference is who unpacks the protocol, and how often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyPack,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from gpufleet.policy.context import RuleContext
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.rule import Rule
from gpufleet.policy.settings import configure
from gpufleet.resources.resource import ProviderInstance, Resource, ResourceOptions
from gpufleet.resources.stack import Stack
from tests.collected import PROJECT, REGION, ROOT

Report = Callable[..., None]


def resource(args: ResourceValidationArgs | PolicyResource) -> Resource:
    """The rule's view of what the SDK unpacked."""
    provider = args.provider
    in_stack = isinstance(args, PolicyResource)
    refers: Mapping[str, Any] = args.property_dependencies if in_stack else {}
    return Resource(
        type=args.resource_type,
        name=args.name,
        urn=args.urn,
        props=args.props,
        options=ResourceOptions(args.opts.protect, tuple(args.opts.ignore_changes)),
        provider=ProviderInstance(provider.resource_type, provider.name, provider.urn, provider.props)
        if provider
        else None,
        parent=(args.parent.urn if args.parent else "") if in_stack else args.opts.parent or "",
        property_dependencies={prop: tuple(each.urn for each in found) for prop, found in refers.items()},
    )


def of_resource(rule: Rule[Any], context: RuleContext[Any]) -> Policy:
    """A resource rule as a policy; it gets every resource and judges only its types."""

    def validate(args: ResourceValidationArgs, report: Report) -> None:
        if not rule.types or args.resource_type in rule.types:
            for violation in rule.evaluate(resource(args), context):
                report(violation.text)

    return ResourceValidationPolicy(rule.name, rule.description, validate, EnforcementLevel.MANDATORY)


def of_stack(rule: Rule[Any], context: RuleContext[Any]) -> Policy:
    """A stack rule as a policy."""

    def validate(args: StackValidationArgs, report: Report) -> None:
        for violation in rule.evaluate(Stack(resource(each) for each in args.resources), context):
            report(violation.text, violation.urn or None)

    return StackValidationPolicy(rule.name, rule.description, validate, EnforcementLevel.MANDATORY)


def policies() -> list[Policy]:
    """All rules, as prod's fleet file sets them."""
    stack = open_stack(ROOT, PROJECT, "prod", {"aws:region": REGION}, preview=True)
    assert stack.loaded is not None
    configured = configure(load_rules(ROOT), stack.loaded.spec, stack.loaded.source)
    return [
        (of_resource if each.rule.scope == "resource" else of_stack)(
            each.rule, RuleContext(each.settings, stack.shared)
        )
        for each in configured
        if each.rule.scope != "change" and each.enforcement != "disabled"
    ]


PolicyPack("same-rules", policies())
