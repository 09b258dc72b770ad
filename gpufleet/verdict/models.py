"""The verdict as data: what all its outputs are written from.

Amounts are USD a month (730 hours) as `Decimal`; None is unknown or not asked, never 0.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from gpufleet.policy.change import Operation
from gpufleet.policy.rule import Enforcement, Framework, Severity
from gpufleet.spec.policy import Exemption
from gpufleet.verdict.sides import NOTHING, Side

Status = Literal["passed", "failed", "exempted", "disabled", "advisory"]
Effect = Literal["mandatory", "advisory", "exempted"]


@dataclass(frozen=True, slots=True)
class LocatedViolation:
    """One violation. `resource` is a URN, or "stack" for the stack as a whole; `file` is relative to
    the checkout. `effect` says how it counts, `message` includes the remedy.
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


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A rule with everything that it found. `note` says why a rule was not asked."""

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


@dataclass(frozen=True, slots=True)
class ChangedResource:
    """A resource that is created, updated, replaced or deleted, and whose it is.

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


@dataclass(frozen=True, slots=True)
class CostDifference:
    """A line of the cost before and after; an amount is None where the line was not there, or has no
    known price (`reason` then says which).
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


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of the stack with the racks of its fleet. `before` is None without anything to compare with.

    Sums leave out what is `unknown`: they are lower bounds then.
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

    @property
    def increase(self) -> Decimal | None:
        """What the change adds to the month."""
        return None if self.before is None else self.after - self.before


@dataclass(frozen=True, slots=True)
class RackFigures:
    """What one rack site comes to. None is unknown: a figure that neither catalog nor fleet file has.

    `power_kw` is the most that the GPU nodes draw, `facility_kw` that times the hall's PUE; `racks` is
    how many it takes at the power that a rack can be fed.
    """

    nodes: int
    gpus: int
    hosts: int
    power_kw: Decimal | None
    facility_kw: Decimal | None
    rack_units: int | None
    racks: int | None


@dataclass(frozen=True, slots=True)
class RackDifference:
    """A rack site before and after; None where it is not there."""

    site: str
    before: RackFigures | None
    after: RackFigures | None

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class ExemptionUse:
    """An exemption: in force or expired on the day of the verdict, and how many violations it covers
    (None where its rule was not asked).
    """

    exemption: Exemption
    in_force: bool
    used: int | None
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class GuardrailChanges:
    """What the change does to the rules that judge it: files of the policy pack, settings of the fleet."""

    files: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonBase:
    """What the verdict compares with: a commit, or what is deployed."""

    ref: str
    commit: str
    new_environment: bool = False


@dataclass(frozen=True, slots=True)
class OpenChangeCost:
    """Another open change; `increase` is None where it could not be priced, and `reason` says why."""

    name: str
    increase: Decimal | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `gpufleet check` says of an environment. `prefix` is where the checkout lies in its repository.

    `after` is the fleet that was judged, with its plan and all that it costs: what pictures are made of.
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
        """How many resources each operation touches, under the names of the stable contract."""
        found = Counter(each.operation for each in self.changes)
        return {
            "create": found["create"],
            "update": found["update"],
            "replace": found["replace"],
            "delete": found["delete"],
            "same": self.unchanged,
        }
