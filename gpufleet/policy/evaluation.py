"""Evaluation of the rules that apply to a resource, a stack or a change, with exemptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.policy import exemptions
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import PolicyContext, RuleContext
from gpufleet.policy.exemptions import ExemptionMatch
from gpufleet.policy.messages import Secrets, printable
from gpufleet.policy.rule import Enforcement, Rule, Scope, Violation
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.spec.policy import Exemption


class RuleViolation(Struct, frozen=True):
    """A violation with its rule, resource and enforcement. `urn` is empty for the whole stack."""

    rule: Rule[Any]
    violation: Violation
    urn: str
    enforcement: Enforcement
    exemption_match: ExemptionMatch | None = None

    @property
    def exempted(self) -> bool:
        """Whether an exemption in force covers it."""
        return self.exemption_match is not None and self.exemption_match.in_force

    @property
    def level(self) -> Enforcement:
        """The effective level: advisory if exempted, mandatory if a remediation did not fix it."""
        if self.exempted:
            return "advisory"
        return "mandatory" if self.enforcement == "remediate" else self.enforcement

    @property
    def message(self) -> str:
        """The message with its exemption."""
        text = self.violation.text
        if self.exemption_match is None:
            return text
        exemption = self.exemption_match.exemption
        if self.exemption_match.in_force:
            return exemptions.text(exemption, text)
        return f"{text} ({self.exemption_match.why_not})"


class RuleEvaluator:
    """Evaluates the enabled rules of one run."""

    def __init__(
        self,
        configured: Iterable[ConfiguredRule],
        shared: PolicyContext,
        exemptions: Sequence[Exemption] = (),
    ) -> None:
        self.shared = shared
        self._exemptions = tuple(exemptions)
        self._today = shared.now.date()
        self._rules: dict[Scope, list[tuple[ConfiguredRule, RuleContext[Any]]]] = {
            "resource": [],
            "stack": [],
            "change": [],
        }
        for each in configured:
            if each.enforcement != "disabled":
                self._rules[each.rule.scope].append((each, RuleContext(each.settings, shared)))
        self._by_type: dict[str, list[tuple[ConfiguredRule, RuleContext[Any]]]] = {}
        self._secrets: tuple[Any, Secrets] | None = None

    def resource(self, resource: Resource) -> list[RuleViolation]:
        """Return the violations of the resource rules."""
        found: list[RuleViolation] = []
        for configured, context in self._of(resource.type):
            found += self._ask(configured, (resource, context), resource.urn, {resource.urn: resource.name})
        return found

    def stack(self, stack: Stack) -> list[RuleViolation]:
        """Return the violations of the stack rules."""
        names = {each.urn: each.name for each in stack}
        return [
            violation
            for configured, context in self._rules["stack"]
            for violation in self._ask(configured, (stack, context), "", names)
        ]

    def change(self, change: StackChange) -> list[RuleViolation]:
        """Return the violations of the change rules."""
        names = {step.urn: step.resource.name for step in change.steps}
        return [
            violation
            for configured, context in self._rules["change"]
            for violation in self._ask(configured, (change, context), "", names)
        ]

    def remediations(self, resource: Resource) -> Iterator[tuple[Rule[Any], Any]]:
        """Yield the rules at level `remediate` that apply to the resource, with their contexts, in order."""
        for configured, context in self._of(resource.type):
            if configured.enforcement == "remediate" and configured.rule.remediate is not None:
                yield configured.rule, context

    def _of(self, kind: str) -> list[tuple[ConfiguredRule, RuleContext[Any]]]:
        known = self._by_type.get(kind)
        if known is None:
            known = self._by_type[kind] = [
                (configured, context)
                for configured, context in self._rules["resource"]
                if not configured.rule.types or kind in configured.rule.types
            ]
        return known

    def _ask(
        self, configured: ConfiguredRule, arguments: tuple[Any, Any], urn: str, names: dict[str, str]
    ) -> Iterator[RuleViolation]:
        rule = configured.rule
        crashed = False
        try:
            violations = list(rule.evaluate(*arguments))
        except Exception as error:
            # A rule that breaks must not let anything pass, by an exemption of the stack neither: that
            # is from what it finds.
            crashed = True
            violations = [
                Violation(
                    f"the rule failed with {type(error).__name__}: {error}",
                    "this is a bug in the rule: report it, and set the rule to advisory to continue",
                    unknown=True,
                )
            ]
        if not violations:
            return
        secrets = self._secrets_of(arguments[0])
        for violation in violations:
            about = violation.urn or urn
            match = exemptions.find(self._exemptions, rule.name, about, names.get(about, ""), self._today)
            clean = replace(
                violation,
                message=printable(secrets.hidden(violation.message)),
                remedy=printable(secrets.hidden(violation.remedy)),
            )
            applied = None if crashed and not about else match
            yield RuleViolation(rule, clean, about, configured.enforcement, applied)

    def _secrets_of(self, evaluated: Resource | Stack | StackChange) -> Secrets:
        """Return the secrets of the evaluated object, computed once for all rules."""
        known = self._secrets
        if known is None or known[0] is not evaluated:
            if isinstance(evaluated, StackChange):
                found = Secrets([*evaluated.before, *evaluated.after])
            else:
                found = Secrets([evaluated] if isinstance(evaluated, Resource) else evaluated)
            known = self._secrets = (evaluated, found)
        return known[1]
