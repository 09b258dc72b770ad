"""The definition of a rule: metadata and one function that yields violations.

A file in `policies/rules` has one function with one of three decorators: `resource_rule` for each resource of
some types, `stack_rule` for the stack as a whole, and `change_rule` for the operations on it (only gpufleet
evaluates these, since Pulumi's protocol does not pass them).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, field
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


class Violation(Struct, frozen=True):
    """One violation: the value, the rule, and the remedy.

    `message` gives the value and the rule ("httpTokens is 'optional', but IMDSv2 needs 'required'"), `remedy`
    what to write instead. `urn` is the violating resource in stack and change rules; empty means the whole
    stack. `prop` is the property's path. `fleet_field` is the field of the fleet file to report, if the
    resource does not determine it. `unknown` is True if the rule failed closed because a value is not known
    before the resource exists.
    """

    message: str
    remedy: str
    urn: str = ""
    prop: str = ""
    fleet_field: str = ""
    unknown: bool = False

    @property
    def text(self) -> str:
        """Message and remedy on one line, for Pulumi's protocol."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class Framework(Struct, frozen=True):
    """The control of a published framework that the rule implements."""

    name: str
    control: str
    reference: str


class Example(Struct, frozen=True):
    """Resources of an example, for the documentation and test of a rule.

    `resources` are mappings with `type`, `props` and optionally `name`, `options` (camel case as in Pulumi:
    `protect`, `ignoreChanges`), `region` (of the provider), `parent` and `depends` (property -> names of
    resources that it was computed from). An example of a change rule also has `before`, and optionally
    `fleet_before`, `jobs` and `unfinished` (see `StackChange`); its option `aliases` refers to resources of
    `before`. `settings` are the rule's settings, `fleet` is a fleet file as a mapping. `open_changes` are
    other unmerged changes, with the USD that each adds to a month.
    """

    resources: tuple[Mapping[str, Any], ...]
    before: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] | None = None
    fleet: Mapping[str, Any] | None = None
    fleet_before: Mapping[str, Any] | None = None
    jobs: Mapping[str, int] = field(default_factory=dict)
    open_changes: Mapping[str, str] = field(default_factory=dict)
    unfinished: bool = False


class Rule(Struct, Generic[S], frozen=True):
    """A rule with its metadata; `evaluate` yields violations. The decorators below create it.

    `types` are the type tokens that a resource or change rule applies to (empty: all). For a stack rule they
    are the types it reads, so that a test can detect that the program has none of them. A change rule with
    `guard` has the level of the fleet file before the change if that is stricter, so that a change cannot
    disable it for itself.
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
    evaluate: Callable[..., Iterable[Violation]]
    framework: Framework | None = None
    remediate: Callable[[Resource, RuleContext[S]], Mapping[str, Any] | None] | None = None
    fleet_field: str = ""
    guard: bool = False

    @property
    def description(self) -> str:
        """The description that Pulumi shows."""
        return f"{self.title}. {self.why}"


def resource_rule(
    name: str, *, types: Iterable[str], **metadata: Any
) -> Callable[[Callable[[Resource, RuleContext[S]], Iterator[Violation]]], Rule[S]]:
    """Return a decorator for a function of a resource and a context that yields violations. See `Rule`.

    Required: `group`, `title`, `why`, `fix`, `severity`, `passes`, `fails`; optional: `enforcement`
    (mandatory), `settings`, `framework`, `remediate`, `fleet_field`, `guard`.
    """
    return lambda function: _rule(name, "resource", types, function, metadata)


def stack_rule(
    name: str, *, types: Iterable[str], **metadata: Any
) -> Callable[[Callable[[Stack, RuleContext[S]], Iterator[Violation]]], Rule[S]]:
    """Return a decorator for a function of the whole stack and a context. As `resource_rule`."""
    return lambda function: _rule(name, "stack", types, function, metadata)


def change_rule(
    name: str, *, types: Iterable[str] = (), **metadata: Any
) -> Callable[[Callable[[StackChange, RuleContext[S]], Iterator[Violation]]], Rule[S]]:
    """Return a decorator for a function of a change and a context. As `resource_rule`."""
    return lambda function: _rule(name, "change", types, function, metadata)


def _rule(
    name: str, scope: Scope, types: Iterable[str], evaluate: Callable[..., Any], metadata: Mapping[str, Any]
) -> Rule[Any]:
    return Rule(
        name=name,
        scope=scope,
        types=frozenset(types),
        evaluate=evaluate,
        **{"enforcement": "mandatory", "settings": Settings, **metadata},
    )
