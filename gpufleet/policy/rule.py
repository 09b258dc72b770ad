"""What a rule is: a name, what it is for, what it looks at, and one function to violations.

A rule's file in `policies/rules` holds one function under one of three decorators:
`resource_rule` judges each resource of some types by itself, `stack_rule` the stack as a whole, and
`change_rule` what happens to it (judged by gpufleet alone: Pulumi's protocol does not tell).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

Enforcement = Literal["advisory", "mandatory", "remediate", "disabled"]
Severity = Literal["low", "medium", "high", "critical"]
Scope = Literal["resource", "stack", "change"]
Group = Literal["budget", "tags", "capacity", "security", "change-safety"]


class Settings(BaseModel):
    """Base of a rule's settings: unknown names are errors; fields have defaults and descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid")


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation: what is wrong, by which rule, and what to do.

    `message` gives the value and the rule ("httpTokens is 'optional', and IMDSv2 needs 'required'"),
    `remedy` what to write instead. `urn` names another resource than the one judged (stack and
    change rules; empty is the whole stack). `prop` is the property's path, `fleet_field` the field of
    the fleet file to point at where that is known better than by the resource. `unknown` says that
    the rule failed closed, because a value is not known before the resource exists.
    """

    message: str
    remedy: str
    urn: str = ""
    prop: str = ""
    fleet_field: str = ""
    unknown: bool = False

    @property
    def text(self) -> str:
        """The whole message on one line, as it goes over Pulumi's protocol."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, slots=True)
class Framework:
    """The control of a published framework that the rule answers to."""

    name: str
    control: str
    reference: str


@dataclass(frozen=True, slots=True)
class Example:
    """Resources that a rule judges: shown in its documentation, and judged by its test.

    `resources` are mappings with `type`, `props` and optionally `name`, `options` (camel case as in
    Pulumi: `protect`, `ignoreChanges`), `region` (of the provider), `parent` and `depends` (property
    -> names of resources that it was computed from). A change rule's example has `before` as well, and
    `fleet_before`, `jobs` and `unfinished` (see `StackChange`) where it needs them; an option `aliases` names
    resources of `before`. `settings` are the rule's, `fleet` is a fleet file as a mapping where the rule
    needs one. `open_changes` are other changes that wait to be merged, and the USD that each adds to a month.
    """

    resources: tuple[Mapping[str, Any], ...]
    before: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] | None = None
    fleet: Mapping[str, Any] | None = None
    fleet_before: Mapping[str, Any] | None = None
    jobs: Mapping[str, int] = field(default_factory=dict)
    open_changes: Mapping[str, str] = field(default_factory=dict)
    unfinished: bool = False


@dataclass(frozen=True)
class Rule(Generic[S]):
    """A rule with its metadata; `judge` yields violations. Made by the decorators below.

    `types` are the type tokens that a resource or change rule is asked about (empty: all), and for
    a stack rule those it looks at, so that a test can tell when the program emits none of them.
    A change rule that is a `guard` is enforced as the fleet file before the change says, if that is
    stricter, so that no change can switch it off for itself.
    """

    name: str
    scope: Scope
    group: Group
    title: str
    why: str
    fix: str
    severity: Severity
    enforcement: Enforcement
    types: frozenset[str]
    settings: type[S]
    passes: Example
    fails: Example
    judge: Callable[..., Iterable[Violation]]
    framework: Framework | None = None
    remediate: Callable[[Resource, RuleContext[S]], Mapping[str, Any] | None] | None = None
    fleet_field: str = ""
    guard: bool = False

    @property
    def description(self) -> str:
        """What Pulumi shows of the rule."""
        return f"{self.title}. {self.why}"


def resource_rule(
    name: str, *, types: Iterable[str], **metadata: Any
) -> Callable[[Callable[[Resource, RuleContext[S]], Iterator[Violation]]], Rule[S]]:
    """Make a rule of a function from one resource and a context to violations. See `Rule` for `metadata`.

    Required: `group`, `title`, `why`, `fix`, `severity`, `passes`, `fails`; optional: `enforcement`
    (mandatory), `settings`, `framework`, `remediate`, `fleet_field`, `guard`.
    """
    return lambda judge: _rule(name, "resource", types, judge, metadata)


def stack_rule(
    name: str, *, types: Iterable[str], **metadata: Any
) -> Callable[[Callable[[Stack, RuleContext[S]], Iterator[Violation]]], Rule[S]]:
    """Make a rule of a function from the whole stack and a context to violations; as `resource_rule`."""
    return lambda judge: _rule(name, "stack", types, judge, metadata)


def change_rule(
    name: str, *, types: Iterable[str] = (), **metadata: Any
) -> Callable[[Callable[[StackChange, RuleContext[S]], Iterator[Violation]]], Rule[S]]:
    """Make a rule of a function from a change and a context to violations; as `resource_rule`."""
    return lambda judge: _rule(name, "change", types, judge, metadata)


def _rule(
    name: str, scope: Scope, types: Iterable[str], judge: Callable[..., Any], metadata: Mapping[str, Any]
) -> Rule[Any]:
    return Rule(
        name=name,
        scope=scope,
        types=frozenset(types),
        judge=judge,
        **{"enforcement": "mandatory", "settings": Settings, **metadata},
    )
