"""The data model of a verdict, used by all its outputs.

Amounts are USD per month (730 hours) as `Decimal`. None means unknown or not evaluated, never 0.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct, field

from gpufleet.policy.change import Operation
from gpufleet.policy.rule import Enforcement, Framework, Severity
from gpufleet.spec.policy import Exemption
from gpufleet.verdict.sides import NOTHING, Side

Status = Literal["passed", "failed", "exempted", "disabled", "advisory"]
Effect = Literal["mandatory", "advisory", "exempted"]


class LocatedViolation(Struct, frozen=True):
    """One violation. `resource` is a URN, or "stack" for the whole stack; `file` is relative to the checkout.
    `effect` is the effective level. `message` includes the remedy.
    """

    resource: str
    name: str
    message: str
    remedy: str
    file: str
    line: int
    effect: Effect
    prop: str = ""
    unknown: bool = False


class RuleResult(Struct, frozen=True):
    """A rule with its violations. `note` is the reason if it was not evaluated."""

    name: str
    group: str
    scope: str
    title: str
    why: str
    fix: str
    severity: Severity
    enforcement: Enforcement
    status: Status
    violations: tuple[LocatedViolation, ...] = ()
    framework: Framework | None = None
    note: str = ""


class ChangedResource(Struct, frozen=True):
    """A resource that is created, updated, replaced or deleted, with its owner.

    `diff` names the inputs that differ, `replace_keys` those that force the replacement.
    """

    urn: str
    type: str
    name: str
    operation: Operation
    site: str
    owner: str
    diff: tuple[str, ...] = ()
    replace_keys: tuple[str, ...] = ()
    protected: bool = False


class CostDifference(Struct, frozen=True):
    """A cost line before and after. An amount is None if the line did not exist or has no known price (see
    `reason`). `estimate` is the calculation of an estimated price.
    """

    what: str
    site: str
    owner: str
    before: Decimal | None
    after: Decimal | None
    at_max_before: Decimal | None
    at_max: Decimal | None
    changed: bool
    urn: str = ""
    reason: str = ""
    upfront: Decimal = Decimal(0)
    basis: str = ""
    estimate: str = ""


class Costs(Struct, frozen=True):
    """The cost of the stack with the racks of its fleet. `before` is None without a base.

    Sums omit `unknown` lines and are then lower bounds.
    """

    before: Decimal | None
    after: Decimal
    at_max_before: Decimal | None
    at_max: Decimal
    currency: str
    budget: Decimal | None
    upfront_before: Decimal | None
    upfront: Decimal
    lines: tuple[CostDifference, ...]
    unknown: tuple[CostDifference, ...]
    not_counted: tuple[str, ...]
    oldest_price: dt.date | None
    oldest_price_days: int | None
    estimated: tuple[CostDifference, ...] = ()

    @property
    def increase(self) -> Decimal | None:
        """The monthly cost that the change adds."""
        return None if self.before is None else self.after - self.before


class RackFigures(Struct, frozen=True):
    """The totals of one rack site. None means unknown.

    `power_kw` is the maximum draw of the GPU nodes, `facility_kw` that multiplied by the PUE. `racks` is the
    number of racks needed at the power per rack.
    """

    nodes: int
    gpus: int
    hosts: int
    power_kw: Decimal | None
    facility_kw: Decimal | None
    rack_units: int | None
    racks: int | None


class RackDifference(Struct, frozen=True):
    """A rack site before and after, None if it does not exist."""

    site: str
    before: RackFigures | None
    after: RackFigures | None

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.before != self.after


class ExemptionUse(Struct, frozen=True):
    """An exemption, in force or expired on the day of the verdict, and the number of violations it covers
    (None if its rule was not evaluated).
    """

    exemption: Exemption
    in_force: bool
    used: int | None
    file: str
    line: int


class GuardrailChanges(Struct, frozen=True):
    """Changes to the rules that check the change: files of the policy pack, settings of the fleet."""

    files: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class BaseViolation(Struct, frozen=True):
    """A mandatory violation in the verdict of the base's code."""

    rule: str
    resource: str
    name: str
    message: str
    remedy: str
    file: str
    line: int


class BaseVerdict(Struct, frozen=True):
    """The verdict of the base's code on the data of the change; "none" if it has none, for `reason`."""

    verdict: Literal["pass", "fail", "none"]
    violations: tuple[BaseViolation, ...] = ()
    reason: str = ""


class JudgingCode(Struct, frozen=True):
    """The code that a verdict is computed with.

    `by` is "base" if it is that of the base: the change edits no code, or only its data is judged and
    `left_out` has the files that are not. Otherwise it is "change", and `second` is the verdict of the base's
    code; None if the change has no data to judge.
    """

    by: Literal["base", "change"]
    left_out: tuple[str, ...] = ()
    second: BaseVerdict | None = None


class ComparisonBase(Struct, frozen=True):
    """The base of the comparison: a commit, or the deployed stack."""

    ref: str
    commit: str
    new_environment: bool = False


class OpenChangeCost(Struct, frozen=True):
    """Another open change. If it has no price, `increase` is None and `reason` is set."""

    name: str
    increase: Decimal | None
    reason: str = ""


class Verdict(Struct, frozen=True):
    """The result of `gpufleet check`. `prefix` is the path of the checkout in its repository.

    `after` is the checked fleet with its plan and cost, for reports. `judged_by` is None without a base.
    `assumed` are resource types whose outputs are unknown, since the emulated AWS does not have them.
    """

    environment: str
    engine: str
    judged_at: dt.datetime
    fleet_file: str
    base: ComparisonBase | None
    rules: tuple[RuleResult, ...]
    changes: tuple[ChangedResource, ...]
    unchanged: int
    costs: Costs
    racks: tuple[RackDifference, ...]
    exemptions: tuple[ExemptionUse, ...]
    guard: GuardrailChanges = GuardrailChanges()
    judged_by: JudgingCode | None = None
    assumed: tuple[str, ...] = ()
    open_changes: tuple[OpenChangeCost, ...] = ()
    prefix: str = ""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    after: Side = NOTHING

    @property
    def passed(self) -> bool:
        """Whether no mandatory rule is violated."""
        return not any(rule.status == "failed" for rule in self.rules)

    @property
    def counts(self) -> dict[str, int]:
        """The number of resources per operation, with the names of the stable contract."""
        found = Counter(each.operation for each in self.changes)
        return {
            "create": found["create"],
            "update": found["update"],
            "replace": found["replace"],
            "delete": found["delete"],
            "same": self.unchanged,
        }
